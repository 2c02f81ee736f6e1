//! Resource usage of functions: invocations, duration, memory, and the store requests reported in their logs.

use std::{
    io::{BufRead, BufReader},
    ops::AddAssign,
    process::Child,
    thread::JoinHandle,
};

use serde::{Deserialize, Serialize};

/// Store requests, as reported by functions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRequests {
    /// PUT.
    pub put: u64,
    /// GET.
    pub get: u64,
    /// HEAD.
    pub head: u64,
    /// LIST, one per page.
    pub list: u64,
    /// DELETE.
    pub delete: u64,
    /// Bytes sent.
    pub put_bytes: u64,
    /// Bytes received.
    pub get_bytes: u64,
}

impl StoreRequests {
    /// Returns the difference to an earlier count.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            put: self.put.saturating_sub(before.put),
            get: self.get.saturating_sub(before.get),
            head: self.head.saturating_sub(before.head),
            list: self.list.saturating_sub(before.list),
            delete: self.delete.saturating_sub(before.delete),
            put_bytes: self.put_bytes.saturating_sub(before.put_bytes),
            get_bytes: self.get_bytes.saturating_sub(before.get_bytes),
        }
    }
}

impl AddAssign for StoreRequests {
    fn add_assign(&mut self, more: Self) {
        self.put += more.put;
        self.get += more.get;
        self.head += more.head;
        self.list += more.list;
        self.delete += more.delete;
        self.put_bytes += more.put_bytes;
        self.get_bytes += more.get_bytes;
    }
}

/// Resources used by the environments of a function.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// Number of events.
    pub invocations: u64,
    /// Total duration of the invocations, in seconds.
    pub seconds: f64,
    /// Memory size of the function, in MB; billing multiplies the duration by it.
    pub memory_mb: u32,
    /// Peak memory of one environment, in bytes.
    pub peak_memory: u64,
    /// Store requests.
    pub store: StoreRequests,
}

impl Used {
    /// Adds the usage of another environment.
    pub fn add(&mut self, other: Self) {
        self.invocations += other.invocations;
        self.seconds += other.seconds;
        self.memory_mb = self.memory_mb.max(other.memory_mb);
        self.peak_memory = self.peak_memory.max(other.peak_memory);
        self.store += other.store;
    }

    /// Billed GB-seconds. AWS rounds each invocation up to whole milliseconds; here half a millisecond is added per invocation.
    pub fn gigabyte_seconds(&self) -> f64 {
        (self.seconds + self.invocations as f64 * 0.5e-3) * f64::from(self.memory_mb) / 1024.0
    }

    /// Adds the usage that an exited process has reported.
    pub(super) fn told(&mut self, output: Output) {
        if let Some(told) = output.0.and_then(|thread| thread.join().ok()) {
            self.store += told;
        }
    }
}

/// Reads the output of a process until it exits.
#[derive(Debug, Default)]
pub(super) struct Output(Option<JoinHandle<StoreRequests>>);

impl Output {
    pub(super) fn of(child: &mut Child) -> Self {
        Self(child.stdout.take().map(|output| std::thread::spawn(move || read(BufReader::new(output)))))
    }
}

/// Sums the store requests reported by metric lines, and prints all other lines.
#[expect(clippy::print_stderr, reason = "what functions log is for who runs them")]
fn read(output: impl BufRead) -> StoreRequests {
    #[derive(Deserialize)]
    struct Told {
        #[serde(rename = "StoreRequests", default)]
        store: StoreRequests,
        #[serde(rename = "RequestId")]
        _request_id: String,
    }
    let mut sum = StoreRequests::default();
    for line in output.lines().map_while(Result::ok) {
        match serde_json::from_str::<Told>(&line) {
            Ok(told) => sum += told.store,
            Err(_) => eprintln!("{line}"),
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_summed_over_lines_that_tell_them() {
        let log = "{\"RequestId\":\"a\",\"StoreRequests\":{\"put\":1,\"get\":2,\"head\":0,\"list\":3,\"delete\":0,\"put_bytes\":7,\
                   \"get_bytes\":8}}\nplain\n{\"RequestId\":\"b\",\"RowsWritten\":1}\n\
                   {\"RequestId\":\"c\",\"StoreRequests\":{\"put\":1,\"get\":0,\"head\":0,\"list\":0,\"delete\":5,\"put_bytes\":1,\
                   \"get_bytes\":0}}\n";
        let expected = StoreRequests { put: 2, get: 2, head: 0, list: 3, delete: 5, put_bytes: 8, get_bytes: 8 };
        assert_eq!(read(log.as_bytes()), expected);
    }

    #[test]
    fn time_is_billed_by_memory() {
        let used = Used { invocations: 1_000, seconds: 3.5, memory_mb: 512, ..Used::default() };
        assert!((used.gigabyte_seconds() - 2.0).abs() < 1e-9);
    }
}
