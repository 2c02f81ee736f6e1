//! The objects of a Tidelake root and the protocol that changes them: keys, log segments, data files, tag manifests, the chain.
//!
//! `SPEC.md` beside this crate describes the bytes. This crate does not depend on SQL or Flight. Of HTTP it knows only the
//! credentials of a request.
//!
//! Pure (bytes in, values out): [`schema`], [`types`], [`rows`], [`layout`], [`segment`], [`mod@file`], [`tags`],
//! [`merge`]. With the store: [`store`], [`chain`], [`meta`], [`log`], [`snapshot`],
//! [`garbage`], [`mod@check`], [`copy`](mod@copy), [`holders`], [`auth`]. Users and their rights, as values: [`access`].

pub mod access;
pub mod auth;
pub mod chain;
pub mod check;
mod compression;
pub mod copy;
pub mod error;
pub mod file;
pub mod garbage;
pub mod holders;
pub mod ids;
pub mod layout;
pub mod log;
pub mod merge;
pub mod meta;
pub mod nearest;
pub mod nodes;
pub mod offload;
pub mod rollup;
pub mod rows;
pub mod schema;
pub mod segment;
pub mod snapshot;
pub mod steps;
pub mod store;
pub mod tags;
pub mod types;
pub mod units;

pub use error::{Error, Kind, Reason, Result};
