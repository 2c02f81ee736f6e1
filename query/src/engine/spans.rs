//! Spans of what a query does on tasks of its own.

use std::any::Any;

use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::future::BoxFuture;
use tracing::{Instrument as _, Span};

type Done = Box<dyn Any + Send>;

/// Gives tasks the span that they were started in.
struct WithinSpan;

impl JoinSetTracer for WithinSpan {
    fn trace_future(&self, task: BoxFuture<'static, Done>) -> BoxFuture<'static, Done> {
        Box::pin(task.in_current_span())
    }

    fn trace_block(&self, task: Box<dyn FnOnce() -> Done + Send>) -> Box<dyn FnOnce() -> Done + Send> {
        let span = Span::current();
        Box::new(move || span.in_scope(task))
    }
}

/// From now on [steps](tidelake_format::steps) of tasks that queries start belong to the query: for processes that send
/// traces, as each task costs an allocation more.
pub fn keep_spans() {
    // The only error is that this was said before.
    let _ = set_join_set_tracer(&WithinSpan);
}
