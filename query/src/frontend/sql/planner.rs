//! From a rewritten statement to a logical plan: DataFusion's planner plus comparisons and arithmetic of timestamps.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use arrow::datatypes::{DataType, Field, TimeUnit};
use chrono_tz::Tz;
use datafusion::{
    catalog::TableProvider,
    common::{
        DFSchema, ScalarValue, TableReference,
        config::ConfigOptions,
        internal_err,
        tree_node::{Transformed, TreeNodeRecursion},
    },
    datasource::provider_as_source,
    error::Result as DfResult,
    execution::{FunctionRegistry, SessionState},
    logical_expr::{
        AggregateUDF, BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Projection, ScalarUDF, TableSource,
        WindowUDF, cast,
        expr::{Alias, Placeholder},
        lit,
        planner::{
            ContextProvider, ExprPlanner, PlannedRelation, PlannerResult, RawBinaryExpr, RelationPlanner,
            RelationPlannerContext, RelationPlanning,
        },
    },
    sql::{
        parser::Statement,
        planner::{ParserOptions, SqlToRel},
        sqlparser::ast::{BinaryOperator, TableAlias, TableFactor},
    },
};
use tidelake_format::{Error, Reason, Result};

use super::{
    mistakes,
    names::quoted,
    repeated,
    resolve::{Nodes, Windowed, fill_of, windows_of},
};
use crate::{
    error::{of_planning, to_datafusion},
    functions::{
        tick::{self, Round, unit_text},
        window::nanoseconds,
    },
    plan::{assign_windows, fill_gaps},
    type_names::sql_types,
};
use tidelake_protocol::sql::{FORMS, parse_instant};

/// Maximum number of nodes of a plan. A WITH query counts at each reference: a few hundred bytes can reference 2^20, and each
/// optimizer rule visits every node.
const MOST_NODES: usize = 20_000;

/// Plans and analyzes a statement whose tables have their exact names `schema.table`. A relation with a name of [`fill_of`] or
/// [`windows_of`] gets the plan node of that number, which fills its gaps or adds its windows.
pub(crate) async fn plan(statement: Statement, nodes: Nodes, state: &SessionState, zone: Tz) -> Result<LogicalPlan> {
    repeated::refuse(&statement, MOST_NODES)?;
    let plan = logical(statement, nodes, state, zone).await.map_err(of_planning)?;
    refuse_large(&plan)?;
    let plan = type_selected_parameters(plan).map_err(of_planning)?;
    state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {}).map_err(of_planning)
}

/// # Errors
/// Invalid for a plan of too many nodes.
fn refuse_large(plan: &LogicalPlan) -> Result<()> {
    let mut nodes = 0;
    plan.apply_with_subqueries(|_| {
        nodes += 1;
        Ok(if nodes > MOST_NODES { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })
    .map_err(of_planning)?;
    if nodes > MOST_NODES {
        return Err(repeated::too_many(MOST_NODES));
    }
    Ok(())
}

async fn logical(statement: Statement, nodes: Nodes, state: &SessionState, zone: Tz) -> DfResult<LogicalPlan> {
    let mut tables = HashMap::new();
    for reference in state.resolve_table_references(&statement)? {
        let catalog = &state.config_options().catalog;
        let resolved = reference.resolve(&catalog.default_catalog, &catalog.default_schema);
        let schema = state.catalog_list().catalog(&resolved.catalog).and_then(|c| c.schema(&resolved.schema));
        if let Some(schema) = schema
            && let Some(table) = schema.table(&resolved.table).await?
        {
            tables.insert((resolved.schema.to_string(), resolved.table.to_string()), table);
        }
    }
    let mut planners: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(TimePlanner { zone })];
    planners.extend(state.expr_planners().iter().cloned());
    let relations: Vec<Arc<dyn RelationPlanner>> = vec![Arc::new(NodePlanner { nodes })];
    let provider = Provider { state, tables, planners, relations };
    let options = ParserOptions { collect_spans: true, ..ParserOptions::from(&state.config_options().sql_parser) };
    SqlToRel::new_with_options(&provider, options).statement_to_plan(statement)
}

/// Types a parameter that is itself a select item, and so has no inferred type, as text.
fn type_selected_parameters(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    if plan.get_parameter_types()?.values().all(Option::is_some) {
        return Ok(plan);
    }
    let text = || Some(Arc::new(Field::new("", DataType::Utf8, true)));
    let typed = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            let typed = expr.into_iter().map(|expr| match expr {
                Expr::Placeholder(Placeholder { id, field: None }) => {
                    Expr::Placeholder(Placeholder { id, field: text() })
                }
                Expr::Alias(Alias { expr, relation, name, metadata }) => match *expr {
                    Expr::Placeholder(Placeholder { id, field: None }) => {
                        let expr = Box::new(Expr::Placeholder(Placeholder { id, field: text() }));
                        Expr::Alias(Alias { expr, relation, name, metadata })
                    }
                    other => Expr::Alias(Alias { expr: Box::new(other), relation, name, metadata }),
                },
                other => other,
            });
            let typed = typed.collect();
            Projection::try_new(typed, input).map(LogicalPlan::Projection).map(Transformed::yes)
        }
        other => other.recompute_schema().map(Transformed::yes),
    })?;
    Ok(typed.data)
}

