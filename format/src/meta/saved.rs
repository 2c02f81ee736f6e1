//! Saved queries: named statements that a user keeps in the root.
//!
//! Each is a section of its own, `q/<owner>/<name>`, so that nodes that save at the same time never replace each other's
//! queries. The sections are read only when they are listed: other readers of the catalog do not load them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Draft, Root};
use crate::{
    access::Users,
    chain::{self, Change, VersionObject},
    error::{Error, Kind, Result},
    ids::Version,
    schema::check_name,
};

/// The prefix of all sections of saved queries.
pub(super) const PREFIX: &str = "q/";

/// A named statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedQuery {
    /// The text: one or more statements.
    pub statement: String,
    /// The database of unqualified tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// When it was saved, milliseconds since the epoch.
    pub updated_ms: i64,
}

impl SavedQuery {
    /// Maximum number of saved queries of one owner.
    pub const MOST: usize = 100;
    /// Maximum bytes of a statement.
    pub const MAX_STATEMENT: usize = 32 << 10;
    /// Maximum bytes of a name.
    pub const MAX_NAME: usize = 128;

    fn check(&self, name: &str) -> Result<()> {
        let is_name = !name.is_empty()
            && name.len() <= Self::MAX_NAME
            && name.trim() == name
            && !name.chars().any(char::is_control);
        if !is_name {
            let shown: String = name.escape_debug().take(80).collect();
            return Err(Error::invalid(
                "invalid name of a saved query: expected 1 to 128 bytes, no control characters and no space at either end",
            )
            .with("found", format!("{shown} ({} bytes)", name.len())));
        }
        let bytes = self.statement.len();
        if self.statement.trim().is_empty() || bytes > Self::MAX_STATEMENT {
            return Err(Error::invalid("invalid statement of a saved query")
                .with("expected", "1 to 32768 bytes")
                .with("found", format!("{bytes} bytes")));
        }
        self.database.as_deref().map_or(Ok(()), |database| check_name("database", database))
    }
}

/// What a change expects to replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Any query of the name, or none.
    Any,
    /// No query of the name.
    Absent,
    /// Some query of the name.
    Present,
    /// The query that was saved by this version.
    Of(Version),
}

/// Owner of a saved query, as part of a section's name: a user, or every client while authentication is off.
fn prefix(owner: Option<&str>) -> String {
    format!("{PREFIX}{}/", owner.unwrap_or_default())
}

/// The changes of saved queries in a draft, by section.
pub(super) type Changes = BTreeMap<String, Option<SavedQuery>>;

impl Draft {
    /// Saves a query of an owner (`None`: of every client while authentication is off) under a name.
    ///
    /// # Errors
    /// [`Kind::Invalid`] for a name, statement or database that is not allowed, and above [`SavedQuery::MOST`];
    /// [`Kind::Conflict`] if another query than `expected` has the name; [`Kind::NotFound`] if there is no such user.
    pub fn save_query(&mut self, owner: Option<&str>, name: &str, query: SavedQuery, expected: Expected) -> Result<()> {
        query.check(name)?;
        if let Some(owner) = owner.filter(|owner| self.catalog().users().get(owner).is_none()) {
            return Err(Error::not_found("there is no such user").with("user", owner));
        }
        let (known, count) = self.saved_version(owner, name);
        check(name, expected, known)?;
        if known.is_none() && count >= SavedQuery::MOST {
            return Err(Error::invalid("too many saved queries: delete one first")
                .with("expected", format!("at most {}", SavedQuery::MOST))
                .with("found", count));
        }
        self.saved.insert(prefix(owner) + name, Some(query));
        Ok(())
    }

