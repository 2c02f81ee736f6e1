//! What all functions have in common: settings from the environment, logs and counts, tokens, the platform's own API.
//!
//! A function is a thin door: [`variables`] reads its settings, [`telemetry`] says what it does, [`traces`] tells the
//! platform's traces its steps, [`http`] turns events of
//! function URLs, API Gateway and load balancers into requests for the routes of a server, [`tokens`] lets in who has one,
//! [`aws`] asks the platform, [`results`] puts large answers into the store, [`lazily`] opens the root at the start and again where that failed.

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

/// Time reserved to send a timeout error before the platform ends the invocation; a tenth of the time left where that is less.
const TO_ANSWER: Duration = Duration::from_millis(500);

/// Time that an invocation may spend on its work.
pub fn time_left(context: &Context) -> Duration {
    let left = context.deadline().duration_since(SystemTime::now()).unwrap_or_default();
    left.saturating_sub(TO_ANSWER.min(left / 10))
}

/// The memory of this function, in bytes; 128 MiB where the platform does not say.
pub fn memory_bytes() -> usize {
    let megabytes = std::env::var("AWS_LAMBDA_FUNCTION_MEMORY_SIZE").ok().and_then(|text| text.parse::<usize>().ok());
    megabytes.unwrap_or(128) << 20
}

/// The store that `TIDELAKE_STORE` names.
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
