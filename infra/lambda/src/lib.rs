//! Code shared by all functions: settings from the environment, logs and metrics, tokens, the platform's API.
//!
//! A function is a thin layer: [`variables`] reads its settings, [`telemetry`] writes logs and metrics, [`traces`]
//! sends steps to the platform's traces, [`http`] converts events of function URLs, API Gateway and load balancers to
//! requests for a server's routes, [`tokens`] authenticates by token, [`aws`] sends requests to AWS, [`results`] stores
//! large responses, and [`lazily`] opens the root at the start and retries after a failure.

pub mod aws;
pub mod certificates;
pub mod http;
pub mod lazily;
mod nodelay;
pub mod results;
pub mod telemetry;
pub mod testing;
pub mod tokens;
pub mod traces;
pub mod variables;

use std::time::{Duration, SystemTime};

use lambda_runtime::Context;
use tidelake_format::store::Store;
pub use tidelake_protocol::settings;
use variables::Variables;

/// Time reserved to send a timeout error before the platform ends the invocation; at most a tenth of the time left.
const TO_ANSWER: Duration = Duration::from_millis(500);

/// Time that an invocation may spend on its work.
pub fn time_left(context: &Context) -> Duration {
    let left = context.deadline().duration_since(SystemTime::now()).unwrap_or_default();
    left.saturating_sub(TO_ANSWER.min(left / 10))
}

/// Memory of this function, in bytes; 128 MiB if the platform does not report it.
pub fn memory_bytes() -> usize {
    let megabytes = std::env::var("AWS_LAMBDA_FUNCTION_MEMORY_SIZE").ok().and_then(|text| text.parse::<usize>().ok());
    megabytes.unwrap_or(128) << 20
}

/// Opens the store of `TIDELAKE_STORE`.
pub fn store(variables: &mut Variables<'_>) -> Option<Store> {
    let url = variables.required(settings::STORE.about.variable, "a store such as s3://bucket/prefix")?;
    match Store::open(&url, &[]) {
        Ok(store) => Some(store),
        Err(error) => {
            variables.fault(format!("{}: {error}", settings::STORE.about.variable));
            None
        }
    }
}