    /// Deletes a saved query.
    ///
    /// # Errors
    /// [`Kind::NotFound`] if the owner has no query of this name; [`Kind::Conflict`] if another one than `expected` has it.
    pub fn delete_saved_query(&mut self, owner: Option<&str>, name: &str, expected: Expected) -> Result<()> {
        let (known, _) = self.saved_version(owner, name);
        if known.is_none() {
            return Err(Error::not_found("no such saved query").with("name", name));
        }
        check(name, expected, known)?;
        self.saved.insert(prefix(owner) + name, None);
        Ok(())
    }

    /// Removes a user with all tokens and saved queries.
    ///
    /// # Errors
    /// As [`Users::remove`].
    pub fn remove_user(&mut self, name: &str) -> Result<()> {
        Users::remove(self.users_mut(), name)?;
        let prefix = prefix(Some(name));
        let stored = self.base().object.iter().flat_map(|object| object.sections(&prefix));
        let stored: Vec<String> = stored.map(|(section, _)| section.to_owned()).collect();
        let pending: Vec<String> = self.saved.keys().filter(|section| section.starts_with(&prefix)).cloned().collect();
        self.saved.extend(stored.into_iter().chain(pending).map(|section| (section, None)));
        Ok(())
    }

    /// The version that saved a query, if there is one, and the number of the owner's queries.
    fn saved_version(&self, owner: Option<&str>, name: &str) -> (Option<Version>, usize) {
        let prefix = prefix(owner);
        let mut versions: BTreeMap<&str, Version> = BTreeMap::new();
        if let Some(object) = &self.base().object {
            versions.extend(object.sections(&prefix).map(|(section, at)| (section, at.born)));
        }
        for (section, query) in self.saved.iter().filter(|(section, _)| section.starts_with(&prefix)) {
            match query {
                Some(_) => versions.insert(section, self.version()),
                None => versions.remove(section.as_str()),
            };
        }
        (versions.get((prefix.clone() + name).as_str()).copied(), versions.len())
    }
}

fn check(name: &str, expected: Expected, found: Option<Version>) -> Result<()> {
    let said = match (expected, found) {
        (Expected::Any, _) | (Expected::Absent, None) | (Expected::Present, Some(_)) => return Ok(()),
        (Expected::Of(version), Some(found)) if version == found => return Ok(()),
        (Expected::Absent, Some(_)) => "a saved query of this name exists",
        (Expected::Of(_), Some(_)) => "the saved query was changed meanwhile: load it again",
        (Expected::Present | Expected::Of(_), None) => "the saved query was deleted meanwhile",
    };
    Err(Error::conflict(said).with("name", name))
}

/// The sections of changed saved queries.
pub(super) fn sections(changes: &Changes, base: Option<&VersionObject>) -> Result<BTreeMap<String, Change>> {
    let is_stored = |section: &str| base.is_some_and(|object| object.section(section).is_some());
    let changed = changes.iter().filter_map(|(section, query)| match query {
        Some(query) => Some(Change::json(query).map(|change| (section.clone(), change))),
        None => is_stored(section).then(|| Ok((section.clone(), Change::Remove))),
    });
    changed.collect()
}

impl Root {
    /// The saved queries of an owner in the newest version, by name, each with the version that saved it.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] if the version was collected meanwhile; as [`Root::refresh`].
    pub async fn saved_queries(&self, owner: Option<&str>) -> Result<Vec<(String, SavedQuery, Version)>> {
        let catalog = self.refresh().await?;
        let Some(object) = &catalog.object else { return Ok(Vec::new()) };
        let prefix = prefix(owner);
        let found: Vec<_> = object.sections(&prefix).collect();
        let bodies = self.chain().bodies(object, &found).await.map_err(|error| match error.kind() {
            Kind::NotFound => {
                Error::unavailable("saved queries were replaced while they were read: retry").source(error)
            }
            _ => error,
        })?;
        let read = found.into_iter().zip(bodies).map(|((section, at), body)| {
            let name = section.strip_prefix(&prefix).unwrap_or(section).to_owned();
            Ok((name, chain::parse(at, section, &body)?, at.born))
        });
        read.collect()
    }
}