/// The planner's context: tables by exact name, functions of the state.
struct Provider<'a> {
    state: &'a SessionState,
    tables: HashMap<(String, String), Arc<dyn TableProvider>>,
    planners: Vec<Arc<dyn ExprPlanner>>,
    relations: Vec<Arc<dyn RelationPlanner>>,
}

impl ContextProvider for Provider<'_> {
    fn get_table_source(&self, name: TableReference) -> DfResult<Arc<dyn TableSource>> {
        let catalog = &self.state.config_options().catalog;
        let name = name.resolve(&catalog.default_catalog, &catalog.default_schema);
        let table = self.tables.get(&(name.schema.to_string(), name.table.to_string())).cloned();
        table.map(provider_as_source).ok_or_else(|| {
            to_datafusion(
                Error::not_found("no such table")
                    .because(Reason::TableNotFound)
                    .with("table", format!("{}.{}", name.schema, name.table)),
            )
        })
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> DfResult<Arc<dyn TableSource>> {
        let function = self
            .state
            .table_functions()
            .get(name)
            .ok_or_else(|| to_datafusion(unknown_table_function(name, self.state)))?;
        let arguments = datafusion::catalog::TableFunctionArgs::new(&args, self.state);
        Ok(provider_as_source(function.create_table_provider_with_args(arguments)?))
    }

    fn create_cte_work_table(&self, name: &str, schema: arrow::datatypes::SchemaRef) -> DfResult<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(datafusion::datasource::cte_worktable::CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &self.relations
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.state.scalar_functions().get(name).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<datafusion::logical_expr::HigherOrderUDF>> {
        self.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.udafs().into_iter().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}

/// The error of a table function that does not exist.
fn unknown_table_function(name: &str, state: &SessionState) -> Error {
    // The registry is a hash map; sorted, every process gives the same answer.
    let known: BTreeSet<&str> = state.table_functions().keys().map(String::as_str).collect();
    let error = Error::invalid("no such table function").with("function", name);
    let error = error.suggest_or(mistakes::tables::instead_of_function(name), name, known.iter().copied());
    error.with("expected one of", known.into_iter().collect::<Vec<_>>().join(", "))
}

/// Adds plan nodes over the relations with generated names.
#[derive(Debug)]
struct NodePlanner {
    nodes: Nodes,
}

impl RelationPlanner for NodePlanner {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> DfResult<RelationPlanning> {
        let original = |relation| Ok(RelationPlanning::Original(Box::new(relation)));
        let (TableFactor::Derived { alias, .. } | TableFactor::NestedJoin { alias, .. }) = &mut relation else {
            return original(relation);
        };
        let name = alias.as_ref().map(|alias| alias.name.value.as_str());
        let fill = name.and_then(fill_of).and_then(|n| self.nodes.fills.get(n));
        let windowed = name.and_then(windows_of).and_then(|n| self.nodes.windows.get(n));
        // Remove the name first: then the relation is planned like any other.
        let (node, alias) = match (fill, windowed) {
            (Some(fill), _) => {
                alias.take();
                let filled = TableAlias { explicit: true, name: quoted("filled"), columns: Vec::new(), at: None };
                (fill_gaps(context.plan(relation)?, fill.clone())?, Some(filled))
            }
            (_, Some(Windowed { time, windows })) => {
                // The columns keep the qualifiers of their relations.
                alias.take();
                let input = context.plan(relation)?;
                let Expr::Column(time) = context.sql_to_expr(time.clone(), input.schema())? else {
                    return internal_err!("windows are of a time column, found {time}");
                };
                (assign_windows(input, time, windows.clone())?, None)
            }
            _ => return original(relation),
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(node, alias))))
    }
}

/// Plans comparisons of timestamps with integers (ticks), text (in the session's zone) and instants of other units without a cast
/// of the column. Adds integers to timestamps as ticks.
#[derive(Debug)]
struct TimePlanner {
    zone: Tz,
}

