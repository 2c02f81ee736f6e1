//! What requests, time and storage cost, by a table of list prices.

use serde::{Deserialize, Serialize};

use super::platform::{StoreRequests, Used};

/// List prices in US dollars, without free tiers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// The day they were written down.
    pub date: String,
    /// The region they are of.
    pub region: String,
    /// The pages that say them.
    pub sources: Vec<String>,
    /// Of a PUT, COPY, POST or LIST request to S3 Standard.
    pub put: f64,
    /// Of any other request but DELETE, which is free.
    pub get: f64,
    /// Of a GB in S3 Standard for a month.
    pub stored_gigabyte_month: f64,
    /// Of an invocation of a function.
    pub invocation: f64,
    /// Of a GB of memory for a second, on x86.
    pub gigabyte_second: f64,
}

impl Prices {
    /// Those of this tree.
    pub fn listed() -> Self {
        let page = |page: &str| format!("https://aws.amazon.com/{page}/pricing/");
        Self {
            date: "2026-11-22".to_owned(),
            region: "us-east-1".to_owned(),
            sources: vec![page("s3"), page("lambda")],
            put: 0.005 / 1e3,
            get: 0.000_4 / 1e3,
            stored_gigabyte_month: 0.023,
            invocation: 0.20 / 1e6,
            gigabyte_second: 0.000_016_666_7,
        }
    }

    /// Of requests to the store.
    pub fn requests(&self, requests: &StoreRequests) -> f64 {
        (requests.put + requests.list) as f64 * self.put + (requests.get + requests.head) as f64 * self.get
    }

    /// Of a function's invocations, their time, and their requests.
    pub fn function(&self, used: &Used) -> f64 {
        used.invocations as f64 * self.invocation
            + used.gigabyte_seconds() * self.gigabyte_second
            + self.requests(&used.store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_rows_in_five_hundred_requests() {
        let store = StoreRequests { put: 500, ..StoreRequests::default() };
        let used = Used { invocations: 500, seconds: 15.0, memory_mb: 512, store, ..Used::default() };
        let cost = Prices::listed().function(&used);
        // 500 PUTs at 5e-6, 500 invocations at 2e-7, 500 × 30.5 ms of half a GB.
        let expected = 0.002_5 + 0.000_1 + 7.625 * 0.000_016_666_7;
        assert!((cost - expected).abs() < 1e-12, "{cost} {expected}");
    }
}
