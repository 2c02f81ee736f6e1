//! Keeps plans cancellable and their memory counted.
//!
//! DataFusion's operators yield where a plan reads, and reserve most of the memory they hold. Rules over physical plans
//! add the rest: [`yielding`] splits work of joins and functions within one batch, [`divided`] splits aggregations that
//! spill, [`sorts`] moves sort tasks to their own threads; [`held`] counts rows held by windows, joins, recursions and
//! grouping sets, [`wide`] uses batches of few rows for large values, and [`long`] finds plans that need their own
//! threads.

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
