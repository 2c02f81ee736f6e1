//! Plan nodes for time series, in addition to DataFusion's, shared by all query languages.
//!
//! A query language adds the logical form of a node to its plan; [`Planner`] creates the physical form. The nodes
//! depend neither on the text nor on the language of a statement: a clause of a new language with the same meaning
//! needs no new node.
//!
//! [`Windows`] are the time buckets that rows are grouped by. [`AssignWindows`](assign::AssignWindows) adds to each row
//! the window that contains it, [`FillGaps`](fill::FillGaps) adds rows for the windows of a group without rows.

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
