//! The rows of a result up to a limit.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use arrow::array::RecordBatch;
use futures::{StreamExt, stream, stream::BoxStream};
use tidelake_format::Result;

/// Whether there was more than what went out; known once a result has ended. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(in crate::http) struct Cut(Arc<AtomicBool>);

impl Cut {
    pub(super) fn is_made(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// The first `most` rows. What gives them is dropped at the first row after them, so that nobody computes the rest.
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
