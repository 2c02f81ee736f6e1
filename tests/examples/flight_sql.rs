//! The sample of docs/clients/rust.md.
#![expect(clippy::print_stdout, reason = "a sample shows what it got")]

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, RecordBatch, StringArray, TimestampMillisecondArray};
use arrow::datatypes::Float64Type;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use tonic::transport::Endpoint;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:8086".to_owned());
    let mut client = FlightSqlServiceClient::new(Endpoint::from_shared(url)?.connect().await?);
    client.set_header("database", "home");
    client.execute_update("create database home".to_owned(), None).await?;
    let table = "create stable climate (ts timestamp, temperature double) tags (room varchar(20))";
    client.execute_update(table.to_owned(), None).await?;

    let insert = "insert into climate (tbname, ts, temperature, room) values (?, ?, ?, ?)";
    let mut insert = client.prepare(insert.to_owned(), None).await?;
    let rooms = StringArray::from(vec!["kitchen", "cellar"]);
    insert.set_parameters(RecordBatch::try_from_iter([
        ("tbname", Arc::new(rooms.clone()) as ArrayRef),
        ("ts", Arc::new(TimestampMillisecondArray::from(vec![1_767_254_400_000; 2])) as ArrayRef),
        ("temperature", Arc::new(Float64Array::from(vec![21.5, 12.5])) as ArrayRef),
        ("room", Arc::new(rooms) as ArrayRef),
    ])?)?;
    println!("{} rows", insert.execute_update().await?);
    insert.close().await?;

    let info = client.execute("select room, temperature from climate order by room".to_owned(), None).await?;
    for endpoint in info.endpoint {
        let ticket = endpoint.ticket.ok_or("an endpoint without a ticket")?;
        let batches: Vec<RecordBatch> = client.do_get(ticket).await?.try_collect().await?;
        for batch in &batches {
            let rooms = batch.column(0).as_string::<i32>();
            let temperatures = batch.column(1).as_primitive::<Float64Type>();
            for (room, temperature) in rooms.iter().flatten().zip(temperatures.values()) {
                println!("{room} {temperature}");
            }
        }
    }
    Ok(())
}
