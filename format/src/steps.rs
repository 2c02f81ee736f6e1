//! Steps: tracing spans of the work done for a request.
//!
//! They are separate from the log: target [`TARGET`], level TRACE, so that a process that exports no traces creates
//! none (a disabled span costs one comparison). The field `error` of a failed step holds the error.

use tracing::{Instrument as _, Span, field};

use crate::error::{Kind, Result};

/// The target of all steps.
pub const TARGET: &str = "tidelake::step";

/// Creates the span of a step; fields as in [`tracing::span!`].
#[macro_export]
macro_rules! step {
    ($name:literal $(, $($fields:tt)*)?) => {
        tracing::trace_span!(target: $crate::steps::TARGET, $name, error = tracing::field::Empty $(, $($fields)*)?)
    };
}

/// Runs a step and records an error in its span; `NotFound` is not recorded as one.
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
