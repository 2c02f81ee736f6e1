//! The plan cache: logical plans stay valid while the catalog is unchanged, executable plans while the snapshot is unchanged.
//!
//! Results are not cached: an executable plan reads its data on each run. For a statement that depends on the call (`now()`,
//! parameters) only the logical plan is cached.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use chrono_tz::Tz;
use datafusion::{
    execution::{SessionState, TaskContext},
    physical_plan::ExecutionPlan,
};
use hashbrown::{Equivalent, HashMap};
use parking_lot::Mutex;
use tidelake_format::{Result, access::Principal, snapshot::Snapshot};

use super::{Prepared, template::Rescan};
use crate::{
    error::from_datafusion,
    levels::SeriesAggregate,
    preempt::{computes_long, context_of},
    scan::SeriesScan,
    session::{Language, Levels, Session, TagEncoding},
};
use tidelake_protocol::sql::DoubleQuotes;

/// Estimated bytes of a logical plan without its text.
const LOGICAL_BYTES: usize = 24 << 10;
/// Estimated bytes of an executable plan without the chunks that it names.
const EXECUTABLE_BYTES: usize = 64 << 10;

/// LRU cache of plans by statement, bounded by their estimated bytes.
pub(super) struct Plans {
    state: Mutex<State>,
    capacity: usize,
}

#[derive(Default)]
struct State {
    slots: HashMap<Key, Slot>,
    /// The snapshot for which all executable plans were made.
    snapshot: Option<Arc<Snapshot>>,
    bytes: usize,
    turn: u64,
}

struct Slot {
    prepared: Arc<Prepared>,
    executable: Option<Executable>,
    bytes: usize,
    used: u64,
}

/// A physical plan for one snapshot. It can run repeatedly and concurrently.
#[derive(Clone)]
pub(super) struct Executable {
    /// Reset before each run.
    pub(super) plan: Arc<dyn ExecutionPlan>,
    /// The context of its runs.
    pub(super) context: Arc<TaskContext>,
    /// Whether a single poll of an operator may compute for long.
    pub(super) is_long: bool,
    /// For a template: makes the plan for other values.
    pub(super) rescan: Option<Arc<Rescan>>,
}

impl Executable {
    /// Creates an executable with the context for `plan`.
    ///
    /// # Errors
    /// Errors of the plan traversal; none is expected.
    pub(super) fn new(plan: Arc<dyn ExecutionPlan>, state: &SessionState) -> Result<Self> {
        let context = context_of(&plan, state).map_err(from_datafusion)?;
        let is_long = computes_long(&plan).map_err(from_datafusion)?;
        Ok(Self { plan, context, is_long, rescan: None })
    }
}

/// Everything except the catalog on which a logical plan depends.
#[derive(PartialEq, Eq)]
struct Key {
    sql: String,
    database: Option<String>,
    time_zone: Tz,
    language: Language,
    double_quotes: DoubleQuotes,
    levels: Levels,
    tag_encoding: TagEncoding,
    principal: Principal,
}

/// Borrowed form of [`Key`], for lookups.
struct Asked<'a>(&'a Session, &'a str);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.sql.as_str(), self.database.as_deref(), self.time_zone, self.double_quotes, self.levels).hash(state);
        (self.language, self.tag_encoding).hash(state);
        self.principal.user().hash(state);
    }
}

impl Hash for Asked<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.1, self.0.database.as_deref(), self.0.time_zone, self.0.double_quotes, self.0.levels).hash(state);
        (self.0.language, self.0.tag_encoding).hash(state);
        self.0.principal.user().hash(state);
    }
}

impl Equivalent<Key> for Asked<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        let Self(session, sql) = self;
        key.sql == *sql
            && key.database == session.database
            && key.time_zone == session.time_zone
            && key.language == session.language
            && key.double_quotes == session.double_quotes
            && key.levels == session.levels
            && key.tag_encoding == session.tag_encoding
            && key.principal == session.principal
    }
}

impl Plans {
    /// Creates an empty cache of at most `capacity` bytes.
    pub(super) fn new(capacity: usize) -> Self {
        Self { state: Mutex::default(), capacity }
    }

    /// The cached plan of a statement, for any version of the catalog.
    pub(super) fn prepared(&self, session: &Session, sql: &str) -> Option<Arc<Prepared>> {
        let mut state = self.state.lock();
        state.turn += 1;
        let turn = state.turn;
        let slot = state.slots.get_mut(&Asked(session, sql))?;
        slot.used = turn;
        Some(slot.prepared.clone())
    }

    /// Caches a plan; replaces the statement's previous one.
    pub(super) fn keep(&self, session: &Session, prepared: &Arc<Prepared>) {
        let key = Key {
            sql: prepared.sql.clone(),
            database: session.database.clone(),
            time_zone: session.time_zone,
            language: session.language,
            double_quotes: session.double_quotes,
            levels: session.levels,
            tag_encoding: session.tag_encoding,
            principal: session.principal.clone(),
        };
        let bytes = logical_bytes(prepared);
        let mut state = self.state.lock();
        state.turn += 1;
        let slot = Slot { prepared: prepared.clone(), executable: None, bytes, used: state.turn };
        state.bytes += bytes;
        if let Some(last) = state.slots.insert(key, slot) {
            state.bytes -= last.bytes;
        }
        state.shrink(self.capacity);
    }

