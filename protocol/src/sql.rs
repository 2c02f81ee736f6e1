//! TDengine's SQL: what statements that write and queries have in common.

mod duration;
mod instant;
mod quotes;

pub use duration::{Duration, Unit};
pub use instant::{FORMS, parse_instant, to_instant};
pub use quotes::DoubleQuotes;
