//! DataFusion's session state: a base with functions, rules and the runtime, copied for each statement.

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
    files::Files,
    functions,
    levels::{AggregateLevels, AnswerFromLevels},
    plan::Planner,
    preempt::{CountHeldRows, DivideGroups, SortOnThreads, YieldWithinBatches},
    scan::{KeepTagDictionaries, ReadFirstRows, ReadInOrder, TagDictionaries, View},
    session::{Levels, Session, TagEncoding},
    system::System,
};

/// The default schema of a session without a database. No database can have this name.
const NO_DATABASE: &str = "";

/// The base state of all statements.
pub(super) fn base(config: &EngineConfig) -> SessionState {
    let mut options = ConfigOptions::new();
    options.catalog.default_catalog = CATALOG.to_owned();
    options.catalog.default_schema = NO_DATABASE.to_owned();
    options.catalog.create_default_catalog_and_schema = false;
    options.catalog.information_schema = false;
    options.execution.target_partitions = config.partitions.max(1);
    options.execution.collect_statistics = false;
    // The check compares the nullability of columns in both plans. IS NOT TRUE, where it is computed once for two aggregates, may
    // differ in it, and the answer is right nevertheless.
    options.execution.skip_physical_aggregate_schema_check = true;
    // About half the bytes in the same time: uses less of a serverless function's /tmp, and a stopped query frees fewer pages.
    options.execution.spill_compression = SpillCompression::Lz4Frame;
    options.optimizer.prefer_existing_sort = true;
    options.sql_parser.map_string_types_to_utf8view = false;
    options.extensions.insert(AggregateLevels::default());
    options.extensions.insert(TagDictionaries::default());
    // Before other rules change the planner's partial aggregates.
    let mut rules = PhysicalOptimizer::new().rules;
    let after = rules.iter().position(|r| r.name() == "aggregate_statistics").map_or(0, |at| at + 1);
    rules.insert(after, Arc::new(AnswerFromLevels));
    rules.push(Arc::new(ReadFirstRows));
    rules.push(Arc::new(ReadInOrder));
    rules.push(Arc::new(KeepTagDictionaries));
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

/// The part of the query memory that operators can reserve. An eighth is left for memory that operators do not account for, such as
/// batches between operators and results being written.
fn countable(memory_bytes: usize) -> usize {
    memory_bytes - memory_bytes / 8
}

/// The runtime of all queries. They share its memory pool and spill to the system's temporary directory.
fn runtime(config: &EngineConfig) -> Arc<RuntimeEnv> {
    let pool = Arc::new(FairSpillPool::new(countable(config.memory_bytes).max(16 << 20)));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build();
    Arc::new(runtime.expect("the runtime's parts are plain values; no directory is touched before a spill"))
}

/// The state of one statement. Names are resolved in the view; scans find the view as an extension of the configuration.
pub(super) fn of_statement(
    base: &SessionState,
    session: &Session,
    view: &Arc<View>,
    system: &System,
    files: Option<&Files>,
) -> SessionState {
    let mut state = base.clone();
    let catalog = &view.snapshot.catalog;
    let config = state.config_mut();
    if let Some(name) = &session.database {
        // A database that does not exist is an error only for a statement with unqualified names.
        let exact = catalog.database(name).map_or(name, |database| &database.name);
        config.options_mut().catalog.default_schema = exact.clone();
    }
    config.options_mut().execution.time_zone = Some(session.time_zone.name().to_owned());
    if session.levels != Levels::default() {
        config.options_mut().extensions.insert(AggregateLevels::from(session.levels));
    }
    if session.tag_encoding == TagEncoding::Dictionary {
        config.options_mut().extensions.insert(TagDictionaries { enabled: true });
    }
    config.set_extension(view.clone());
    config.set_extension(Arc::new(CurrentCatalog(view.clone())));
    let files = files.map(|files| files.schema(&state));
    state.register_catalog_list(Arc::new(Databases::new(view.clone(), system.clone(), files)));
    state.mark_start_execution();
    state
}
