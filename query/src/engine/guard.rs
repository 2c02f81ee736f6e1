//! The stream of a running query: its deadline, its end by KILL, its place among the running ones, its wire types.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::Result,
    execution::{RecordBatchStream, SendableRecordBatchStream},
};
use futures::{Stream, StreamExt, future::BoxFuture};
use tidelake_format::Error;
use tokio::time::{Instant, Sleep, sleep_until};

use tracing::Span;

use super::Place;
use crate::{error::to_datafusion, system, wire::wire_batch};

/// Batches in wire types until the end, an error, the deadline or a KILL; after that the query is gone and its place free.
pub(super) struct Guard {
    schema: SchemaRef,
    running: Option<(SendableRecordBatchStream, Place)>,
    killed: BoxFuture<'static, ()>,
    /// What it is in traces, from its plan to its last batch.
    step: Span,
    deadline: Pin<Box<Sleep>>,
    timeout: Duration,
}

impl Guard {
    pub(super) fn new(
        stream: SendableRecordBatchStream,
        schema: SchemaRef,
        place: Place,
        step: Span,
        deadline: Instant,
        timeout: Duration,
    ) -> Self {
        let killed = Box::pin(place.underway.killed());
        let deadline = Box::pin(sleep_until(deadline));
        Self { schema, running: Some((stream, place)), killed, step, deadline, timeout }
    }
}

/// The error of a query that ran into its deadline.
pub(super) fn too_long(timeout: Duration) -> Error {
    Error::unavailable("the query took longer than a query may").with("limit", format!("{timeout:?}"))
}

impl Stream for Guard {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some((stream, place)) = &mut this.running else { return Poll::Ready(None) };
        let _in_step = this.step.enter();
        if this.deadline.as_mut().poll(cx).is_ready() {
            this.running = None;
            return Poll::Ready(Some(Err(to_datafusion(too_long(this.timeout)))));
        }
        if this.killed.as_mut().poll(cx).is_ready() {
            this.running = None;
            return Poll::Ready(Some(Err(to_datafusion(system::killed()))));
        }
        let next = match stream.poll_next_unpin(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Ok(batch))) => {
                place.underway.sent(batch.num_rows());
                Some(wire_batch(&batch, &this.schema).map_err(to_datafusion))
            }
            Poll::Ready(other) => other,
        };
        if let Some(Err(error)) = &next {
            this.step.record("error", tracing::field::display(error));
        }
        if !matches!(next, Some(Ok(_))) {
            this.running = None;
        }
        Poll::Ready(next)
    }
}

impl RecordBatchStream for Guard {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
