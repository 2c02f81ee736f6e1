//! The log, and objects that nobody names.

use std::collections::{BTreeMap, HashSet};

use crate::{
    error::{Kind, Result},
    ids::{FileId, Position, WriterId},
    layout::{self, Part},
    log::VOID_MS,
    meta::{Catalog, Root},
    segment,
};

use super::{CheckReport, Finding};

/// Reads every segment of the log.
pub(super) async fn log(root: &Root, catalog: &Catalog, report: &mut CheckReport) -> Result<()> {
    let store = root.store();
    let mut writers: BTreeMap<WriterId, Vec<(u64, i64)>> = BTreeMap::new();
    for meta in store.list_by_digit(layout::LOG).await? {
        match layout::parse_log(meta.location.as_ref()) {
            Some(p) => writers.entry(p.writer).or_default().push((p.seq, meta.last_modified.timestamp_millis())),
            None => report.note(Finding::new(meta.location.as_ref(), "not an object of Tidelake")),
        }
    }
    for (writer, segments) in writers {
        let watermark = catalog.watermark(writer).map_or(0, |w| w.next);
        let mut expected = watermark;
        for (seq, modified_ms) in segments {
            let position = Position { writer, seq };
            let key = layout::log_key(position);
            let bytes = match store.get(&key).await {
                Ok(bytes) => bytes,
                Err(e) if e.kind() == Kind::NotFound => continue, // folded and collected since it was listed
                Err(e) => return Err(e),
            };
            report.segments += 1;
            report.bytes += bytes.len() as u64;
            let Some(decoded) = report.judge(&key, segment::decode(&key, &bytes))? else {
                expected = seq + 1;
                continue;
            };
            if decoded.header.position != position {
                let finding = Finding::new(&key, "a log segment under another's key");
                report.fault(finding.expected(position).found(decoded.header.position));
            }
            if modified_ms.saturating_sub(decoded.header.writer_start_ms) > VOID_MS {
                report.note(Finding::new(&key, "void: written more than two days after its writer started"));
            }
            let is_end = writer.is_bulk() && seq.checked_sub(Position::END) == Some(expected);
            if seq >= watermark && seq != expected && !is_end {
                let missing = layout::log_key(Position { writer, seq: expected });
                report.note(Finding::new(&key, "above a missing number, so not read").expected(missing));
            } else if seq >= watermark {
                expected = seq + 1;
            }
        }
    }
    Ok(())
}

/// Lists objects that no readable version names. Young ones are those of a fold or merge at work.
pub(super) async fn unnamed(root: &Root, catalog: &Catalog, report: &mut CheckReport) -> Result<()> {
    let store = root.store();
    let mut named: HashSet<(Part, FileId)> = HashSet::new();
    // Versions named before the list: whatever they name is known even when it is replaced meanwhile.
    let versions = root.chain().versions().await?;
    for (version, _) in &versions {
        let older = match root.at(*version, catalog).await {
            Ok(Some(older)) => older,
            Ok(None) => continue,
            // Said already, or kept only because a newer one points into it.
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
            Some(_) => report.note(Finding::new(key, "named by no version: a fold or merge at work, or an orphan")),
        }
    }
    Ok(())
}
