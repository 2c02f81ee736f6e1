//! DataFusion's session state: one base with functions, rules and the runtime; a copy for each statement.

use std::sync::Arc;

use datafusion::{
    common::config::{ConfigOptions, SpillCompression},
    execution::{
        SessionState, SessionStateBuilder,
        memory_pool::FairSpillPool,
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
    },
    physical_optimizer::optimizer::PhysicalOptimizer,
    prelude::SessionConfig,
};

use tidelake_protocol::CATALOG;

use super::{EngineConfig, planners};
use crate::{
    catalog::{CurrentCatalog, Databases},
    functions,
    levels::{AggregateLevels, AnswerFromLevels},
    plan::Planner,
    preempt::{CountHeldRows, DivideGroups, SortOnThreads, YieldWithinBatches},
    scan::View,
    session::{Levels, Session},
    system::System,
};

/// The schema of unqualified names in a session without a database; no database can have this name.
const NO_DATABASE: &str = "";

/// The state that every statement starts from.
pub(super) fn base(config: &EngineConfig) -> SessionState {
    let mut options = ConfigOptions::new();
    options.catalog.default_catalog = CATALOG.to_owned();
    options.catalog.default_schema = NO_DATABASE.to_owned();
    options.catalog.create_default_catalog_and_schema = false;
    options.catalog.information_schema = false;
    options.execution.target_partitions = config.partitions.max(1);
    options.execution.collect_statistics = false;
    // About half the bytes in as much time: less of a function's /tmp, and fewer pages to free when a query is stopped.
    options.execution.spill_compression = SpillCompression::Lz4Frame;
    options.optimizer.prefer_existing_sort = true;
    options.sql_parser.map_string_types_to_utf8view = false;
    options.extensions.insert(AggregateLevels::default());
    // where the planner's partial aggregates are still untouched
    let mut rules = PhysicalOptimizer::new().rules;
    let after = rules.iter().position(|r| r.name() == "aggregate_statistics").map_or(0, |at| at + 1);
    rules.insert(after, Arc::new(AnswerFromLevels));
    rules.push(Arc::new(DivideGroups::new(config.memory_bytes)));
    rules.push(Arc::new(YieldWithinBatches));
    rules.push(Arc::new(CountHeldRows));
    rules.extend(config.sort_threads.clone().map(|threads| Arc::new(SortOnThreads::new(threads)) as _));
    let builder = SessionStateBuilder::new_with_default_features()
        .with_config(SessionConfig::from(options))
        .with_optimizer_rules(planners::rules())
        .with_physical_optimizer_rules(rules)
        .with_query_planner(Arc::new(Planner))
        .with_runtime_env(runtime(config));
    functions::register(builder).build()
}

/// Of the memory of all queries what operators can reserve: an eighth is for what they hold without counting it, such as batches on
/// their way and answers that are being written.
fn countable(memory_bytes: usize) -> usize {
    memory_bytes - memory_bytes / 8
}

/// One runtime for all queries: its pool is their common limit, and what spills goes to the system's directory for
/// temporary files.
fn runtime(config: &EngineConfig) -> Arc<RuntimeEnv> {
    let pool = Arc::new(FairSpillPool::new(countable(config.memory_bytes).max(16 << 20)));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build();
    Arc::new(runtime.expect("the runtime's parts are plain values; no directory is touched before a spill"))
}

/// The state of one statement: names from the view, which the scans find as an extension of the configuration.
pub(super) fn of_statement(base: &SessionState, session: &Session, view: &Arc<View>, system: &System) -> SessionState {
    let mut state = base.clone();
    let catalog = &view.snapshot.catalog;
    let config = state.config_mut();
    if let Some(name) = &session.database {
        // one that does not exist is an error only to a statement with unqualified names
        let exact = catalog.database(name).map_or(name, |database| &database.name);
        config.options_mut().catalog.default_schema = exact.clone();
    }
    config.options_mut().execution.time_zone = Some(session.time_zone.name().to_owned());
    if session.levels != Levels::default() {
        config.options_mut().extensions.insert(AggregateLevels::from(session.levels));
    }
    config.set_extension(view.clone());
    config.set_extension(Arc::new(CurrentCatalog(view.clone())));
    state.register_catalog_list(Arc::new(Databases::new(view.clone(), system.clone())));
    state.mark_start_execution();
    state
}
