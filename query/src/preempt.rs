//! Keeps plans stoppable, and what they hold counted.
//!
//! DataFusion's operators yield where a plan reads, and reserve most of what they hold. Rules over physical plans add the rest:
//! [`yielding`] divides what joins and functions do within one batch, [`divided`] aggregations that spill, [`sorts`] what sorts start;
//! [`held`] counts rows that windows, joins, recursions and grouping sets hold, [`wide`] gives large values batches of few rows, and
//! [`long`] finds plans that need threads of their own.

mod divided;
mod held;
mod long;
mod passing;
mod sorts;
mod twice;
mod wide;
mod yielding;

pub(crate) use self::{
    divided::{DivideGroups, Divided, UNDIVIDED_ROWS, most_rows},
    held::CountHeldRows,
    long::computes_long,
    sorts::SortOnThreads,
    wide::context_of,
    yielding::YieldWithinBatches,
};
