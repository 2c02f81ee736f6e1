//! The service over a socket, with arrow-flight's own client.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use arrow::{
    array::{Array, AsArray, Int32Array, Int64Array, RecordBatch, StringArray, StringViewArray},
    datatypes::{DataType, Field, Int32Type, Int64Type, Schema, TimeUnit, TimestampNanosecondType},
    ipc::reader::StreamReader,
};
use arrow_flight::{
    Action, CancelFlightInfoRequest, CancelFlightInfoResult, FlightDescriptor, FlightInfo, Ticket,
    encode::FlightDataEncoderBuilder,
    sql::{
        ActionCancelQueryRequest, ActionCancelQueryResult, Any, CommandGetDbSchemas, CommandGetPrimaryKeys,
        CommandGetTables, CommandStatementIngest, CommandStatementQuery, CommandStatementUpdate, ProstMessageExt,
        client::FlightSqlServiceClient,
    },
};
use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use tidelake_format::auth::Gate;
use tokio::net::TcpListener;
use tonic::{
    Code, Request,
    transport::{Channel, Endpoint},
};

use super::{actions, *};
use crate::fixture::{self, Notes, ROWS, START, token};

type Client = FlightSqlServiceClient<Channel>;

/// Starts a server on a free port, with a client in database `w1`.
async fn connect() -> (Client, Arc<Notes>) {
    let (engine, notes) = fixture::engine().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, routes(engine).behind(&Gate::Off)).into_future());
    let channel = Endpoint::new(format!("http://{address}")).unwrap().connect().await.unwrap();
    let mut client = Client::new(channel);
    client.set_header("database", "w1");
    (client, notes)
}

/// The only batch of the only endpoint, which must have the announced schema.
async fn rows(client: &mut Client, info: FlightInfo) -> RecordBatch {
    assert_eq!((info.endpoint.len(), info.endpoint[0].location.len()), (1, 0));
    let announced = info.clone().try_decode_schema().unwrap();
    let mut stream = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    let batches: Vec<RecordBatch> = (&mut stream).try_collect().await.unwrap();
    let streamed = stream.schema().expect("a schema comes first, even without rows").clone();
    assert_eq!(streamed.as_ref(), &announced, "what is streamed is what was announced");
    arrow::compute::concat_batches(&streamed, &batches).unwrap()
}

async fn query(client: &mut Client, sql: &str) -> RecordBatch {
    let info = client.execute(sql.to_owned(), None).await.unwrap();
    rows(client, info).await
}

async fn code_of(client: &mut Client, sql: &str) -> (Code, String) {
    let e = client.execute(sql.to_owned(), None).await.unwrap_err();
    let arrow_flight::error::FlightError::Tonic(status) = e else { panic!("a status is expected") };
    (status.code(), status.message().to_owned())
}

fn integers(batch: &RecordBatch, column: usize) -> Vec<i64> {
    batch.column(column).as_primitive::<Int64Type>().values().to_vec()
}

fn texts(batch: &RecordBatch, column: usize) -> Vec<&str> {
    batch.column(column).as_string::<i32>().iter().flatten().collect()
}

#[tokio::test]
async fn a_query_streams_wire_types_in_the_announced_schema() {
    let (mut client, _) = connect().await;
    let all = query(&mut client, "select * from devices order by devid, ts").await;
    let types: Vec<DataType> = all.schema().fields().iter().map(|f| f.data_type().clone()).collect();
    let ns = DataType::Timestamp(TimeUnit::Nanosecond, None);
    use DataType::{Float32, Int32, Int64, Utf8};
    assert_eq!(types, [ns, Int32, Float32, Int64, Int64, Utf8, Int32]);
    let expected: Vec<i64> = (0..3).flat_map(|_| (0..ROWS).map(|row| (START + row * 1_000) * 1_000_000)).collect();
    assert_eq!(all.column(0).as_primitive::<TimestampNanosecondType>().values().to_vec(), expected);
    let temperatures: Vec<i32> = (0..3).flat_map(|d| (0..4).map(move |row| 10 * d + row)).collect();
    assert_eq!(all.column(1).as_primitive::<Int32Type>().values().to_vec(), temperatures);
    assert_eq!(all.schema().field(3).metadata()[crate::wire::TYPE_NAME], "BIGINT UNSIGNED");
    assert_eq!(all.schema().field(5).metadata()[crate::wire::TYPE_NAME], "NCHAR");
}