impl ExprPlanner for TimePlanner {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> DfResult<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = &expr;
        let (Ok(left_type), Ok(right_type)) = (left.get_type(schema), right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        let planned = match (&left_type, &right_type) {
            (DataType::Timestamp(..), _) => match comparison(op) {
                Some(op) => self.compare(left, &left_type, op, right, &right_type, schema)?,
                None => arithmetic(left, &left_type, op, right, &right_type),
            },
            (_, DataType::Timestamp(..)) => match comparison(op) {
                Some(op) => self.compare(right, &right_type, op.flip(), left, &left_type, schema)?,
                None if *op == BinaryOperator::Plus => arithmetic(right, &right_type, op, left, &left_type),
                None => None,
            },
            _ => {
                if comparison(op).is_some() {
                    refuse_text_for_number(left, &left_type, right, &right_type)?;
                }
                None
            }
        };
        Ok(match planned {
            Some(planned) => PlannerResult::Planned(planned),
            None => PlannerResult::Original(expr),
        })
    }
}

/// Refuses the comparison of a number with a text that is no number: executed, its error would not name the place.
fn refuse_text_for_number(left: &Expr, left_type: &DataType, right: &Expr, right_type: &DataType) -> DfResult<()> {
    for (number, ty, text) in [(left, left_type, right), (right, right_type, left)] {
        if let Expr::Literal(value, _) = text
            && ty.is_numeric()
            && !number.column_refs().is_empty()
            && let Some(text) = value.try_as_str().flatten()
            && value.cast_to(ty).is_err()
        {
            let ty = sql_types(&ty.to_string());
            return Err(to_datafusion(mistakes::text_for_number(text, &ty)));
        }
    }
    Ok(())
}

/// The comparisons that are rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
}

impl Comparison {
    fn flip(self) -> Self {
        match self {
            Comparison::Lt => Comparison::Gt,
            Comparison::LtEq => Comparison::GtEq,
            Comparison::Gt => Comparison::Lt,
            Comparison::GtEq => Comparison::LtEq,
            same => same,
        }
    }

    fn of(self, left: Expr, right: Expr) -> Expr {
        match self {
            Comparison::Eq => left.eq(right),
            Comparison::NotEq => left.not_eq(right),
            Comparison::Lt => left.lt(right),
            Comparison::LtEq => left.lt_eq(right),
            Comparison::Gt => left.gt(right),
            Comparison::GtEq => left.gt_eq(right),
        }
    }
}

fn comparison(op: &BinaryOperator) -> Option<Comparison> {
    Some(match op {
        BinaryOperator::Eq => Comparison::Eq,
        BinaryOperator::NotEq => Comparison::NotEq,
        BinaryOperator::Lt => Comparison::Lt,
        BinaryOperator::LtEq => Comparison::LtEq,
        BinaryOperator::Gt => Comparison::Gt,
        BinaryOperator::GtEq => Comparison::GtEq,
        _ => return None,
    })
}

impl TimePlanner {
    fn compare(
        &self,
        time: &Expr,
        time_type: &DataType,
        op: Comparison,
        other: &Expr,
        other_type: &DataType,
        schema: &DFSchema,
    ) -> DfResult<Option<Expr>> {
        let DataType::Timestamp(unit, _) = time_type else { return Ok(None) };
        if let Some(shifted) = self.shifted(other, time_type, schema)? {
            return Ok(Some(op.of(time.clone(), shifted)));
        }
        match other_type {
            _ if other_type.is_integer() => {
                let ticks = match other {
                    Expr::Literal(value, _) => {
                        value.cast_to(&DataType::Int64).and_then(|v| v.cast_to(time_type)).map(lit)
                    }
                    other => Ok(cast(cast(other.clone(), DataType::Int64), time_type.clone())),
                };
                Ok(Some(op.of(time.clone(), ticks?)))
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                let Expr::Literal(value, _) = other else { return Ok(None) };
                let Some(text) = value.try_as_str().flatten() else { return Ok(None) };
                let Some(nanos) = parse_instant(text, self.zone) else {
                    return Err(to_datafusion(
                        Error::invalid(format!("expected a timestamp such as {FORMS}"))
                            .with("found", format!("'{text}'")),
                    ));
                };
                compare_exactly(time, time_type, *unit, op, nanos).map(Some)
            }
            // A constant of a finer unit: round the constant instead of casting the column.
            DataType::Timestamp(finer, _)
                if nanoseconds(*finer) < nanoseconds(*unit)
                    && other.column_refs().is_empty()
                    && !time.column_refs().is_empty() =>
            {
                let rounded = |round| tick::function(round).call(vec![other.clone(), lit(unit_text(*unit))]);
                let (floor, ceil) = (rounded(Round::Floor), rounded(Round::Ceil));
                let time = time.clone();
                Ok(Some(match op {
                    Comparison::Gt | Comparison::LtEq => op.of(time, floor),
                    Comparison::GtEq | Comparison::Lt => op.of(time, ceil),
                    Comparison::Eq => time.clone().eq(floor).and(time.eq(ceil)),
                    Comparison::NotEq => time.clone().not_eq(floor).or(time.not_eq(ceil)),
                }))
            }
            _ => Ok(None),
        }
    }
}

