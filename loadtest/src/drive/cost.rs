//! Cost of requests, function time and storage, computed from list prices.

use serde::{Deserialize, Serialize};

use super::platform::{StoreRequests, Used};

/// List prices in US dollars, without free tiers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// Date of the price list.
    pub date: String,
    /// AWS region of the prices.
    pub region: String,
    /// Web pages of the prices.
    pub sources: Vec<String>,
    /// Price of a PUT, COPY, POST or LIST request to S3 Standard.
    pub put: f64,
    /// Price of any other request; DELETE is free.
    pub get: f64,
    /// Price of a GB-month in S3 Standard.
    pub stored_gigabyte_month: f64,
    /// Price of a function invocation.
    pub invocation: f64,
    /// Price of a GB-second of function memory, on x86.
    pub gigabyte_second: f64,
}

impl Prices {
    /// Returns the prices recorded in this repository.
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

    /// Cost of store requests.
    pub fn requests(&self, requests: &StoreRequests) -> f64 {
        (requests.put + requests.list) as f64 * self.put + (requests.get + requests.head) as f64 * self.get
    }

    /// Cost of a function's invocations, their duration and their store requests.
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