#[tokio::test]
async fn an_empty_result_has_its_schema_and_a_ticket_works_twice() {
    let (mut client, _) = connect().await;
    let empty = query(&mut client, "select devname from devices where devid = 77").await;
    assert_eq!((empty.num_rows(), empty.num_columns()), (0, 1));
    let info = client.execute("select count(*) from w1.devices".into(), None).await.unwrap();
    for _ in 0..2 {
        assert_eq!(integers(&rows(&mut client, info.clone()).await, 0), [3 * ROWS]);
    }
}

#[tokio::test]
async fn rows_are_compressed_on_request() {
    let (mut client, _) = connect().await;
    let sql = "select value % 10 as n from generate_series(1, 100000)";
    let plain = query(&mut client, sql).await;
    let mut sizes = Vec::new();
    for compression in ["none", "lz4", "zstd"] {
        client.set_header("ipc-compression", compression);
        assert_eq!(query(&mut client, sql).await, plain, "{compression}");
        let info = client.execute(sql.to_owned(), None).await.unwrap();
        let mut request = Request::new(info.endpoint[0].ticket.clone().unwrap());
        request.metadata_mut().insert("ipc-compression", compression.parse().unwrap());
        let data = client.inner_mut().do_get(request).await.unwrap().into_inner();
        let bodies: Vec<usize> = data.map_ok(|message| message.data_body.len()).try_collect().await.unwrap();
        sizes.push(bodies.iter().sum::<usize>());
    }
    assert!(sizes[0] >= 800_000 && sizes[1] < sizes[0] * 3 / 4 && sizes[2] < sizes[0] * 3 / 4, "{sizes:?}");
    client.set_header("ipc-compression", "gzip");
    let (code, message) = code_of(&mut client, sql).await;
    assert_eq!(code, Code::InvalidArgument);
    assert!(message.contains("lz4, zstd or none"), "{message}");
}

#[tokio::test]
async fn tags_are_dictionaries_on_request() {
    let (mut client, _) = connect().await;
    let sql = "select devname, temperature, devname as name from devices order by devid, ts";
    let text = query(&mut client, sql).await;
    client.set_header("tag-encoding", "dictionary");
    let encoded = query(&mut client, sql).await;
    let schema = encoded.schema();
    for (at, field) in schema.fields().iter().enumerate() {
        let expected = if at == 1 { DataType::Int32 } else { crate::wire::tag_dictionary() };
        assert_eq!(*field.data_type(), expected);
        assert_eq!(field.metadata(), text.schema().field(at).metadata());
        let column = arrow::compute::cast(encoded.column(at), text.column(at).data_type()).unwrap();
        assert_eq!(&column, text.column(at));
    }
    let mut statement = client.prepare(format!("{sql} limit 1"), None).await.unwrap();
    assert_eq!(statement.dataset_schema().unwrap().field(0).data_type(), &crate::wire::tag_dictionary());
    let info = statement.execute().await.unwrap();
    assert_eq!(rows(&mut client, info).await.num_rows(), 1);
    client.set_header("tag-encoding", "runs");
    let (code, message) = code_of(&mut client, sql).await;
    assert_eq!(code, Code::InvalidArgument);
    assert!(message.contains("text or dictionary") && message.contains("runs"), "{message}");
}

#[tokio::test]
async fn a_user_error_has_its_own_code_and_message() {
    let (mut client, _) = connect().await;
    for sql in [
        "",
        "  -- nothing",
        "selec 1",
        "select 1; select 2",
        "select nosuch from devices",
        "select * from devices where",
    ] {
        let (code, message) = code_of(&mut client, sql).await;
        assert_eq!(code, Code::InvalidArgument, "{sql:?}: {message}");
    }
    let (code, message) = code_of(&mut client, "select * from nosuch").await;
    assert!(matches!(code, Code::NotFound | Code::InvalidArgument) && message.contains("nosuch"), "{code:?} {message}");
}

