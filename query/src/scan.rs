//! Supertables as DataFusion tables, over one snapshot.
//!
//! The path of a scan: the catalog finds the table → [`provider`] sorts the filters ([`filters`]) → [`source`]s are
//! the files and log blocks that the snapshot holds ([`reader`], [`tail`]; many small blocks as few, [`tiers`]) → [`series`] unites their series → [`select`]
//! finds the chunks (one series in one source) that are asked for, and which of them overlap in time → [`units`] deals
//! them out → [`exec`] reads them ([`read`]), merging only what overlaps ([`merging`]), and attaches tags ([`output`]).

mod cache;
mod chain;
mod exec;
mod filters;
mod merging;
mod narrow;
mod output;
mod provider;
mod read;
mod reader;
mod select;
mod series;
mod source;
mod spec;
mod spent;
mod tail;
mod tiers;
mod units;
mod view;

pub(crate) use chain::{over_leaf, partitions};
pub(crate) use exec::SeriesScan;
pub(crate) use filters::TimeRange;
pub(crate) use output::{Decoded, OutputColumn, ticks};
pub(crate) use provider::{Scope, SeriesTable};
pub(crate) use read::{Asked, Columns, Reading};
pub(crate) use reader::{Reader, Total};
pub(crate) use select::{Keep, Piece, Selection};
pub(crate) use series::Ranks;
pub(crate) use source::{FileSource, Origin, Source};
pub use spec::ScanSpec;
pub(crate) use spent::Spent;
pub(crate) use units::{Unit, deal};
pub(crate) use view::View;
