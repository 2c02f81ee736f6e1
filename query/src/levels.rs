//! Answers aggregates from the coarsest exact level instead of a partial aggregation over a scan.
//!
//! A physical rule replaces `AggregateExec(Partial)` over a [`SeriesScan`](crate::scan::SeriesScan) by a leaf with
//! exactly the same schema. Per chunk (one series in one source) the leaf reads:
//!
//! 1. the tag manifest, if the chunk counts as a whole, overlaps no other chunk and is within one time bucket;
//! 2. the rollup, for its buckets that count as a whole, if no requested bucket cuts one;
//! 3. decoded rows otherwise: rows of a series are adjacent and ascend in time, so groups and buckets are found per
//!    run, not per row, without hashing rows.
//!
//! Plans that the rule does not support stay as DataFusion planned them. [`shape`] parses the plan, [`divide`]
//! divides the chunks, [`rolled`] reads rollup buckets, [`cells`] holds the aggregates of groups, each column's in
//! [`mod@column`], those of other functions in [`accumulated`]; [`strip`] says which rows belong to which cells,
//! [`codes`] sums dictionary-coded values, [`computed`] evaluates expressions of rows, [`row_key`] groups rows by
//! one, [`leaf`] is the plan node. [`ends`] restricts scans below aggregates of the last or first rows.

mod accumulated;
mod cells;
mod codes;
mod column;
mod computed;
mod divide;
mod ends;
mod leaf;
mod number;
mod rolled;
mod row_key;
mod shape;
mod strip;

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::{ConfigExtension, ConfigOptions},
        extensions_options,
        tree_node::{Transformed, TreeNode},
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, aggregates::AggregateExec},
};

pub(crate) use self::leaf::SeriesAggregate;
use self::shape::Shape;
use crate::session::Levels;

extensions_options! {
    /// Which levels may answer an aggregate; the results are the same with any.
    pub(crate) struct AggregateLevels {
        /// Answer whole chunks from tag manifests.
        pub manifests: bool, default = true
        /// Answer whole buckets from rollups.
        pub rollups: bool, default = true
        /// Aggregate decoded rows inside the scan.
        pub scan: bool, default = true
    }
}

impl From<Levels> for AggregateLevels {
    fn from(levels: Levels) -> Self {
        Self { manifests: levels.manifests, rollups: levels.rollups, scan: levels.scan }
    }
}

impl ConfigExtension for AggregateLevels {
    const PREFIX: &'static str = "tidelake";
}

/// The optimizer rule; runs before the distribution of aggregates is decided.
#[derive(Debug, Default)]
pub(crate) struct AnswerFromLevels;

impl AnswerFromLevels {
    fn replace(node: Arc<dyn ExecutionPlan>, levels: &AggregateLevels) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
        let Some(shape) = Shape::of(aggregate)? else {
            let cut = if levels.scan { ends::cut(aggregate, &node, levels.manifests)? } else { None };
            return Ok(cut.map_or(Transformed::no(node), Transformed::yes));
        };
        let partitions = aggregate.input().properties().partitioning.partition_count();
        Ok(match SeriesAggregate::try_new(shape, levels, partitions, node.clone())? {
            Some(leaf) => Transformed::yes(Arc::new(leaf)),
            None => Transformed::no(node),
        })
    }
}

impl PhysicalOptimizerRule for AnswerFromLevels {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let levels = config.extensions.get::<AggregateLevels>().cloned().unwrap_or_default();
        if !levels.manifests && !levels.rollups && !levels.scan {
            return Ok(plan);
        }
        Ok(plan.transform_up(|node| Self::replace(node, &levels))?.data)
    }

    fn name(&self) -> &str {
        "answer_from_levels"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
