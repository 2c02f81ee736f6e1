//! Rights by database name, from the settings of a process.

use std::{collections::BTreeMap, sync::Arc};

use super::Privileges;

/// The name that means every database.
const EVERYWHERE: &str = "*";

/// Privileges by database name, whether or not the databases exist. WRITE includes creating a database of that name.
///
/// Names are compared exactly. Holders of these rights are not users: the settings name databases that may not exist yet.
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

    /// Adds privileges on databases of these names; `*` is every database.
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
