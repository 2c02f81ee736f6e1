//! Tags as dictionaries, for sessions with [`TagEncoding::Dictionary`](crate::session::TagEncoding): a scan knows the series of
//! each row by number, so a dictionary of the series' tags costs four bytes a row, and no text is copied.
//!
//! Planning and expressions see text. [`KeepTagDictionaries`] changes the type of those columns of a physical plan that reach
//! the result as the scan returned them; the result stream encodes the others.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::{ConfigExtension, ConfigOptions},
        extensions_options,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    physical_expr::{PhysicalExpr, expressions::Column},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, Partitioning, ReplaceChildrenOptions,
        coalesce_partitions::CoalescePartitionsExec,
        coop::CooperativeExec,
        filter::FilterExec,
        limit::{GlobalLimitExec, LocalLimitExec},
        projection::ProjectionExec,
        repartition::RepartitionExec,
        sorts::{sort::SortExec, sort_preserving_merge::SortPreservingMergeExec},
    },
};

use super::SeriesScan;

extensions_options! {
    /// Whether text tags in the result are dictionaries.
    pub(crate) struct TagDictionaries {
        /// Return dictionaries.
        pub enabled: bool, default = false
    }
}

impl ConfigExtension for TagDictionaries {
    const PREFIX: &'static str = "tidelake_tags";
}

/// The optimizer rule. Runs after the rules that look for scans and before those that wrap nodes.
#[derive(Debug, Default)]
pub(crate) struct KeepTagDictionaries;

impl PhysicalOptimizerRule for KeepTagDictionaries {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if !config.extensions.get::<TagDictionaries>().is_some_and(|tags| tags.enabled) {
            return Ok(plan);
        }
        let all = vec![true; plan.schema().fields().len()];
        Ok(keep(&plan, &all)?.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        "keep_tag_dictionaries"
    }

    fn schema_check(&self) -> bool {
        // The types of tags change.
        false
    }
}

/// The plan with dictionaries for those tags among its columns at which `wanted` is true; `None` if there are none.
fn keep(plan: &Arc<dyn ExecutionPlan>, wanted: &[bool]) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<SeriesScan>() {
        let scan = scan.with_tag_dictionaries(wanted)?;
        return Ok(scan.tag_dictionaries().contains(&true).then(|| Arc::new(scan) as _));
    }
    let Some(of_input) = columns_of_input(plan, wanted)? else { return Ok(None) };
    let [input] = plan.children()[..] else { return Ok(None) };
    let Some(input) = keep(input, &of_input)? else { return Ok(None) };
    Ok(Some(match plan.downcast_ref::<ProjectionExec>() {
        // A projection with a new input keeps its schema.
        Some(projection) => Arc::new(ProjectionExec::try_new(projection.expr().to_vec(), input)?),
        None => {
            let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            plan.clone().replace_children(vec![input], recompute)?
        }
    }))
}

/// Which columns of a node's input the node only passes on, and only to columns in `wanted`; `None` for other nodes.
fn columns_of_input(plan: &Arc<dyn ExecutionPlan>, wanted: &[bool]) -> Result<Option<Vec<bool>>> {
    let [input] = plan.children()[..] else { return Ok(None) };
    let columns = input.schema().fields().len();
    // Columns that the node returns, or does not read at all.
    let mut passed = vec![true; columns];
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        for (at, output) in projection.expr().iter().enumerate() {
            match output.expr.downcast_ref::<Column>() {
                Some(column) => passed[column.index()] &= wanted[at],
                None => exclude(&output.expr, &mut passed)?,
            }
        }
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        match filter.projection() {
            Some(places) => places.iter().zip(wanted).for_each(|(place, wanted)| passed[*place] &= wanted),
            None => passed.copy_from_slice(wanted),
        }
        exclude(filter.predicate(), &mut passed)?;
    } else if let Some(sort) = plan.downcast_ref::<SortExec>() {
        passed.copy_from_slice(wanted);
        sort.expr().iter().try_for_each(|key| exclude(&key.expr, &mut passed))?;
    } else if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
        passed.copy_from_slice(wanted);
        merge.expr().iter().try_for_each(|key| exclude(&key.expr, &mut passed))?;
    } else if let Some(repartition) = plan.downcast_ref::<RepartitionExec>() {
        passed.copy_from_slice(wanted);
        match repartition.partitioning() {
            Partitioning::RoundRobinBatch(_) => {}
            Partitioning::Hash(keys, _) => keys.iter().try_for_each(|key| exclude(key, &mut passed))?,
            _ => return Ok(None),
        }
    } else if plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>()
    {
        passed.copy_from_slice(wanted);
    } else {
        return Ok(None);
    }
    Ok(Some(passed))
}

/// Excludes the columns that an expression reads.
fn exclude(expr: &Arc<dyn PhysicalExpr>, passed: &mut [bool]) -> Result<()> {
    expr.apply(|expr| {
        if let Some(column) = expr.downcast_ref::<Column>() {
            passed[column.index()] = false;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}
