//! Faults of requests and their probabilities.

use std::time::Duration;

use crate::process::Life;

/// Operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Creates an object.
    Put,
    /// Reads one.
    Get,
    /// Lists a page.
    List,
    /// Deletes one.
    Delete,
}

/// Fault of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// 500 without any effect.
    Error500,
    /// 503 without any effect.
    Error503,
    /// 429 without any effect.
    Error429,
    /// 409: another request on this key was in progress; no effect.
    Conflict409,
    /// Takes effect, and the client retried after a 500, which returns 412.
    Repeated412,
    /// Takes effect, and its reply is lost.
    LostReply,
    /// Takes effect so late that the client may have given up.
    Late,
    /// A read returns a truncated object.
    Truncated,
    /// A put stores a part of the object and fails.
    Torn,
    /// A put fails because the store is full.
    Full,
}

impl Fault {
    pub(super) fn name(self) -> &'static str {
        match self {
            Fault::Error500 => "error 500",
            Fault::Error503 => "error 503",
            Fault::Error429 => "error 429",
            Fault::Conflict409 => "conflict 409",
            Fault::Repeated412 => "repeated 412",
            Fault::LostReply => "lost reply",
            Fault::Late => "late request",
            Fault::Truncated => "truncated read",
            Fault::Torn => "torn object",
            Fault::Full => "put into a full store",
        }
    }
}

/// Point of a request at which its process is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Before sending.
    Before,
    /// In flight.
    Sent,
    /// After the reply has arrived.
    Answered,
}

/// The course of one request.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    /// Fault of the request.
    pub fault: Option<Fault>,
    /// Latency to the store.
    pub there: Duration,
    /// Latency of the reply.
    pub back: Duration,
    /// Part of a truncated or torn object that arrives, in 1024ths.
    pub part: u64,
    /// Where and how its process is stopped.
    pub strike: Option<(Place, Life)>,
    /// Whether the power fails after the request took effect and before its sync.
    pub cuts: bool,
    /// Number of earlier requests.
    pub(super) number: u64,
    /// Number of earlier power losses.
    pub(super) outages: u64,
}

/// Fault rates, per mille of requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weather {
    /// Faults of all kinds except truncated reads.
    pub faults: u32,
    /// Truncated reads.
    pub truncated: u32,
    /// Kills and freezes of the sending process, in ten thousandths.
    pub strikes: u32,
    /// Power losses during a put, in ten thousandths of puts; only on a directory.
    pub cuts: u32,
    /// Longest usual latency in each direction, in milliseconds.
    pub latency_ms: u64,
}