#[tokio::test]
async fn a_prepared_query_runs_with_its_parameters() {
    let (mut client, _) = connect().await;
    let sql = "select devid, count(*) from devices where devid >= ? and devname < ? group by devid order by devid";
    let mut prepared = client.prepare(sql.into(), None).await.unwrap();
    let types: Vec<_> = prepared.parameter_schema().unwrap().fields().iter().map(|f| f.data_type().clone()).collect();
    assert_eq!(types, [DataType::Int64, DataType::Utf8]);
    assert_eq!(prepared.dataset_schema().unwrap().fields().len(), 2);
    let parameters = RecordBatch::try_from_iter([
        ("0", Arc::new(Int32Array::from(vec![1])) as _),
        ("1", Arc::new(StringViewArray::from(vec!["dev_2"])) as _),
    ]);
    prepared.set_parameters(parameters.unwrap()).unwrap();
    let info = prepared.execute().await.unwrap();
    let batch = rows(&mut client, info).await;
    assert_eq!((integers(&batch, 0), integers(&batch, 1)), (vec![1], vec![ROWS]));
    // A new value for the same handle.
    let parameters = RecordBatch::try_from_iter([
        ("0", Arc::new(Int64Array::from(vec![0, 2])) as _),
        ("1", Arc::new(StringArray::from(vec!["dev_1", "x"])) as _),
    ]);
    prepared.set_parameters(parameters.unwrap()).unwrap();
    let info = prepared.execute().await.unwrap();
    let batch = rows(&mut client, info).await;
    assert_eq!(integers(&batch, 0), [0, 2], "one result per row of parameters, one after the other");
    prepared.close().await.unwrap();
}

#[tokio::test]
async fn parameters_of_limit_and_time_can_be_bound_and_missing_ones_are_an_error() {
    let (mut client, _) = connect().await;
    let mut prepared =
        client.prepare("select ts from devices where ts > ? order by ts limit ?".into(), None).await.unwrap();
    let schema = prepared.parameter_schema().unwrap().clone();
    assert_eq!(schema.field(0).data_type(), &DataType::Timestamp(TimeUnit::Millisecond, None));
    assert_eq!(schema.field(1).data_type(), &DataType::Int64);
    let info = prepared.execute().await.unwrap();
    let e = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap_err();
    assert!(e.to_string().contains("parameters"), "{e}");
    let parameters = RecordBatch::try_from_iter([
        ("0", Arc::new(arrow::array::TimestampMillisecondArray::from(vec![START])) as _),
        ("1", Arc::new(Int64Array::from(vec![2])) as _),
    ]);
    prepared.set_parameters(parameters.unwrap()).unwrap();
    let info = prepared.execute().await.unwrap();
    let batch = rows(&mut client, info).await;
    assert_eq!(
        batch.column(0).as_primitive::<TimestampNanosecondType>().values().to_vec(),
        [(START + 1_000) * 1_000_000; 2]
    );
}

#[tokio::test]
async fn a_handle_outlives_its_cache_entry() {
    let (mut client, _) = connect().await;
    let mut prepared = client.prepare("select count(*) from devices".into(), None).await.unwrap();
    // A different server over an equal root has no entry for the handle, as after a restart.
    let info = prepared.execute().await.unwrap();
    let (mut other, _) = connect().await;
    assert_eq!(integers(&rows(&mut other, info).await, 0), [3 * ROWS]);
}

#[tokio::test]
async fn every_form_of_update_reaches_the_writer_and_returns_a_token() {
    let (mut client, notes) = connect().await;
    let insert = "insert into d0 values (now, 1, 2, 3)";
    assert_eq!(client.execute_update(insert.into(), None).await.unwrap(), 1);
    // ADBC executes DML as a query: the result has the announced schema.
    let batch = query(&mut client, insert).await;
    assert_eq!((batch.schema().field(0).name().as_str(), integers(&batch, 0)), ("affected_rows", vec![1]));
    let mut prepared = client.prepare("insert into d0 values (?, ?, 2, 3)".into(), None).await.unwrap();
    assert_eq!(prepared.dataset_schema().unwrap().fields().len(), 0, "JDBC recognises an update by its empty schema");
    assert_eq!(prepared.parameter_schema().unwrap().fields().len(), 2);
    let parameters = RecordBatch::try_from_iter([
        ("0", Arc::new(Int64Array::from(vec![START, START + 1])) as _),
        ("1", Arc::new(StringViewArray::from(vec!["1", "2"])) as _),
    ]);
    prepared.set_parameters(parameters.unwrap()).unwrap();
    assert_eq!(prepared.execute_update().await.unwrap(), 2);
    let executed = notes.executed.lock();
    assert_eq!(executed.len(), 3);
    assert!(executed.iter().all(|(database, ..)| database.as_deref() == Some("w1")));
    let bound = executed[2].2.as_ref().unwrap();
    assert_eq!((integers(bound, 0), texts(bound, 1)), (vec![START, START + 1], vec!["1", "2"]));
}

