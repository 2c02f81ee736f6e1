//! What may befall requests, and how often.

use std::time::Duration;

use crate::process::Life;

/// What a request does.
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

/// What befalls a request.
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
    /// It takes effect, and the client repeated it after a 500: 412.
    Repeated412,
    /// It takes effect, and its reply is lost.
    LostReply,
    /// It takes so long that the client may have given up when it takes effect.
    Late,
    /// A read gives less than there is.
    Truncated,
    /// A put leaves a part of the object at its key, and fails.
    Torn,
    /// A put finds no room in the store.
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

/// Where around a request its process is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Before it is sent.
    Before,
    /// While it is on its way.
    Sent,
    /// When its reply is there.
    Answered,
}

/// The course of one request.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    /// What befalls it.
    pub fault: Option<Fault>,
    /// How long it takes to the store.
    pub there: Duration,
    /// How long the reply takes back.
    pub back: Duration,
    /// Which part of a truncated or torn object arrives, in 1024ths.
    pub part: u64,
    /// Where its process is stopped, and how.
    pub strike: Option<(Place, Life)>,
    /// Whether the power fails when it has taken effect and is not synced.
    pub cuts: bool,
    /// How many requests were sent before.
    pub(super) number: u64,
    /// How often the power was lost before.
    pub(super) outages: u64,
}

/// How often which fault strikes, per mille of requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weather {
    /// Faults of all kinds but truncated reads.
    pub faults: u32,
    /// Truncated reads.
    pub truncated: u32,
    /// Deaths and freezes of the process that sends a request, in ten thousandths.
    pub strikes: u32,
    /// Losses of power while an object is put, in ten thousandths of puts; on a directory only.
    pub cuts: u32,
    /// The longest usual latency, each way, in milliseconds.
    pub latency_ms: u64,
}
