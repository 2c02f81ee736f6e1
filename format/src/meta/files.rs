//! File lists, read on demand and cached while they are used.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::FileEntry;
use crate::{
    chain::{self, Chain, VersionObject},
    error::Result,
    ids::Version,
};

/// Maximum number of cached entries, about 250 bytes each.
const ENTRIES: usize = 200_000;

/// A cache of decoded file lists, keyed by section and the version that wrote it.
#[derive(Debug, Default)]
pub(crate) struct FileLists(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    lists: HashMap<(String, Version), List>,
    entries: usize,
    clock: u64,
}

#[derive(Debug)]
struct List {
    files: Arc<Vec<FileEntry>>,
    used: u64,
}

impl FileLists {
    /// The files that a section lists; empty if the version has no such section.
    pub(crate) async fn read(
        &self,
        chain: &Chain,
        object: &VersionObject,
        section: &str,
    ) -> Result<Arc<Vec<FileEntry>>> {
        let Some(at) = object.section(section) else { return Ok(Arc::default()) };
        let key = (section.to_owned(), at.born);
        {
            let mut kept = self.0.lock();
            kept.clock += 1;
            let now = kept.clock;
            if let Some(list) = kept.lists.get_mut(&key) {
                list.used = now;
                return Ok(list.files.clone());
            }
        }
        let bodies = chain.bodies(object, &[(section, at)]).await?;
        let files: Arc<Vec<FileEntry>> = Arc::new(chain::parse(at, section, &bodies[0])?);
        self.0.lock().keep(key, files.clone());
        Ok(files)
    }
}

impl Kept {
    fn keep(&mut self, key: (String, Version), files: Arc<Vec<FileEntry>>) {
        self.entries += files.len() + 1;
        let list = List { files, used: self.clock };
        if let Some(old) = self.lists.insert(key, list) {
            self.entries -= old.files.len() + 1;
        }
        if self.entries > ENTRIES {
            // Evicts all but the more recently used half: rare, and cheaper than maintaining an order on every access.
            let mut used: Vec<u64> = self.lists.values().map(|l| l.used).collect();
            let middle = used.len() / 2;
            let limit = *used.select_nth_unstable(middle).1;
            self.lists.retain(|_, l| l.used > limit);
            self.entries = self.lists.values().map(|l| l.files.len() + 1).sum();
        }
    }
}
