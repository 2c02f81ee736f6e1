//! For tests: what the platform gives a function.

use std::time::{SystemTime, UNIX_EPOCH};

use lambda_runtime::Context;

/// An invocation that has so many milliseconds.
pub fn context(left_ms: u64) -> Context {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut context = Context::default();
    context.request_id = "8476a536-e9f4-11e8-9739-2dfe598c3fcd".to_owned();
    context.deadline = u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_add(left_ms);
    context
}
