//! Parameter types that drivers can bind.

use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    logical_expr::{Expr, LogicalPlan},
};
use tidelake_format::{
    Result,
    types::{Precision, Type},
};

use crate::error::of_planning;

/// One field per parameter of a plan, in order, named `$1`, `$2`, …, of types that drivers can bind: Int64 for integers
/// (LIMIT and OFFSET too), Float64 for floats and decimals, Timestamp(ms) for instants, Date32 for dates, Time32(ms) for
/// times of day, Boolean, Binary, and Utf8 for anything else.
///
/// # Errors
/// Invalid when a parameter would need two types.
pub fn parameter_fields(plan: &LogicalPlan, count: usize) -> Result<Vec<Field>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let types = plan.get_parameter_types().map_err(of_planning)?;
    let limits = limit_parameters(plan)?;
    Ok((1..=count)
        .map(|n| {
            let name = format!("${n}");
            let bound = match types.get(&name) {
                Some(Some(data_type)) => bindable(data_type),
                _ if limits.contains(&name) => DataType::Int64,
                _ => DataType::Utf8,
            };
            Field::new(name, bound, true)
        })
        .collect())
}

/// One field per parameter that is a value for a column of the given type, with the types of [`parameter_fields`]; Utf8 where the
/// type is unknown.
pub fn column_fields(types: &[Option<Type>]) -> Vec<Field> {
    let of = |ty: &Option<Type>| ty.map_or(DataType::Utf8, |ty| bindable(&ty.data_type(Precision::Milli)));
    types.iter().enumerate().map(|(i, ty)| Field::new(format!("${}", i + 1), of(ty), true)).collect()
}

fn bindable(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Boolean => DataType::Boolean,
        t if t.is_integer() => DataType::Int64,
        t if t.is_floating() || t.is_decimal() => DataType::Float64,
        DataType::Timestamp(..) => DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Date32 | DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            DataType::Binary
        }
        DataType::Dictionary(_, value) => bindable(value),
        _ => DataType::Utf8,
    }
}

/// The parameters of LIMIT and OFFSET.
fn limit_parameters(plan: &LogicalPlan) -> Result<Vec<String>> {
    let mut found = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            for expr in [&limit.skip, &limit.fetch].into_iter().flatten() {
                expr.apply(|e| {
                    if let Expr::Placeholder(placeholder) = e {
                        found.push(placeholder.id.clone());
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(of_planning)?;
    Ok(found)
}
