//! Checks the log, and lists objects that no version names.

use std::collections::{HashMap, HashSet};

use crate::{
    error::{Error, Kind, Result},
    ids::{FileId, Position},
    layout::{self, Part},
    log::{Listing, TailSegment, VOID_MS},
    meta::{Catalog, Root},
    segment,
};

use super::{CheckReport, Finding};

/// Maximum number of listings of a log that changes.
const ATTEMPTS: usize = 8;

/// Reads every segment of the log and reports missing ones.
pub(super) async fn log(root: &Root, report: &mut CheckReport) -> Result<()> {
    let store = root.store();
    let (mut listed, mut catalog) = (Vec::new(), root.catalog());
    let mut put_ms: HashMap<Position, i64> = HashMap::new();
    for attempt in 0..ATTEMPTS {
        listed = store.list_by_digit(layout::LOG).await?;
        catalog = root.refresh().await?;
        let mut listing = Listing::of(&listed);
        if let Some((pending, damage)) = listing.confirm(root, &catalog).await? {
            put_ms = pending.iter().map(|p| (p.position, p.put_ms())).collect();
            damage.iter().for_each(|d| report.fault(Finding::of("", &d.fault.error)));
            listing.quarantined(&catalog).iter().filter(|f| !listing.holds(f.position)).for_each(|fault| {
                report.fault(Finding::of("", &fault.error));
            });
            break;
        }
        if attempt + 1 == ATTEMPTS {
            return Err(Error::unavailable("the log changes faster than it can be checked").with("attempts", ATTEMPTS));
        }
    }
    for meta in &listed {
        let key = meta.location.as_ref();
        let Some(position) = layout::parse_log(key) else {
            report.note(Finding::new(key, "not an object of Tidelake"));
            continue;
        };
        let bytes = match store.get(key).await {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == Kind::NotFound => continue, // folded and collected since the listing
            Err(e) => return Err(e),
        };
        report.segments += 1;
        report.bytes += bytes.len() as u64;
        let watermark = catalog.watermark(position.writer);
        if watermark.and_then(|w| w.faulty(position.seq)).is_some_and(|f| f.given_up) {
            report.note(Finding::new(key, "given up: its rows are not read"));
            continue;
        }
        let Some(decoded) = report.judge(key, segment::decode(key, &bytes))? else { continue };
        if decoded.header.position != position {
            let finding = Finding::new(key, "log segment is stored under the key of another segment");
            report.fault(finding.expected(position).found(decoded.header.position));
            continue;
        }
        let put_ms = put_ms.get(&position).copied().unwrap_or(meta.last_modified.timestamp_millis());
        if put_ms.saturating_sub(decoded.header.writer_start_ms) > VOID_MS {
            report.note(Finding::new(key, "void: written more than two days after its writer started"));
            continue;
        }
        let segment = TailSegment::new(position, 0, meta.size, decoded);
        if segment.is_after(&catalog) {
            // The version may have been committed since.
            catalog = root.newest().await?;
            if segment.is_after(&catalog) {
                report.fault(Finding::of(key, &segment.version_missing(&catalog)));
            }
        }
    }
    Ok(())
}

/// Notes the objects under `data/` that no readable version names. Recent ones may belong to a running fold or merge.
pub(super) async fn unnamed(root: &Root, catalog: &Catalog, report: &mut CheckReport) -> Result<()> {
    let store = root.store();
    let mut named: HashSet<(Part, FileId)> = HashSet::new();
    // Read the versions before listing the objects: an object that is replaced meanwhile is still known as named.
    let versions = root.chain().versions().await?;
    for (version, _) in &versions {
        let older = match root.at(*version, catalog).await {
            Ok(Some(older)) => older,
            Ok(None) => continue,
            // Already reported, or kept only because a newer version points into it.
            Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::Unsupported | Kind::NotFound) => continue,
            Err(e) => return Err(e),
        };
        for (table, partition) in older.file_lists() {
            let files = match root.files(&older, table, partition).await {
                Ok(files) => files,
                Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::NotFound) => continue,
                Err(e) => return Err(e),
            };
            for file in files.iter() {
                named.insert((Part::Data, file.data.id));
                named.insert((Part::Tags, file.tags.id));
                named.extend(file.rollup.map(|r| (Part::Rollup, r.id)));
            }
        }
    }
    for meta in store.list(layout::DATA).await? {
        let key = meta.location.as_ref();
        match layout::parse_data(key) {
            None => report.note(Finding::new(key, "not an object of Tidelake")),
            Some(found) if named.contains(&(found.part, found.id)) => {}
            Some(_) => report.note(Finding::new(key, "named by no version: of a running fold or merge, or an orphan")),
        }
    }
    Ok(())
}
