//! Test fixtures: contexts and services that the platform provides.

use std::time::{SystemTime, UNIX_EPOCH};

use lambda_runtime::Context;
use object_store::aws::AmazonS3Builder;
use tidelake_format::Result;

use crate::aws::Aws;

/// Context of an invocation with this many milliseconds left.
pub fn context(left_ms: u64) -> Context {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut context = Context::default();
    context.request_id = "8476a536-e9f4-11e8-9739-2dfe598c3fcd".to_owned();
    context.deadline = u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_add(left_ms);
    context
}

/// AWS services at an endpoint, with test credentials.
///
/// # Errors
/// Invalid for an invalid address.
pub fn aws(endpoint: &str) -> Result<Aws> {
    Aws::by(
        AmazonS3Builder::new()
            .with_region("us-east-1")
            .with_endpoint(endpoint)
            .with_access_key_id("test")
            .with_secret_access_key("test"),
    )
}
