//! Supertables as DataFusion tables, over one snapshot.
//!
//! The path of a scan: the catalog finds the table → [`provider`] classifies the filters ([`filters`]) → [`source`]s
//! are the data files and log blocks of the snapshot ([`reader`], [`tail`]; many small blocks are merged into few,
//! [`tiers`]) → [`series`] unites their series → [`select`] picks the chunks (one series in one source) to read and
//! finds those that overlap in time → [`units`] distributes them over partitions → [`exec`] reads them ([`read`]),
//! merges only overlapping chunks ([`merging`]), filters rows ([`predicate`]) and attaches tags ([`output`]).
//! A sort by time with a limit reads chunks in the order of time ([`first`]), a sort by tags and time reads series by series
//! ([`order`]); tags that a client reads as dictionaries stay
//! dictionaries from the scan to the result ([`tags`]).

mod cache;
mod chain;
mod ends;
mod exec;
mod filters;
mod first;
mod merging;
mod narrow;
mod order;
mod output;
mod predicate;
mod provider;
mod read;
mod reader;
mod select;
mod series;
mod source;
mod spec;
mod spent;
mod tags;
mod tail;
mod tiers;
mod units;
mod view;

pub(crate) use chain::{over_leaf, partitions};
pub(crate) use exec::SeriesScan;
pub(crate) use filters::TimeRange;
pub(crate) use first::ReadFirstRows;
pub(crate) use order::ReadInOrder;
pub(crate) use output::{Decoded, OutputColumn, ticks};
pub(crate) use provider::{Scope, SeriesTable};
pub(crate) use read::{Asked, Columns, Reading};
pub(crate) use reader::{Reader, Total};
pub(crate) use select::{End, Keep, Piece, Selection};
pub(crate) use series::Ranks;
pub(crate) use source::{FileSource, Origin, Source};
pub use spec::ScanSpec;
pub(crate) use spent::Spent;
pub(crate) use tags::{KeepTagDictionaries, TagDictionaries};
pub(crate) use units::{Unit, deal};
pub(crate) use view::View;