    /// The cached executable plan of a statement for exactly this snapshot.
    pub(super) fn executable(
        &self,
        session: &Session,
        prepared: &Arc<Prepared>,
        snapshot: &Arc<Snapshot>,
    ) -> Option<Executable> {
        let state = self.state.lock();
        if !state.snapshot.as_ref().is_some_and(|s| Arc::ptr_eq(s, snapshot)) {
            return None;
        }
        let slot = state.slots.get(&Asked(session, &prepared.sql))?;
        slot.executable.clone().filter(|_| Arc::ptr_eq(&slot.prepared, prepared))
    }

    /// Caches an executable plan in place of the statement's previous one; drops all executable plans of another snapshot.
    pub(super) fn keep_executable(
        &self,
        session: &Session,
        prepared: &Arc<Prepared>,
        snapshot: &Arc<Snapshot>,
        executable: &Executable,
    ) {
        let bytes = EXECUTABLE_BYTES + weight(executable.plan.as_ref());
        if bytes > self.capacity / 4 {
            return;
        }
        let mut state = self.state.lock();
        if !state.snapshot.as_ref().is_some_and(|s| Arc::ptr_eq(s, snapshot)) {
            state.drop_executables();
            state.snapshot = Some(snapshot.clone());
        }
        let Some(slot) = state.slots.get_mut(&Asked(session, &prepared.sql)) else { return };
        if !Arc::ptr_eq(&slot.prepared, prepared) {
            return;
        }
        slot.executable = Some(executable.clone());
        let last = std::mem::replace(&mut slot.bytes, logical_bytes(prepared) + bytes);
        state.bytes = state.bytes - last + logical_bytes(prepared) + bytes;
        state.shrink(self.capacity);
    }
}

impl State {
    fn drop_executables(&mut self) {
        self.snapshot = None;
        for slot in self.slots.values_mut().filter(|s| s.executable.is_some()) {
            slot.executable = None;
            let logical = logical_bytes(&slot.prepared);
            self.bytes -= slot.bytes - logical;
            slot.bytes = logical;
        }
    }

    fn shrink(&mut self, capacity: usize) {
        if self.bytes <= capacity {
            return;
        }
        // Down to 7/8 of the capacity, so that shrinking is rare.
        let mut ages: Vec<(u64, usize)> = self.slots.values().map(|s| (s.used, s.bytes)).collect();
        ages.sort_unstable();
        let mut left = self.bytes;
        let fits = ages.iter().find(|(_, bytes)| {
            left -= bytes;
            left <= capacity - capacity / 8
        });
        let last = fits.map_or(u64::MAX, |(used, _)| *used);
        self.slots.retain(|_, slot| slot.used > last);
        self.bytes = self.slots.values().map(|s| s.bytes).sum();
    }
}

fn logical_bytes(prepared: &Prepared) -> usize {
    LOGICAL_BYTES + 16 * prepared.sql.len() + prepared.parameter_bytes()
}

/// Bytes of the chunks that a plan names and of the manifests and blocks that it holds in memory.
fn weight(plan: &dyn ExecutionPlan) -> usize {
    let own = if let Some(scan) = plan.downcast_ref::<SeriesScan>() {
        scan.memory_bytes()
    } else if let Some(aggregate) = plan.downcast_ref::<SeriesAggregate>() {
        aggregate.memory_bytes()
    } else {
        0
    };
    own + plan.children().into_iter().map(|child| weight(child.as_ref())).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use tidelake_format::access::Rights;
    use tidelake_protocol::sql::{DoubleQuotes, Update};

    use super::*;
    use crate::engine::Statement;

    fn prepared(sql: &str) -> Arc<Prepared> {
        Arc::new(Prepared {
            sql: sql.to_owned(),
            kind: Statement::Update(Update::parse("use a", DoubleQuotes::Text).unwrap().unwrap()),
            parameters: Vec::new(),
            version: Default::default(),
            principal: Principal::AUTH_OFF,
        })
    }

    #[test]
    fn a_plan_is_found_by_text_and_session() {
        let plans = Plans::new(1 << 20);
        let session = Session { database: Some("a".into()), ..Session::of(Principal::AUTH_OFF) };
        let of_a = prepared("select 1");
        plans.keep(&session, &of_a);
        assert!(Arc::ptr_eq(&plans.prepared(&session, "select 1").unwrap(), &of_a));
        for other in [
            Session::of(Principal::AUTH_OFF),
            Session { database: Some("b".into()), ..session.clone() },
            Session { time_zone: chrono_tz::Asia::Shanghai, ..session.clone() },
            Session { double_quotes: DoubleQuotes::Text, ..session.clone() },
            Session { tag_encoding: TagEncoding::Dictionary, ..session.clone() },
            Session { principal: Principal::new("ada", Rights::Admin), ..session.clone() },
        ] {
            assert!(plans.prepared(&other, "select 1").is_none(), "{other:?}");
        }
        assert!(plans.prepared(&session, "select 2").is_none());
    }

    #[test]
    fn least_recently_used_plans_are_evicted_and_bytes_stay_within_capacity() {
        let plans = Plans::new(8 * LOGICAL_BYTES);
        let session = Session::of(Principal::AUTH_OFF);
        for n in 0..100 {
            plans.keep(&session, &prepared(&format!("select {n}")));
            assert!(plans.prepared(&session, "select 0").is_some(), "it is used all the time");
            let state = plans.state.lock();
            assert!(state.bytes <= plans.capacity);
            assert_eq!(state.bytes, state.slots.values().map(|s| s.bytes).sum::<usize>());
        }
        assert!(plans.prepared(&session, "select 50").is_none());
    }
}
