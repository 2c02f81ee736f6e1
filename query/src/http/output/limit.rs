//! Truncates a result to a number of rows.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use arrow::array::RecordBatch;
use futures::{StreamExt, stream, stream::BoxStream};
use tidelake_format::Result;

/// Whether a result was truncated; known once its stream has ended. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(in crate::http) struct Cut(Arc<AtomicBool>);

impl Cut {
    pub(super) fn is_made(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// The first `most` rows. The source is dropped at the first row beyond them, so that the rest is not computed.
    pub(super) fn rows(
        &self,
        batches: BoxStream<'static, Result<RecordBatch>>,
        most: usize,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let cut = self.0.clone();
        let left = stream::try_unfold(Some((batches, most)), move |state| {
            let cut = cut.clone();
            async move {
                let Some((mut batches, left)) = state else { return Ok(None) };
                let Some(batch) = batches.next().await.transpose()? else { return Ok(None) };
                if batch.num_rows() <= left {
                    let left = left - batch.num_rows();
                    return Ok(Some((batch, Some((batches, left)))));
                }
                cut.store(true, Relaxed);
                Ok(Some((batch.slice(0, left), None)))
            }
        });
        left.boxed()
    }
}