/// The descriptor of a statement that is executed as a query.
fn described(sql: &str) -> FlightDescriptor {
    let command = CommandStatementQuery { query: sql.into(), transaction_id: None };
    FlightDescriptor::new_cmd(command.as_any().encode_to_vec())
}

#[tokio::test]
async fn an_update_is_executed_by_get_flight_info_and_not_by_its_ticket() {
    let (mut client, notes) = connect().await;
    let insert = "insert into d0 values (now, 1, 2, 3)";
    let executed = || notes.executed.lock().len();
    // GetSchema does not execute it.
    let schema = client.inner_mut().get_schema(Request::new(described(insert))).await.unwrap();
    assert!(!schema.into_inner().schema.is_empty());
    assert_eq!(executed(), 0);
    // GetFlightInfo does: a driver may never fetch the rows.
    let reply = client.inner_mut().get_flight_info(Request::new(described(insert))).await.unwrap();
    assert_eq!(reply.metadata().get("x-tidelake-token").unwrap().to_str().unwrap(), token().to_string());
    assert_eq!(executed(), 1);
    // Each DoGet returns the outcome of the execution.
    for _ in 0..3 {
        assert_eq!(integers(&rows(&mut client, reply.get_ref().clone()).await, 0), [1]);
    }
    assert_eq!(executed(), 1);
    let polled = client.inner_mut().poll_flight_info(Request::new(described(insert))).await.unwrap();
    assert_eq!(polled.metadata().get("x-tidelake-token").unwrap().to_str().unwrap(), token().to_string());
    assert_eq!(integers(&rows(&mut client, polled.into_inner().info.unwrap()).await, 0), [1]);
    assert_eq!(executed(), 2);
    // The same for a prepared update with bound parameters.
    let mut prepared = client.prepare("insert into d0 values (?, ?, 2, 3)".into(), None).await.unwrap();
    let e = prepared.execute().await.unwrap_err();
    assert!(e.to_string().contains("parameters"), "{e}");
    let parameters = RecordBatch::try_from_iter([
        ("0", Arc::new(Int64Array::from(vec![START, START + 1])) as _),
        ("1", Arc::new(Int64Array::from(vec![1, 2])) as _),
    ]);
    prepared.set_parameters(parameters.unwrap()).unwrap();
    let info = prepared.execute().await.unwrap();
    assert_eq!(executed(), 3);
    for _ in 0..2 {
        assert_eq!(integers(&rows(&mut client, info.clone()).await, 0), [2]);
    }
    assert_eq!(executed(), 3);
    // A failing update fails in GetFlightInfo.
    let (code, message) = code_of(&mut client, "insert into nowhere values (1)").await;
    assert!(code == Code::NotFound && message.contains("nowhere"), "{code:?} {message}");
}

#[tokio::test]
async fn a_selected_parameter_has_type_text() {
    let (mut client, _) = connect().await;
    for sql in
        ["select ?", "select ? as a", "select x from (select ? as x) order by x", "select ? union all select 'b'"]
    {
        let mut prepared = client.prepare(sql.into(), None).await.unwrap();
        assert_eq!(prepared.parameter_schema().unwrap().field(0).data_type(), &DataType::Utf8, "{sql}");
        let parameters = RecordBatch::try_from_iter([("0", Arc::new(StringArray::from(vec!["a"])) as _)]);
        prepared.set_parameters(parameters.unwrap()).unwrap();
        let info = prepared.execute().await.unwrap();
        assert_eq!(texts(&rows(&mut client, info).await, 0)[0], "a", "{sql}");
    }
}

#[tokio::test]
async fn parameters_of_a_write_have_the_types_of_its_columns() {
    let (mut client, _) = connect().await;
    let prepared = client.prepare("insert into d0 values (?, ?, ?)".into(), None).await.unwrap();
    let types: Vec<_> = prepared.parameter_schema().unwrap().fields().iter().map(|f| f.data_type().clone()).collect();
    assert_eq!(types, [DataType::Timestamp(TimeUnit::Millisecond, None), DataType::Int64, DataType::Float64]);
}

