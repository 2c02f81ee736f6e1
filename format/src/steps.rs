//! Steps: spans of what is done for a request, as traces show them.
//!
//! They stand beside the log: target [`TARGET`], level TRACE, so that a process which sends no traces makes none (a span
//! that nobody takes is one comparison). A step's field `error` says that it failed, and how.

use tracing::{Instrument as _, Span, field};

use crate::error::{Kind, Result};

/// The target of all steps.
pub const TARGET: &str = "tidelake::step";

/// A span that is a step of a request; fields as of [`tracing::span!`].
#[macro_export]
macro_rules! step {
    ($name:literal $(, $($fields:tt)*)?) => {
        tracing::trace_span!(target: $crate::steps::TARGET, $name, error = tracing::field::Empty $(, $($fields)*)?)
    };
}

/// Does a step and says on it whether it failed; that something is not there is an answer.
///
/// # Errors
/// Those of the step.
pub async fn stepped<T>(step: Span, work: impl Future<Output = Result<T>>) -> Result<T> {
    let done = work.instrument(step.clone()).await;
    if let Err(error) = &done
        && !step.is_disabled()
        && error.kind() != Kind::NotFound
    {
        step.record("error", field::display(error));
    }
    done
}