impl TimePlanner {
    /// Converts the operand of a comparison with a time such as `1563249700000 + 1h` or `'2019-07-16' - 1d`: the number to
    /// ticks of that time's unit, the text to an instant in the session's zone.
    fn shifted(&self, expr: &Expr, time_type: &DataType, schema: &DFSchema) -> DfResult<Option<Expr>> {
        let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) = expr else {
            return Ok(None);
        };
        if !matches!(right.get_type(schema), Ok(DataType::Interval(_))) {
            return Ok(None);
        }
        let start = match left.as_ref() {
            Expr::Literal(value, _) if value.data_type().is_integer() => {
                lit(value.cast_to(&DataType::Int64)?.cast_to(time_type)?)
            }
            Expr::Literal(value, _) if value.try_as_str().is_some() => {
                let Some(text) = value.try_as_str().flatten() else { return Ok(None) };
                let nanos = parse_instant(text, self.zone).and_then(|n| i64::try_from(n).ok());
                let Some(nanos) = nanos else { return Ok(None) };
                lit(ScalarValue::TimestampNanosecond(Some(nanos), None).cast_to(time_type)?)
            }
            inner => match self.shifted(inner, time_type, schema)? {
                Some(inner) => inner,
                None => return Ok(None),
            },
        };
        Ok(Some(Expr::BinaryExpr(BinaryExpr { left: Box::new(start), op: *op, right: right.clone() })))
    }
}

/// Plans a comparison with an instant that may be between two ticks or out of range.
fn compare_exactly(time: &Expr, time_type: &DataType, unit: TimeUnit, op: Comparison, nanos: i128) -> DfResult<Expr> {
    let tick = i128::from(nanoseconds(unit));
    let (floor, exact) = (nanos.div_euclid(tick), nanos.rem_euclid(tick) == 0);
    let literal = |ticks: i64| ScalarValue::Int64(Some(ticks)).cast_to(time_type).map(lit);
    let time = time.clone();
    Ok(match (i64::try_from(floor), exact) {
        (Ok(ticks), true) => op.of(time, literal(ticks)?),
        (Ok(ticks), false) => match op {
            Comparison::Gt | Comparison::GtEq => time.gt(literal(ticks)?),
            Comparison::Lt | Comparison::LtEq => time.lt_eq(literal(ticks)?),
            Comparison::Eq => time.clone().eq(literal(ticks)?).and(time.not_eq(literal(ticks)?)),
            Comparison::NotEq => time.clone().eq(literal(ticks)?).or(time.not_eq(literal(ticks)?)),
        },
        (Err(_), _) => {
            // Out of range: all times are on the same side of the instant.
            let (all, none) = (time.clone().gt_eq(literal(i64::MIN)?), time.lt(literal(i64::MIN)?));
            let above = floor > 0;
            match op {
                Comparison::Lt | Comparison::LtEq => {
                    if above {
                        all
                    } else {
                        none
                    }
                }
                Comparison::Gt | Comparison::GtEq => {
                    if above {
                        none
                    } else {
                        all
                    }
                }
                Comparison::Eq => none,
                Comparison::NotEq => all,
            }
        }
    })
}

/// `ts + 1000` and `ts - 1000`, in ticks.
fn arithmetic(
    time: &Expr,
    time_type: &DataType,
    op: &BinaryOperator,
    other: &Expr,
    other_type: &DataType,
) -> Option<Expr> {
    if !other_type.is_integer() {
        return None;
    }
    let (ticks, other) = (cast(time.clone(), DataType::Int64), cast(other.clone(), DataType::Int64));
    let sum = match op {
        BinaryOperator::Plus => ticks + other,
        BinaryOperator::Minus => ticks - other,
        _ => return None,
    };
    Some(cast(sum, time_type.clone()))
}
