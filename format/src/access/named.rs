//! Rights by the names of databases, as the settings of a process give them.

use std::{collections::BTreeMap, sync::Arc};

use super::Privileges;

/// Every database, in a list of names.
const EVERYWHERE: &str = "*";

/// Privileges on databases of some names, whether or not there are such databases. WRITE includes creating one of that name.
///
/// Names are compared exactly. Those who have these rights are not users: the settings that name the databases are at hand
/// before any database is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Named {
    everywhere: Privileges,
    databases: Arc<BTreeMap<String, Privileges>>,
}

impl Named {
    /// Privileges on every database.
    pub fn everywhere(privileges: Privileges) -> Self {
        Self { everywhere: privileges, ..Self::default() }
    }

    /// WRITE on databases of these names; `*` is every database.
    pub fn write<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Self {
        Self::default().with(Privileges { read: false, write: true }, names)
    }

    /// These and some privileges on databases of these names; `*` is every database.
    #[must_use]
    pub fn with<T: AsRef<str>>(mut self, privileges: Privileges, names: impl IntoIterator<Item = T>) -> Self {
        let databases = Arc::make_mut(&mut self.databases);
        for name in names {
            let known = match name.as_ref() {
                EVERYWHERE => &mut self.everywhere,
                name => databases.entry(name.to_owned()).or_default(),
            };
            *known = known.or(privileges);
        }
        self
    }

    /// The privileges on the database of this name.
    pub(super) fn on(&self, name: &str) -> Privileges {
        self.databases.get(name).copied().unwrap_or_default().or(self.everywhere)
    }
}
