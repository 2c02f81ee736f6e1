//! Plan nodes for time series, beside DataFusion's own, that all query languages share.
//!
//! A language puts the logical form of a node into its plan; [`Planner`] makes the physical form of it. The nodes know neither the text
//! nor the language of a statement: a clause of a new language that means the same as a node here needs no new node.
//!
//! [`Windows`] are the buckets of time that rows are grouped by. [`AssignWindows`](assign::AssignWindows) adds to each row the window that
//! holds it, [`FillGaps`](fill::FillGaps) adds rows for the windows of a group that have none.

mod assign;
mod fill;
mod planner;
mod windows;

pub(crate) use self::{
    assign::{AssignWindowsExec, START, assign_windows},
    fill::{Fill, FillGapsExec, FillMode, fill_gaps},
    planner::Planner,
    windows::Windows,
};
