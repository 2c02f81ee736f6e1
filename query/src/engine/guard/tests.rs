//! Clients that read, stall and resume.

use arrow::{
    array::Int64Array,
    datatypes::{DataType, Field, Schema},
};
use datafusion::{execution::memory_pool::UnboundedMemoryPool, physical_plan::stream::RecordBatchStreamAdapter};
use futures::stream;
use tidelake_format::access::Rights;

use super::{super::admission::Who, *};
use crate::{session::Session, system::Queries};

/// The shared state of a node's queries.
struct Node {
    admission: Admission,
    stalled: Stalled,
    queries: Queries,
}

impl Node {
    /// A node with one permit and at most `most` stalled queries.
    fn new(most: usize) -> Self {
        Self { admission: Admission::new(1, 100), stalled: Stalled::new(most), queries: Queries::new(None) }
    }

    /// A query of ten batches that has a permit.
    async fn query(&self, name: &str, timeout: Duration) -> Guard {
        self.query_of(name, timeout, stream::iter((0..10).map(batch).map(Ok))).await
    }

    /// The same for a user.
    async fn query_by(&self, user: &str, name: &str) -> Guard {
        let principal = Principal::new(user, Rights::Admin);
        self.begin(principal, name, LONG, stream::iter((0..10).map(batch).map(Ok))).await
    }

    async fn query_of(
        &self,
        name: &str,
        timeout: Duration,
        batches: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
    ) -> Guard {
        self.begin(Principal::AUTH_OFF, name, timeout, batches).await
    }

    async fn begin(
        &self,
        principal: Principal,
        name: &str,
        timeout: Duration,
        batches: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
    ) -> Guard {
        let schema = batch(0).schema();
        let rows = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), batches));
        let permit = self.admission.enter(Who::of(&principal), timeout).await.unwrap();
        let underway =
            self.queries.begin(&Session { query_id: Some(name.into()), ..Session::of(Principal::AUTH_OFF) }, name);
        underway.runs();
        let turns = Turns { admission: self.admission.clone(), stalled: self.stalled.clone(), principal };
        let pool = Arc::new(UnboundedMemoryPool::default());
        let budget = Budget::new(pool, Instant::now() + timeout, timeout, underway.token());
        let place = Place { underway, permit: Some(permit) };
        Guard::new(rows, schema, place, Span::none(), budget, turns)
    }

    /// Name and state of each running query.
    fn states(&self) -> Vec<(String, String)> {
        use arrow::array::AsArray as _;
        let table = self.queries.table(&Principal::AUTH_OFF).unwrap();
        let text = |column: usize, row: usize| table.column(column).as_string::<i32>().value(row).to_owned();
        (0..table.num_rows()).map(|row| (text(0, row), text(1, row))).collect()
    }
}

fn batch(v: i64) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, false)]));
    RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![v]))]).unwrap()
}

const LONG: Duration = Duration::from_secs(600);

fn state(name: &str, state: &str) -> (String, String) {
    (name.to_owned(), state.to_owned())
}

#[tokio::test]
async fn a_stalled_query_releases_its_permit_and_resumes_with_another() {
    let node = Node::new(8);
    let mut slow = node.query("slow", LONG).await;
    assert!(slow.next().await.unwrap().is_ok());
    // There is one permit: this query is admitted once the other one has stalled.
    let before = Instant::now();
    let mut other = node.query("other", LONG).await;
    let waited = before.elapsed();
    assert!(waited >= PATIENCE && waited <= 10 * PATIENCE, "{waited:?}");
    assert_eq!(node.states(), [state("slow", "stalled"), state("other", "running")]);
    // It resumes once the permit is free again, and returns all its batches.
    assert!(slow.next().now_or_never().is_none(), "it waits for a permit");
    for _ in 0..10 {
        assert!(other.next().await.unwrap().is_ok());
    }
    assert!(other.next().await.is_none());
    assert_eq!(slow.by_ref().count().await, 9);
    assert_eq!(node.states(), []);
    drop(node.query("third", LONG).await);
}

