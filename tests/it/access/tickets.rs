//! A ticket is usable only by its owner.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, TimestampMillisecondArray};
use arrow_flight::{CancelFlightInfoRequest, FlightClient, FlightInfo};
use tidelake_tests::Flight;

use super::*;

async fn cancel(flight: &mut Flight, info: &FlightInfo) -> Result<(), String> {
    let mut client = FlightClient::new_from_inner(flight.client().inner().clone());
    let token = flight.client().token().unwrap().clone();
    client.add_header("authorization", &format!("Bearer {token}")).unwrap();
    let reply = client.cancel_flight_info(CancelFlightInfoRequest::new(info.clone())).await;
    reply.map(|_| ()).map_err(|error| error.to_string())
}

async fn fetch(flight: &mut Flight, info: &FlightInfo) -> Result<(), String> {
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    match flight.client().do_get(ticket).await {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_nobody_has_fetched_yet_is_cancelled_by_its_owner_or_an_administrator_alone() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::start(directory.path().join("root").to_str().unwrap(), directory.path(), &[]);
    for sql in ["create user bob password 'bob''s own'", "create user eve password 'eve''s own'"] {
        node.rows(ADA, sql).await;
    }
    let mut flights = Vec::new();
    for (user, password) in [("admin", PASSWORD), ("bob", "bob's own"), ("eve", "eve's own")] {
        let mut flight = Flight::connect(&node.server.url()).await;
        flight.client().handshake(user, password).await.unwrap();
        flights.push(flight);
    }
    let [admin, bob, eve] = flights.as_mut_slice() else { panic!("three of them") };
    for owner in [&mut *admin, &mut *bob] {
        let info = owner.client().execute("select 41 + 1".to_owned(), None).await.unwrap();
        let refused = cancel(eve, &info).await.unwrap_err();
        assert!(refused.contains("no query of this FlightInfo"), "{refused}");
        assert_eq!(fetch(owner, &info).await, Ok(()), "it is not cancelled");
    }
    for by_admin in [false, true] {
        let info = bob.client().execute("select 41 + 1".to_owned(), None).await.unwrap();
        cancel(if by_admin { &mut *admin } else { &mut *bob }, &info).await.unwrap();
        assert!(fetch(bob, &info).await.unwrap_err().contains("killed"), "{by_admin}");
    }
    // Another user's attempt with a stolen ticket does not affect the owner's result.
    let info = bob.client().execute("select 41 + 1".to_owned(), None).await.unwrap();
    let _ = fetch(eve, &info).await;
    assert_eq!(fetch(bob, &info).await, Ok(()));
    node.server.stop();
}

/// The JDBC driver binds the values of `execute()` in a separate call before it requests the result.
#[tokio::test(flavor = "multi_thread")]
async fn values_that_a_user_binds_in_one_call_are_inserted_by_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::start(directory.path().join("root").to_str().unwrap(), directory.path(), &[]);
    for sql in ["create database home", "create table home.numbers (ts timestamp, i int)"] {
        node.rows(ADA, sql).await;
    }
    let mut flight = Flight::connect(&node.server.url()).await;
    flight.client().handshake("admin", PASSWORD).await.unwrap();
    let sql = "insert into home.numbers (ts, i) values (?, ?)".to_owned();
    let mut statement = flight.client().prepare(sql, None).await.unwrap();
    for i in 0..10 {
        let times: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1_700_000_000_000 + i64::from(i)]));
        let values: ArrayRef = Arc::new(Int32Array::from(vec![i]));
        let row = RecordBatch::try_from_iter([("ts", times), ("i", values)]).unwrap();
        statement.set_parameters(row).unwrap();
        statement.execute().await.unwrap();
    }
    let found = node.rows(ADA, "select count(*), sum(i) from home.numbers").await;
    assert_eq!(found, [serde_json::json!([10, 45])]);
    node.server.stop();
}
