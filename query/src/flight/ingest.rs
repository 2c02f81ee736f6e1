//! Bulk ingest: a stream of batches from the client straight into the writer, which takes them at its own pace.

use std::panic::AssertUnwindSafe;

use arrow::array::RecordBatch;
use arrow_flight::{
    FlightData,
    decode::FlightRecordBatchStream,
    sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption},
};
use futures::{Stream, StreamExt, TryStreamExt, stream::BoxStream};
use tidelake_format::{Error, Result};
use tonic::Status;

use super::{
    guard,
    parameters::plain_batch,
    service::FlightSql,
    statements::no_transaction,
    status::{from_flight, to_flight},
};
use crate::{
    engine::CATALOG,
    session::Session,
    writer::{IfExists, IngestTarget, WriteOutcome},
};

impl FlightSql {
    /// DoPut of batches into a table; all of them become visible together or, after an error, none.
    pub(super) async fn ingest(
        &self,
        session: &Session,
        command: CommandStatementIngest,
        data: impl Stream<Item = Result<FlightData, Status>> + Send + 'static,
    ) -> Result<WriteOutcome> {
        let target = target(session, &command)?;
        let batches = decoded(data).and_then(|batch| async move { plain_batch(&batch) });
        self.engine.writer(session)?.ingest(target, batches.boxed()).await
    }
}

/// The batches of a Flight stream; one that carries no schema at all (an update without parameters) has none.
pub(super) fn decoded(
    data: impl Stream<Item = Result<FlightData, Status>> + Send + 'static,
) -> BoxStream<'static, Result<RecordBatch>> {
    // A message may hold nothing but the command: the decoder would take it for a fault.
    let data = data.try_filter(|message| std::future::ready(!message.data_header.is_empty()));
    let checked = data.map_err(|e| from_flight(e.into())).and_then(|message| async move {
        guard::check(&message)?;
        Ok(message)
    });
    let decoded = FlightRecordBatchStream::new_from_flight_data(checked.map_err(to_flight)).map_err(from_flight);
    // What the check does not see and Arrow does not expect must not end more than this call.
    AssertUnwindSafe(decoded)
        .catch_unwind()
        .map(|caught| caught.unwrap_or_else(|_| Err(Error::invalid("a message is not one of Arrow batches"))))
        .boxed()
}

/// Where an ingest goes. Without options it creates the table when it is missing and appends when it exists.
///
/// # Errors
/// [`Kind::Unsupported`](crate::Kind::Unsupported) for transactions and temporary tables,
/// [`Kind::NotFound`](crate::Kind::NotFound) for a foreign catalog, [`Kind::Invalid`](crate::Kind::Invalid) for an
/// option out of range.
fn target(session: &Session, command: &CommandStatementIngest) -> Result<IngestTarget> {
    no_transaction(command.transaction_id.as_deref())?;
    if command.temporary {
        return Err(Error::unsupported("temporary tables").with("table", &command.table));
    }
    if let Some(catalog) = command.catalog.as_deref().filter(|c| !c.is_empty() && *c != CATALOG) {
        return Err(Error::not_found("no such catalog").with("expected", CATALOG).with("found", catalog));
    }
    let options = command.table_definition_options.unwrap_or_default();
    let out_of_range = |what, found: i32| Error::invalid("an option of the ingest is out of range").with(what, found);
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
    use std::sync::Arc;

    use arrow::{
        array::{ArrayRef, DictionaryArray, Int64Array, StringArray, StringViewArray},
        datatypes::Int32Type,
        ipc::{CompressionType, writer::IpcWriteOptions},
    };
    use arrow_flight::{
        encode::{DictionaryHandling, FlightDataEncoderBuilder},
        sql::TableDefinitionOptions,
    };
    use futures::stream;
    use rand::{Rng, SeedableRng, rngs::StdRng};

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
    fn the_modes_of_adbc_are_the_modes_of_the_writer() {
        let session = Session { database: Some("w1".into()), ..Session::default() };
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

    #[tokio::test]
    async fn damaged_messages_are_errors_and_never_panics() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]))),
            ("s", Arc::new(StringArray::from(vec![Some("ab"), Some(""), None]))),
            ("v", Arc::new(StringViewArray::from(vec!["a view of some length", "x", "y"]))),
            ("d", Arc::new(DictionaryArray::<Int32Type>::from_iter(["k", "l", "k"]))),
        ];
        let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap();
        let encoder = FlightDataEncoderBuilder::new()
            .with_dictionary_handling(DictionaryHandling::Resend)
            .build(stream::iter([Ok(batch)]));
        let good: Vec<FlightData> = encoder.try_collect().await.unwrap();
        let mut random = StdRng::seed_from_u64(7);
        let mut decoded_anyway = 0;
        for round in 0..3_000 {
            let mut data = good.clone();
            if round > 0 {
                let message = &mut data[random.random_range(0..good.len())];
                let part = if random.random() { &mut message.data_header } else { &mut message.data_body };
                let mut bytes = part.to_vec();
                if bytes.is_empty() {
                    continue;
                }
                let at = random.random_range(0..bytes.len());
                match random.random_range(0..3) {
                    0 => bytes[at] ^= 1 << random.random_range(0..8),
                    1 => bytes[at] = random.random(),
                    _ => bytes.truncate(at),
                }
                *part = bytes.into();
            }
            let batches: Result<Vec<RecordBatch>> = decoded(stream::iter(data.into_iter().map(Ok))).try_collect().await;
            match batches.and_then(|batches| batches.iter().map(plain_batch).collect::<Result<Vec<_>>>()) {
                Ok(_) => decoded_anyway += 1,
                Err(e) => assert_eq!(e.kind(), Kind::Invalid, "{e}"),
            }
        }
        assert!(decoded_anyway > 0);
    }

    #[tokio::test]
    async fn a_compressed_buffer_cannot_claim_more_memory_than_there_is() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![7; 1_000]));
        let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME)).unwrap();
        let encoder = FlightDataEncoderBuilder::new().with_options(options).build(stream::iter([Ok(batch)]));
        let mut data: Vec<FlightData> = encoder.try_collect().await.unwrap();
        let read = |data: Vec<FlightData>| decoded(stream::iter(data.into_iter().map(Ok))).try_collect::<Vec<_>>();
        assert_eq!(read(data.clone()).await.unwrap()[0].num_rows(), 1_000);
        let body = data[1].data_body.to_vec();
        let size = body.windows(8).position(|w| w == 8_000i64.to_le_bytes()).unwrap();
        let claim = [&body[..size], &i64::MAX.to_le_bytes(), &body[size + 8..]].concat();
        data[1].data_body = claim.into();
        assert_eq!(read(data).await.unwrap_err().kind(), Kind::Invalid);
    }

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let session = Session::default();
        let temporary = CommandStatementIngest { temporary: true, ..command(1, 1) };
        assert_eq!(target(&session, &temporary).unwrap_err().kind(), Kind::Unsupported);
        let foreign = CommandStatementIngest { catalog: Some("x".into()), ..command(1, 1) };
        assert_eq!(target(&session, &foreign).unwrap_err().kind(), Kind::NotFound);
        let named = CommandStatementIngest { schema: Some("w2".into()), ..command(1, 1) };
        assert_eq!(target(&session, &named).unwrap().database.as_deref(), Some("w2"));
    }
}
