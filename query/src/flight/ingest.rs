//! Bulk ingest: passes the client's stream of batches to the writer, which applies backpressure.

use arrow_flight::{
    FlightData,
    sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption},
};
use futures::{Stream, StreamExt, TryStreamExt};
use tidelake_format::{Error, Result};
use tonic::Status;

use super::{
    decode::{Bodies, Unpacked, decoded_with_schema},
    parameters::plain_batch,
    service::FlightSql,
    statements::no_transaction,
};
use crate::{
    session::Session,
    writer::{IfExists, IngestTarget, WriteOutcome},
};
use tidelake_protocol::CATALOG;

impl FlightSql {
    /// DoPut of batches into a table. All rows become visible together or, after an error, none.
    pub(super) async fn ingest(
        &self,
        session: &Session,
        command: CommandStatementIngest,
        data: impl Stream<Item = Result<FlightData, Status>> + Send + 'static,
    ) -> Result<WriteOutcome> {
        let target = target(session, &command)?;
        let batches = decoded_with_schema(data, Bodies::Shared, Unpacked::one_by_one(&session.buffer))
            .and_then(|batch| async move { plain_batch(&batch) });
        self.engine.writer(session)?.ingest(target, batches.boxed()).await
    }
}

/// The target of an ingest. Without options it creates a missing table and appends to an existing one.
///
/// # Errors
/// [`Kind::Unsupported`](crate::Kind::Unsupported) for transactions and temporary tables,
/// [`Kind::NotFound`](crate::Kind::NotFound) for a foreign catalog, [`Kind::Invalid`](crate::Kind::Invalid) for an
/// option out of range.
fn target(session: &Session, command: &CommandStatementIngest) -> Result<IngestTarget> {
    no_transaction(command.transaction_id.as_deref())?;
    if command.temporary {
        return Err(Error::unsupported("temporary tables are not supported").with("table", &command.table));
    }
    if let Some(catalog) = command.catalog.as_deref().filter(|c| !c.is_empty() && *c != CATALOG) {
        return Err(Error::not_found("no such catalog").with("expected", CATALOG).with("found", catalog));
    }
    let options = command.table_definition_options.unwrap_or_default();
    let out_of_range = |what, found: i32| Error::invalid("ingest option out of range").with(what, found);
    let create = match TableNotExistOption::try_from(options.if_not_exist) {
        Ok(TableNotExistOption::Unspecified | TableNotExistOption::Create) => true,
        Ok(TableNotExistOption::Fail) => false,
        Err(_) => return Err(out_of_range("if_not_exist", options.if_not_exist)),
    };
    let if_exists = match TableExistsOption::try_from(options.if_exists) {
        Ok(TableExistsOption::Unspecified | TableExistsOption::Append) => IfExists::Append,
        Ok(TableExistsOption::Fail) => IfExists::Fail,
        Ok(TableExistsOption::Replace) => IfExists::Replace,
        Err(_) => return Err(out_of_range("if_exists", options.if_exists)),
    };
    let database = command.schema.clone().filter(|s| !s.is_empty()).or_else(|| session.database.clone());
    Ok(IngestTarget { database, table: command.table.clone(), create, if_exists })
}

#[cfg(test)]
mod tests {
    use arrow_flight::sql::TableDefinitionOptions;
    use tidelake_format::access::Principal;

    use super::*;
    use crate::Kind;

    fn command(if_not_exist: i32, if_exists: i32) -> CommandStatementIngest {
        CommandStatementIngest {
            table: "devices".into(),
            table_definition_options: Some(TableDefinitionOptions { if_not_exist, if_exists }),
            ..Default::default()
        }
    }

    #[test]
    fn adbc_modes_map_to_writer_modes() {
        let session = Session { database: Some("w1".into()), ..Session::of(Principal::AUTH_OFF) };
        // ADBC: create, append, create_append, replace.
        for (options, create, if_exists) in [
            ((2, 1), false, IfExists::Fail),
            ((1, 1), true, IfExists::Fail),
            ((2, 2), false, IfExists::Append),
            ((1, 2), true, IfExists::Append),
            ((1, 3), true, IfExists::Replace),
            ((0, 0), true, IfExists::Append),
        ] {
            let target = target(&session, &command(options.0, options.1)).unwrap();
            assert_eq!((target.create, target.if_exists, target.database.as_deref()), (create, if_exists, Some("w1")));
        }
        assert_eq!(target(&session, &command(9, 1)).unwrap_err().kind(), Kind::Invalid);
    }

    #[test]
    fn unsupported_targets_are_refused() {
        let session = Session::of(Principal::AUTH_OFF);
        let temporary = CommandStatementIngest { temporary: true, ..command(1, 1) };
        assert_eq!(target(&session, &temporary).unwrap_err().kind(), Kind::Unsupported);
        let foreign = CommandStatementIngest { catalog: Some("x".into()), ..command(1, 1) };
        assert_eq!(target(&session, &foreign).unwrap_err().kind(), Kind::NotFound);
        let named = CommandStatementIngest { schema: Some("w2".into()), ..command(1, 1) };
        assert_eq!(target(&session, &named).unwrap().database.as_deref(), Some("w2"));
    }
}
