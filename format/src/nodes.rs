//! The nodes of a root: servers that write to it or read from it. Each announces itself by an object under `nodes/`, puts another
//! one from time to time, and removes it when it stops. Nothing depends on these objects: they are shown to operators.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Kind, Result},
    layout,
    store::Store,
};

/// A node whose newest object is older than this, in milliseconds, is not listed, and garbage collection deletes the object.
pub const FORGOTTEN_MS: i64 = 86_400_000;
/// The most nodes that are listed.
const MOST: usize = 1_000;
/// Objects that are read at once.
const AT_ONCE: usize = 16;

/// What a node says about itself. Readers ignore fields that they do not know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Version of the program.
    pub version: String,
    /// Name of the machine.
    pub host: String,
    /// Address of HTTP.
    pub address: String,
    /// Start of the process on its own clock, in milliseconds since the epoch.
    pub started_ms: i64,
    /// Whether it has stored rows since its start.
    pub has_written: bool,
    /// IDs of its log writers, 32 hexadecimal digits each.
    pub writers: Vec<String>,
}

/// A node that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// ID of the process, 32 hexadecimal digits.
    pub id: String,
    /// When its newest object was put, on the store's clock, in milliseconds since the epoch.
    pub seen_ms: i64,
    /// What it says about itself.
    pub node: Node,
}

/// Announces one node.
#[derive(Debug)]
pub struct Announcer {
    store: Store,
    id: u128,
    /// The number of the oldest object that may exist, and that of the next one. An attempt that fails may still put its object
    /// later; each has a number of its own, so that it cannot replace another one.
    oldest: u64,
    next: u64,
}

impl Announcer {
    /// A node with a new ID. Nothing is put yet.
    pub fn new(store: Store) -> Self {
        let id = store.ambient().random_id();
        Self { store, id, oldest: 0, next: 0 }
    }

    /// Puts an object and deletes those before: two requests, of which S3 charges the first.
    ///
    /// # Errors
    /// As [`Store::create`] and [`Store::delete`]; the former object is then still there.
    pub async fn announce(&mut self, node: &Node) -> Result<()> {
        let bytes = serde_json::to_vec(node).map_err(|e| Error::internal("cannot encode a node").source(e))?;
        let number = self.next;
        self.next += 1;
        self.store.create(&layout::node_key(self.id, number), Bytes::from(bytes)).await?;
        self.delete_before(number).await
    }

    /// Deletes the objects with smaller numbers.
    async fn delete_before(&mut self, number: u64) -> Result<()> {
        while self.oldest < number {
            self.store.delete(&layout::node_key(self.id, self.oldest)).await?;
            self.oldest += 1;
        }
        Ok(())
    }

    /// Deletes the object of a node that stops.
    ///
    /// # Errors
    /// As [`Store::delete`].
    pub async fn leave(mut self) -> Result<()> {
        self.delete_before(self.next).await
    }
}

/// The nodes that were seen within a day, by their IDs: one list, and one GET for each.
///
/// # Errors
/// [`Kind::Unavailable`].
pub async fn nodes(store: &Store) -> Result<Vec<Seen>> {
    let forgotten_ms = store.ambient().wall_ms().saturating_sub(FORGOTTEN_MS);
    let mut newest: BTreeMap<u128, (u64, i64)> = BTreeMap::new();
    for meta in store.list(layout::NODES).await? {
        let Some((id, put)) = layout::parse_node(meta.location.as_ref()) else { continue };
        let found = (put, meta.last_modified.timestamp_millis());
        if found.1 > forgotten_ms {
            newest.entry(id).and_modify(|known| *known = found.max(*known)).or_insert(found);
        }
    }
    let read = newest.into_iter().take(MOST).map(|(id, (put, seen_ms))| async move {
        match store.get(&layout::node_key(id, put)).await {
            // An object that is not that of a node, or of a later version that changed its meaning, is no fault of the root.
            Ok(bytes) => {
                let node = serde_json::from_slice(&bytes).ok();
                Ok(node.map(|node| Seen { id: format!("{id:032x}"), seen_ms, node }))
            }
            // It has stopped or put another one meanwhile.
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    });
    let found: Vec<Option<Seen>> = stream::iter(read).buffered(AT_ONCE).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str) -> Node {
        Node {
            version: "1".to_owned(),
            host: host.to_owned(),
            address: "127.0.0.1:1".to_owned(),
            started_ms: 7,
            has_written: false,
            writers: vec![format!("{:032x}", 5)],
        }
    }

    #[tokio::test]
    async fn a_node_has_one_object_until_it_leaves() {
        let store = Store::in_memory();
        let (mut one, mut other) = (Announcer::new(store.clone()), Announcer::new(store.clone()));
        for _ in 0..3 {
            one.announce(&node("a")).await.unwrap();
        }
        one.announce(&Node { has_written: true, ..node("a") }).await.unwrap();
        other.announce(&node("b")).await.unwrap();
        assert_eq!(store.list(layout::NODES).await.unwrap().len(), 2);
        let mut found = nodes(&store).await.unwrap();
        found.sort_by(|a, b| a.node.host.cmp(&b.node.host));
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].node, Node { has_written: true, ..node("a") });
        assert!((store.ambient().wall_ms() - found[0].seen_ms).abs() < 60_000);
        one.leave().await.unwrap();
        assert_eq!(nodes(&store).await.unwrap().iter().map(|seen| seen.node.host.as_str()).collect::<Vec<_>>(), ["b"]);
        store.create("nodes/junk", Bytes::from("x")).await.unwrap();
        store.create(&layout::node_key(3, 0), Bytes::from("{}")).await.unwrap();
        assert_eq!(nodes(&store).await.unwrap().len(), 1, "what is no node is ignored");
    }
}
