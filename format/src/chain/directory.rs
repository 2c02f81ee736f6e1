//! The directory of a version: maps section names to pointers, in pages that versions share.

use std::{collections::BTreeMap, sync::Arc};

use super::codec::Pointer;
use crate::ids::Version;

/// Maximum number of entries in a page; a larger page is split.
const MOST: usize = 256;
/// A changed page with fewer entries is merged with the page before it if both fit in one.
const FEW: usize = 64;

/// One page: entries sorted by name.
#[derive(Debug)]
pub(super) struct Page {
    /// Location of the page; `None` until it is stored.
    pub(super) at: Option<Pointer>,
    pub(super) entries: Vec<(Arc<str>, Pointer)>,
}

impl Page {
    pub(super) fn first(&self) -> &str {
        self.entries.first().map_or("", |(name, _)| name)
    }
}

/// All pages, sorted by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Directory {
    pub(super) pages: Vec<Arc<Page>>,
}

impl Directory {
    pub(super) fn get(&self, name: &str) -> Option<Pointer> {
        let page = &self.pages[self.page_of(name)?];
        let at = page.entries.binary_search_by(|(n, _)| n.as_ref().cmp(name)).ok()?;
        Some(page.entries[at].1)
    }

    /// Index of the only page that may hold the name.
    fn page_of(&self, name: &str) -> Option<usize> {
        if self.pages.is_empty() {
            return None;
        }
        Some(self.pages.partition_point(|p| p.first() <= name).saturating_sub(1))
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (&Arc<str>, &Pointer)> {
        self.pages.iter().flat_map(|p| p.entries.iter().map(|(n, at)| (n, at)))
    }

    /// The entries whose names start with `prefix`, by name.
    pub(super) fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a Arc<str>, &'a Pointer)> {
        let from = self.page_of(prefix).unwrap_or(0);
        self.pages[from.min(self.pages.len())..]
            .iter()
            .flat_map(|p| p.entries.iter().map(|(n, at)| (n, at)))
            .skip_while(move |(n, _)| n.as_ref() < prefix)
            .take_while(move |(n, _)| n.starts_with(prefix))
    }

    /// Applies changes. Pages without changes stay as they are and keep their location.
    pub(super) fn apply(&mut self, changes: BTreeMap<Arc<str>, Option<Pointer>>) {
        let mut by_page: BTreeMap<usize, Vec<(Arc<str>, Option<Pointer>)>> = BTreeMap::new();
        for (name, change) in changes {
            by_page.entry(self.page_of(&name).unwrap_or(0)).or_default().push((name, change));
        }
        let mut pages: Vec<Arc<Page>> = Vec::with_capacity(self.pages.len() + 1);
        for i in 0..self.pages.len().max(1) {
            let Some(changes) = by_page.remove(&i) else {
                pages.extend(self.pages.get(i).cloned());
                continue;
            };
            let old = self.pages.get(i).map_or(&[][..], |p| &p.entries);
            let mut entries: BTreeMap<Arc<str>, Pointer> = old.iter().cloned().collect();
            for (name, change) in changes {
                match change {
                    Some(at) => entries.insert(name, at),
                    None => entries.remove(&name),
                };
            }
            let mut entries: Vec<_> = entries.into_iter().collect();
            if entries.len() < FEW
                && let Some(last) = pages.pop_if(|last| last.entries.len() + entries.len() <= MOST)
            {
                entries.splice(0..0, last.entries.iter().cloned());
            }
            let parts = entries.len().div_ceil(MOST).max(1);
            let size = entries.len().div_ceil(parts).max(1);
            pages.extend(entries.chunks(size).map(|c| Arc::new(Page { at: None, entries: c.to_vec() })));
        }
        self.pages = pages;
    }

    /// Clears the location of pages stored in these versions, so that they are stored again.
    pub(super) fn unstore(&mut self, is_victim: impl Fn(Version) -> bool) {
        for page in &mut self.pages {
            if page.at.is_some_and(|at| is_victim(at.version)) {
                *page = Arc::new(Page { at: None, entries: page.entries.clone() });
            }
        }
    }

    /// Live bytes of sections and stored pages in each version.
    pub(super) fn live_bytes(&self) -> BTreeMap<Version, u64> {
        let mut live = BTreeMap::new();
        let pages = self.pages.iter().filter_map(|p| p.at.as_ref());
        for at in self.entries().map(|(_, at)| at).chain(pages) {
            *live.entry(at.version).or_default() += u64::from(at.length);
        }
        live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u64) -> Pointer {
        Pointer { version: Version(n), offset: n, length: 1, crc: 0, born: Version(n) }
    }

    #[test]
    fn a_directory_agrees_with_a_map_through_any_changes() {
        let (mut directory, mut map) = (Directory::default(), BTreeMap::<Arc<str>, Pointer>::new());
        let mut n = 1_u64;
        let mut random = |below: u64| {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (n >> 33) % below
        };
        for round in 0..300 {
            let grow = round % 100 < 60;
            let changes: BTreeMap<Arc<str>, Option<Pointer>> = (0..random(60))
                .map(|_| {
                    let name = format!("{}/{:04}", ["f", "p", "t"][random(3) as usize], random(1_500));
                    (name.into(), (random(10) < if grow { 9 } else { 1 }).then(|| at(round)))
                })
                .collect();
            for (name, change) in &changes {
                match change {
                    Some(at) => map.insert(name.clone(), *at),
                    None => map.remove(name),
                };
            }
            directory.apply(changes);
            assert!(directory.entries().eq(map.iter()), "round {round}");
            assert!(directory.pages.iter().all(|p| p.entries.len() <= MOST));
        }
        for (name, pointer) in &map {
            assert_eq!(directory.get(name), Some(*pointer));
        }
        assert_eq!(directory.get("f/none"), None);
        let of_p: Vec<_> = map.iter().filter(|(n, _)| n.starts_with("p/")).collect();
        assert_eq!(directory.with_prefix("p/").collect::<Vec<_>>(), of_p);
        assert_eq!(directory.with_prefix("zz").count(), 0);
        assert_eq!(Directory::default().with_prefix("a").count(), 0);
    }

    #[test]
    fn a_small_change_leaves_most_pages_where_they_are() {
        let mut directory = Directory::default();
        directory.apply((0..10_000).map(|i| (format!("f/{i:05}").into(), Some(at(1)))).collect());
        for page in &mut directory.pages {
            *page = Arc::new(Page { at: Some(at(1)), entries: page.entries.clone() });
        }
        directory.apply([("f/00500".into(), Some(at(2)))].into());
        assert_eq!(directory.pages.iter().filter(|p| p.at.is_none()).count(), 1);
    }
}
