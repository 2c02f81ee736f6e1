//! The table of the nodes of the root: servers that announce themselves, and other log writers with segments above the watermarks.
//! Each execution reads the announcements anew; they do not belong to a snapshot.

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::SchemaRef;
use datafusion::{
    catalog::{TableProvider, streaming::StreamingTable},
    common::Result as DfResult,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_plan::{stream::RecordBatchStreamAdapter, streaming::PartitionStream},
};
use tidelake_format::{
    Error, Result,
    ids::WriterId,
    nodes::{Node, nodes},
};

use super::snapshot::{Columns, Row, int};
use crate::{error::to_datafusion, scan::View};

/// The table's name.
pub(super) const NAME: &str = "nodes";

fn columns() -> Columns {
    Columns {
        texts: vec!["id", "role", "version", "host", "address"],
        numbers: vec!["segments", "bytes"],
        times: vec!["started", "last_seen"],
    }
}

/// The table.
pub(super) fn provider() -> DfResult<Arc<dyn TableProvider>> {
    let schema = columns().schema();
    let part = Part { schema: schema.clone() };
    Ok(Arc::new(StreamingTable::try_new(schema, vec![Arc::new(part)])?))
}

#[derive(Debug)]
struct Part {
    schema: SchemaRef,
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let read = async move {
            let lost = || to_datafusion(Error::internal("statement has no snapshot"));
            let view = context.session_config().get_extension::<View>().ok_or_else(lost)?;
            columns().batch(&rows(&view).await.map_err(to_datafusion)?)
        };
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), futures::stream::once(read)))
    }
}

/// One row for each node that announces itself, and for each other log writer, such as a function, that has segments above the
/// watermarks; for administrators.
async fn rows(view: &View) -> Result<Vec<Row>> {
    if !view.visible.parts().1.is_admin() {
        return Ok(Vec::new());
    }
    // Segments, their bytes, the start of the writer and the time of the newest segment, by writer.
    let mut writers: BTreeMap<String, (u64, u64, i64, i64)> = BTreeMap::new();
    for segment in &view.snapshot.tail {
        let (started_ms, at_ms) = (segment.segment.header.writer_start_ms, segment.modified_ms);
        let of = writers.entry(segment.position.writer.to_string()).or_insert((0, 0, started_ms, at_ms));
        *of = (of.0 + 1, of.1 + segment.bytes, of.2, of.3.max(at_ms));
    }
    let row = |id: &str, role: &str, node: Option<&Node>, (segments, bytes): (u64, u64), times: [i64; 2]| {
        let said = |of: fn(&Node) -> &String| node.map(|node| of(node).clone());
        Row {
            texts: vec![
                Some(id.to_owned()),
                Some(role.to_owned()),
                said(|node| &node.version),
                said(|node| &node.host),
                said(|node| &node.address),
            ],
            numbers: vec![int(segments), int(bytes)],
            times: times.map(Some).to_vec(),
        }
    };
    let mut rows = Vec::new();
    for seen in nodes(view.reader.root().store()).await? {
        let own = seen.node.writers.iter().filter_map(|writer| writers.remove(writer));
        let (segments, bytes) = own.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let role = if seen.node.has_written || segments > 0 { "writer" } else { "reader" };
        rows.push(row(&seen.id, role, Some(&seen.node), (segments, bytes), [seen.node.started_ms, seen.seen_ms]));
    }
    for (id, (segments, bytes, started_ms, at_ms)) in &writers {
        let role = if id.parse().is_ok_and(WriterId::is_bulk) { "bulk ingest" } else { "writer" };
        rows.push(row(id, role, None, (*segments, *bytes), [*started_ms, *at_ms]));
    }
    Ok(rows)
}
