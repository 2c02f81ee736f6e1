//! Latencies in constant memory: a histogram with buckets 1.6 % wide.

use serde::Serialize;
use std::time::Duration;

/// Number of buckets per power of two.
const STEPS: u64 = 64;
/// Bits of [`STEPS`].
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Histogram of durations, from nanoseconds to centuries, each rounded down by at most 1.6 %.
#[derive(Debug, Clone, Default)]
pub struct Latencies {
    /// Count of each bucket: one per nanosecond below 64 ns, then 64 per power of two.
    buckets: Vec<u64>,
    count: u64,
    total_nanos: u128,
    max: Duration,
}

/// Summary of [`Latencies`] for reports, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, serde::Deserialize)]
pub struct Percentiles {
    /// Number of requests.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 90th percentile.
    pub p90_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// 99.9th percentile.
    pub p999_ms: f64,
    /// Maximum.
    pub max_ms: f64,
}

impl Latencies {
    /// Records one duration.
    pub fn record(&mut self, took: Duration) {
        let bucket = bucket_of(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
        self.total_nanos += took.as_nanos();
        self.max = self.max.max(took);
    }

    /// Adds the durations of another client.
    pub fn merge(&mut self, other: &Latencies) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.total_nanos += other.total_nanos;
        self.max = self.max.max(other.max);
    }

    /// Number of recorded durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Duration that the fraction `rank` (0..=1) of all durations did not exceed, to bucket precision; zero if none are recorded.
    pub fn percentile(&self, rank: f64) -> Duration {
        let wanted = ((self.count as f64 * rank).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return Duration::from_nanos(floor_of(bucket)).min(self.max);
            }
        }
        Duration::ZERO
    }

    /// Returns the summary for a report.
    pub fn percentiles(&self) -> Percentiles {
        let millis = |took: Duration| took.as_secs_f64() * 1e3;
        Percentiles {
            count: self.count,
            mean_ms: self.total_nanos as f64 / 1e6 / self.count.max(1) as f64,
            p50_ms: millis(self.percentile(0.5)),
            p90_ms: millis(self.percentile(0.9)),
            p99_ms: millis(self.percentile(0.99)),
            p999_ms: millis(self.percentile(0.999)),
            max_ms: millis(self.max),
        }
    }
}

fn bucket_of(nanos: u64) -> usize {
    let doubling = u64::from(63 - (nanos | 1).leading_zeros().min(63));
    if doubling < u64::from(STEP_BITS) {
        return nanos as usize;
    }
    let shift = doubling - u64::from(STEP_BITS);
    ((shift + 1) * STEPS + ((nanos >> shift) - STEPS)) as usize
}

fn floor_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    (STEPS + bucket % STEPS) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_at_most_a_sixty_fourth_wide_and_holds_its_floor() {
        let mut values: Vec<u64> = (0..300).collect();
        values.extend(
            (6..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1, (1 << bit) | (1 << (bit - 3))]),
        );
        values.push(u64::MAX);
        for nanos in values {
            let floor = floor_of(bucket_of(nanos));
            assert!(floor <= nanos && nanos - floor <= nanos / 64, "{nanos} fell to {floor}");
            assert_eq!(bucket_of(floor), bucket_of(nanos));
        }
    }

    #[test]
    fn percentiles_of_merged_clients_are_those_of_all_requests() {
        let mut all = Latencies::default();
        for client in 0..4_u64 {
            let mut one = Latencies::default();
            for request in 0..250_u64 {
                one.record(Duration::from_micros(1 + client + request * 4));
            }
            all.merge(&one);
        }
        let found = all.percentiles();
        assert_eq!(found.count, 1000);
        for (found, expected) in [(found.p50_ms, 0.5), (found.p90_ms, 0.9), (found.p99_ms, 0.99), (found.max_ms, 1.0)] {
            assert!((found - expected).abs() / expected < 0.017, "{found} is not {expected}");
        }
        assert!((found.mean_ms - 0.5005).abs() < 1e-9);
        assert_eq!(Latencies::default().percentiles(), Percentiles::default());
    }
}