#[tokio::test]
async fn the_token_of_a_write_is_in_the_reply_and_accepted_by_a_query() {
    let (mut client, _) = connect().await;
    let command = CommandStatementUpdate { query: "insert into d0 values (now, 1, 2, 3)".into(), transaction_id: None };
    let descriptor = arrow_flight::FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let data = arrow_flight::FlightData { flight_descriptor: Some(descriptor), ..Default::default() };
    // A client may wait for the result before it ends its stream.
    let open = stream::iter([data]).chain(stream::pending());
    let reply = client.inner_mut().do_put(Request::new(open)).await.unwrap();
    let found = reply.metadata().get("x-tidelake-token").unwrap().to_str().unwrap().to_owned();
    assert_eq!(found, token().to_string());
    client.set_header("x-tidelake-token", found);
    assert_eq!(integers(&query(&mut client, "select count(*) from devices").await, 0), [3 * ROWS]);
    client.set_header("x-tidelake-token", "nonsense");
    assert_eq!(code_of(&mut client, "select 1").await.0, Code::InvalidArgument);
}

#[tokio::test]
async fn a_bulk_ingest_streams_batches_beyond_four_megabytes() {
    let (mut client, notes) = connect().await;
    let text =
        StringViewArray::from_iter_values((0..100_000).map(|i| format!("a text of a certain length, number {i:020}")));
    let batch = RecordBatch::try_from_iter([("s", Arc::new(text) as _)]).unwrap();
    let command = CommandStatementIngest { table: "notes".into(), ..Default::default() };
    let batches = stream::iter(vec![Ok(batch.clone()), Ok(batch)]);
    assert_eq!(client.execute_ingest(command, batches).await.unwrap(), 200_000);
    let ingested = notes.ingested.lock();
    let (target, batches) = &ingested[0];
    assert_eq!((target.database.as_deref(), target.table.as_str(), target.create), (Some("w1"), "notes", true));
    assert!(batches.iter().all(|b| b.column(0).data_type() == &DataType::Utf8));
}

#[tokio::test]
async fn a_bulk_ingest_without_rows_passes_its_schema() {
    let (mut client, notes) = connect().await;
    let command = CommandStatementIngest { table: "notes".into(), ..Default::default() };
    let schema = Schema::new(vec![Field::new("s", DataType::Utf8View, false), Field::new("n", DataType::Int64, true)]);
    let data = FlightDataEncoderBuilder::new()
        .with_schema(Arc::new(schema))
        .with_flight_descriptor(Some(FlightDescriptor::new_cmd(command.as_any().encode_to_vec())))
        .build(stream::empty());
    let data: Vec<_> = data.try_collect().await.unwrap();
    client.inner_mut().do_put(Request::new(stream::iter(data))).await.unwrap();
    let ingested = notes.ingested.lock();
    let [batch] = ingested[0].1.as_slice() else { panic!("one batch: {:?}", ingested[0].1) };
    let columns: Vec<_> = batch.schema().fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect();
    assert_eq!(columns, [("s".to_owned(), DataType::Utf8), ("n".to_owned(), DataType::Int64)]);
    assert_eq!(batch.num_rows(), 0);
}

