//! Deleted segments: what their writer does next, and the replies to copies of a request.

use tidelake_format::{
    access::{Named, Principal},
    ids::{Position, Token},
    layout::{self, log_key},
    log::give_up,
};

use super::*;

async fn line(ingest: &Ingest, text: &str) -> Result<Written> {
    super::line(ingest, text, Durability::Stored).await
}

fn position(written: &Written) -> Position {
    match written.token {
        Some(Token::Position(position)) => position,
        other => panic!("{other:?}"),
    }
}

/// The positions of three segments of one writer, with a row each.
async fn three_lines(ingest: &Ingest) -> Vec<Position> {
    let mut written = Vec::new();
    for at in 1..=3 {
        written.push(position(&line(ingest, &format!("cpu value={at} {at}")).await.unwrap()));
    }
    written
}

#[tokio::test]
async fn a_writer_that_lost_a_segment_goes_on_under_another_id_and_nothing_above_the_hole_is_lost() {
    let store = Store::in_memory();
    let ingest = nano(&store, IngestConfig { writers: Some(1), ..config() }).await;
    let mut written = three_lines(&ingest).await;
    let key = log_key(written[1]);
    store.delete(&key).await.unwrap();
    // The hole is not detected yet: this segment is put above it.
    written.push(position(&line(&ingest, "cpu value=4 4").await.unwrap()));
    assert_eq!(written[3].writer, written[0].writer);
    let error = ingest.compact(CompactRequest::Due).await.unwrap_err();
    assert!(error.kind() == Kind::Corrupt && error.to_string().contains(&key), "{error}");
    let after = position(&line(&ingest, "cpu value=5 5").await.unwrap());
    assert_ne!(after.writer, written[0].writer);
    assert_eq!(after.seq, 0);
    give_up(ingest.root(), written[1]).await.unwrap();
    for _ in 0..2 {
        let found = rows(&store, "db", "cpu", &[Token::Position(written[3]), Token::Position(after)]).await;
        assert_eq!(found.keys().map(|(_, ts)| *ts).collect::<Vec<_>>(), [1, 3, 4, 5]);
        ingest.compact(CompactRequest::Full).await.unwrap();
    }
}

#[tokio::test]
async fn a_copy_of_a_request_whose_segment_was_deleted_does_not_give_up_the_rows_of_others() {
    let store = Store::in_memory();
    let ingest = nano(&store, IngestConfig { writers: Some(1), ..config() }).await;
    let keyed = ingest.with_key(Some(IdempotencyKey::new("A").unwrap()));
    let first = position(&line(&keyed, "cpu value=1 1").await.unwrap());
    line(&ingest.with_key(Some(IdempotencyKey::new("B").unwrap())), "cpu value=2 2").await.unwrap();
    store.delete(&log_key(first)).await.unwrap();
    let error = line(&keyed, "cpu value=1 1").await.unwrap_err();
    assert!(error.kind() == Kind::Corrupt && error.to_string().contains(&log_key(first)), "{error}");
    assert_eq!(store.list(layout::IDEM).await.unwrap().len(), 2, "no further attempt");
}

#[tokio::test]
async fn an_administrator_gives_up_a_segment_by_a_statement_and_nobody_else_does() {
    let store = Store::in_memory();
    let ingest = nano(&store, IngestConfig { writers: Some(1), ..config() }).await;
    let written = three_lines(&ingest).await;
    let key = log_key(written[1]);
    let sql = format!("GIVE UP '{key}'");
    let whole = ingest.execute(None, &sql, None).await.unwrap_err();
    assert!(whole.kind() == Kind::Invalid && whole.to_string().contains("can be read"), "{whole}");
    store.delete(&key).await.unwrap();
    let queue = Principal::service("service:queue", Named::write(["*"]));
    let refused = ingest.for_principal(queue).execute(None, &sql, None).await.unwrap_err();
    assert!(refused.kind() == Kind::Forbidden, "{refused}");
    let done = ingest.execute(None, &sql, None).await.unwrap();
    assert!(done.notices[0].contains(&key) && done.notices[0].contains("is missing"), "{:?}", done.notices);
    let found = rows(&store, "db", "cpu", &[done.token.unwrap(), Token::Position(written[2])]).await;
    assert_eq!(found.keys().map(|(_, ts)| *ts).collect::<Vec<_>>(), [1, 3]);
    for (sql, found) in [("GIVE UP", "GIVE UP"), ("GIVE UP 'data/x'", "data/x"), ("GIVE log", "log")] {
        let error = ingest.execute(None, sql, None).await.unwrap_err();
        assert!(error.kind() == Kind::Invalid && error.to_string().contains(found), "{sql}: {error}");
    }
}