#[tokio::test]
async fn a_deadline_and_a_kill_end_a_query_that_nobody_polls() {
    let node = Node::new(8);
    let mut late = node.query("late", Duration::from_secs(2)).await;
    let never = node.query("never", LONG).await;
    assert_eq!(node.states(), [state("late", "stalled"), state("never", "running")]);
    sleep(Duration::from_secs(3)).await;
    assert_eq!(node.states(), [state("never", "stalled")]);
    let error = late.next().await.unwrap().unwrap_err().to_string();
    assert!(error.contains("took longer"), "{error}");
    assert!(late.next().await.is_none());
    node.queries.kill("never", &Principal::AUTH_OFF).unwrap();
    sleep(Duration::from_millis(50)).await;
    assert_eq!(node.states(), []);
    drop(never);
    // The permit is free.
    drop(node.query("third", LONG).await);
}

#[tokio::test]
async fn a_query_whose_ready_batch_is_not_fetched_releases_its_permit() {
    let node = Node::new(8);
    let (ready, is_ready) = tokio::sync::oneshot::channel::<()>();
    let batches = stream::once(is_ready).map(|_| Ok(batch(0)));
    let mut slow = node.query_of("slow", LONG, batches).await;
    assert!(slow.next().now_or_never().is_none());
    // Without a wake-up it counts as computing.
    sleep(3 * PATIENCE).await;
    assert_eq!(node.states(), [state("slow", "running")]);
    ready.send(()).unwrap();
    let other = node.query("other", 10 * LONG_PATIENCE).await;
    assert_eq!(node.states(), [state("slow", "stalled"), state("other", "running")]);
    drop(other);
    assert_eq!(slow.by_ref().count().await, 1);
}

#[tokio::test]
async fn a_permit_granted_to_a_killed_query_is_released() {
    let node = Node::new(8);
    let mut slow = node.query("slow", LONG).await;
    assert!(slow.next().await.unwrap().is_ok());
    let other = node.query("other", LONG).await;
    assert!(slow.next().now_or_never().is_none(), "it waits for a permit");
    drop(other); // its permit is granted now
    node.queries.kill("slow", &Principal::AUTH_OFF).unwrap();
    drop(node.query("third", Duration::from_secs(4)).await);
    assert!(slow.next().await.unwrap().is_err());
}

#[tokio::test]
async fn the_longest_stalled_query_ends_when_too_many_are_stalled() {
    let node = Node::new(2);
    let mut guards = Vec::new();
    for name in ["a", "b", "c", "d"] {
        guards.push(node.query(name, LONG).await);
    }
    sleep(2 * PATIENCE).await;
    assert_eq!(node.states(), [state("c", "stalled"), state("d", "stalled")]);
    let error = guards[0].next().await.unwrap().unwrap_err().to_string();
    assert!(error.contains("stopped reading"), "{error}");
    assert_eq!(guards[3].by_ref().count().await, 10);
    assert_eq!(guards[2].by_ref().count().await, 10);
    guards.clear();
    assert!(node.stalled.0.lock().queries.is_empty());
}

#[tokio::test]
async fn a_user_with_many_stalled_queries_ends_none_of_other_users() {
    let node = Node::new(2);
    let mut of_bob = node.query_by("bob", "bobs").await;
    let mut of_ada = Vec::new();
    for name in ["a", "b", "c"] {
        of_ada.push(node.query_by("ada", name).await);
    }
    sleep(2 * PATIENCE).await;
    assert_eq!(node.states(), [state("bobs", "stalled"), state("c", "stalled")]);
    assert_eq!(of_bob.by_ref().count().await, 10);
    let ended = of_ada[0].next().await.unwrap().is_err();
    assert!(ended && of_ada[1].next().await.unwrap().is_err());
    assert_eq!(of_ada[2].by_ref().count().await, 10);
}

#[tokio::test]
async fn a_panic_of_a_query_is_its_answer_and_ends_nothing_else() {
    let node = Node::new(8);
    let batches = stream::iter(0..3).map(|n| if n < 1 { Ok(batch(n)) } else { panic!("a fault of the third batch") });
    let mut query = node.query_of("broken", LONG, batches).await;
    assert!(query.next().await.unwrap().is_ok());
    let error = crate::error::from_datafusion(query.next().await.unwrap().unwrap_err());
    assert_eq!(error.kind(), tidelake_format::Kind::Internal);
    assert!(error.to_string().contains("a fault of the third batch"), "{error}");
    assert!(query.next().await.is_none());
    let mut other = node.query("other", LONG).await;
    assert!(other.next().await.unwrap().is_ok(), "the permit is free");
}