#[tokio::test]
async fn metadata_describes_catalog_databases_tables_and_views() {
    let (mut client, _) = connect().await;
    let info = client.get_catalogs().await.unwrap();
    assert_eq!(texts(&rows(&mut client, info).await, 0), ["tidelake"]);
    let command = CommandGetDbSchemas { catalog: None, db_schema_filter_pattern: Some("w%".into()) };
    let info = client.get_db_schemas(command).await.unwrap();
    assert_eq!(texts(&rows(&mut client, info).await, 1), ["w1"]);
    let info = client.get_table_types().await.unwrap();
    assert_eq!(texts(&rows(&mut client, info).await, 0), ["TABLE", "VIEW"]);
    let tables = |types: &[&str]| CommandGetTables {
        table_types: types.iter().map(|t| (*t).to_owned()).collect(),
        include_schema: true,
        ..Default::default()
    };
    // Grafana's table types.
    for types in [&["TABLE"][..], &["BASE TABLE", "table"]] {
        let info = client.get_tables(tables(types)).await.unwrap();
        let batch = rows(&mut client, info).await;
        assert_eq!(
            (texts(&batch, 1), texts(&batch, 2), texts(&batch, 3)),
            (vec!["w1"], vec!["devices"], vec!["TABLE"])
        );
        let announced = batch.column(4).as_binary::<i32>().value(0).to_vec();
        let schema = StreamReader::try_new(std::io::Cursor::new(announced), None).unwrap().schema();
        let selected = query(&mut client, "select * from devices limit 0").await;
        let types = |s: &arrow::datatypes::Schema| {
            s.fields().iter().map(|f| (f.name().clone(), f.data_type().clone())).collect::<Vec<_>>()
        };
        assert_eq!(types(&schema), types(&selected.schema()), "GetTables reports the types that a query streams");
        assert_eq!(schema.field(5).metadata()[crate::wire::TYPE_NAME], "NCHAR");
    }
    let info = client.get_tables(tables(&["VIEW"])).await.unwrap();
    let views = rows(&mut client, info).await;
    assert!(texts(&views, 2).contains(&"tables") && texts(&views, 2).contains(&"columns"), "{:?}", texts(&views, 2));
    let command = CommandGetPrimaryKeys { table: "devices".into(), ..Default::default() };
    let info = client.get_primary_keys(command).await.unwrap();
    assert_eq!(texts(&rows(&mut client, info).await, 3), ["tbname", "ts"]);
    let info = client.get_exported_keys(Default::default()).await.unwrap();
    assert_eq!(rows(&mut client, info).await.num_columns(), 13);
    let info = client.get_sql_info(vec![]).await.unwrap();
    assert_eq!(rows(&mut client, info).await.num_rows(), 71);
    let info = client.get_xdbc_type_info(Default::default()).await.unwrap();
    assert!(rows(&mut client, info).await.num_rows() > 0);
}

#[tokio::test]
async fn a_handshake_succeeds_with_an_empty_stream_and_any_credentials() {
    let (mut client, _) = connect().await;
    for (given, expected) in [
        (None, "Bearer anonymous"),
        (Some("Bearer abc"), "Bearer abc"),
        (Some("Basic eDp5"), "Bearer anonymous"),
        (Some("Bearer None"), "Bearer anonymous"),
    ] {
        let mut request = Request::new(stream::empty());
        if let Some(given) = given {
            request.metadata_mut().insert("authorization", given.parse().unwrap());
        }
        let reply = client.inner_mut().handshake(request).await.unwrap();
        assert_eq!(reply.metadata().get("authorization").unwrap(), expected);
    }
}

#[tokio::test]
async fn an_influxdb_ticket_is_accepted() {
    let (mut client, _) = connect().await;
    let ticket = |json: &str| Ticket { ticket: json.as_bytes().to_vec().into() };
    let sql = ticket(r#"{"database":"w1","sql_query":"select count(*) from devices","query_type":"sql","params":{}}"#);
    let batches: Vec<RecordBatch> = client.do_get(sql).await.unwrap().try_collect().await.unwrap();
    assert_eq!(integers(&batches[0], 0), [3 * ROWS]);
    let influxql = ticket(r#"{"database":"w1","sql_query":"show measurements","query_type":"influxql"}"#);
    let e = client.do_get(influxql).await.unwrap_err();
    assert!(e.to_string().contains("influxql"), "{e}");
    assert!(client.do_get(ticket("{")).await.is_err());
    assert!(client.do_get(ticket("abc")).await.is_err());
}

#[tokio::test]
async fn session_options_live_in_a_cookie() {
    let (client, _) = connect().await;
    let mut client = client.into_inner();
    let text = |text: &str| actions::SessionOptionValue { value: Some(actions::OptionValue::Text(text.into())) };
    let options = [("catalog", "tidelake"), ("schema", "w1"), ("nosuch", "x"), ("time_zone", "Nowhere")];
    let options = actions::SessionOptions { options: options.map(|(k, v)| (k.to_owned(), text(v))).into() };
    let action = Action { r#type: "SetSessionOptions".into(), body: options.encode_to_vec().into() };
    let reply = client.do_action(action).await.unwrap();
    let cookie = reply.metadata().get("set-cookie").unwrap().clone();
    let body = reply.into_inner().message().await.unwrap().unwrap().body;
    let errors = actions::SetSessionOptionsResult::decode(body).unwrap().errors;
    let mut names: Vec<_> = errors.iter().map(|(name, e)| (name.as_str(), e.value)).collect();
    names.sort_unstable();
    assert_eq!(names, [("nosuch", 1), ("time_zone", 2)]);
    let mut request = Request::new(Action { r#type: "GetSessionOptions".into(), body: Default::default() });
    request.metadata_mut().insert("cookie", cookie);
    let body = client.do_action(request).await.unwrap().into_inner().message().await.unwrap().unwrap().body;
    let options = actions::SessionOptions::decode(body).unwrap().options;
    assert_eq!((&options["schema"], &options["catalog"]), (&text("w1"), &text("tidelake")));
    let action = Action { r#type: "BeginTransaction".into(), body: Default::default() };
    assert_eq!(client.do_action(action).await.unwrap_err().code(), Code::Unimplemented);
}

#[tokio::test]
async fn cancel_ends_running_and_planned_queries() {
    let (mut client, _) = connect().await;
    let cancel = |info: &FlightInfo| {
        let request = CancelFlightInfoRequest { info: Some(info.clone()) };
        Action { r#type: "CancelFlightInfo".into(), body: request.encode_to_vec().into() }
    };
    let old = |info: &FlightInfo| {
        let request = ActionCancelQueryRequest { info: info.encode_to_vec().into() };
        Action { r#type: "CancelQuery".into(), body: request.as_any().encode_to_vec().into() }
    };
    let slow = "select count(*) from generate_series(1, 1000000000000) as a(n) where n % 7 = 3";
    let mut prepared = client.prepare(slow.to_owned(), None).await.unwrap();
    let (first, second) = (prepared.execute().await.unwrap(), client.execute(slow.to_owned(), None).await.unwrap());
    for (info, action) in [(&first, cancel(&first)), (&second, old(&second))] {
        let ticket = info.endpoint[0].ticket.clone().unwrap();
        let mut reading = client.clone();
        let running = tokio::spawn(async move { reading.do_get(ticket).await?.try_collect::<Vec<_>>().await });
        let others = "select count(*) from system.queries where sql like '%generate_series%' and rows = 0";
        while integers(&query(&mut client, others).await, 0) != [2] {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let reply = client.inner_mut().do_action(Request::new(action)).await.unwrap().into_inner().message().await;
        let body = reply.unwrap().unwrap().body;
        let status = match CancelFlightInfoResult::decode(body.clone()) {
            Ok(result) if result.status != 0 => result.status,
            _ => Any::decode(body).unwrap().unpack::<ActionCancelQueryResult>().unwrap().unwrap().result,
        };
        assert_eq!(status, 1, "cancelled");
        let error = running.await.unwrap().unwrap_err().to_string();
        assert!(error.contains("killed"), "{error}");
    }
    // A query that was not fetched yet is cancelled too.
    let info = client.execute("select 1".to_owned(), None).await.unwrap();
    client.inner_mut().do_action(Request::new(cancel(&info))).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let Err(error) = client.do_get(ticket).await else { panic!("it was cancelled") };
    assert!(error.to_string().contains("killed"), "{error}");
    // A query that has ended cannot be cancelled.
    let info = client.execute("select 1".to_owned(), None).await.unwrap();
    rows(&mut client, info.clone()).await;
    let error = client.inner_mut().do_action(Request::new(cancel(&info))).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
}

#[tokio::test]
async fn use_sets_the_database_of_calls_with_the_cookie() {
    let (client, _) = connect().await;
    let mut client = client.into_inner();
    let put = |sql: &str| {
        let command = CommandStatementUpdate { query: sql.into(), transaction_id: None };
        let descriptor = arrow_flight::FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
        stream::iter([arrow_flight::FlightData { flight_descriptor: Some(descriptor), ..Default::default() }])
    };
    let reply = client.do_put(Request::new(put("use W1"))).await.unwrap();
    let cookie = reply.metadata().get("set-cookie").unwrap().to_str().unwrap().to_owned();
    let mut client = Client::new_from_inner(client);
    assert_ne!(code_of(&mut client, "select count(*) from devices").await.0, Code::Ok);
    client.set_header("cookie", cookie);
    assert_eq!(integers(&query(&mut client, "select count(*) from devices").await, 0), [3 * ROWS]);
}
