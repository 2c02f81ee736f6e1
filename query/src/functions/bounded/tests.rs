//! Every function of the registry is bounded, and none produces more than its bound.

use arrow::{
    array::{Float64Array, Int64Array, ListArray, StringArray, TimestampMillisecondArray},
    datatypes::{Field, Int64Type},
};
use datafusion::{
    execution::{SessionState, SessionStateBuilder},
    logical_expr::type_coercion::functions::fields_with_udf,
    prelude::SessionContext,
};

use super::*;

fn state() -> SessionState {
    crate::functions::register(SessionStateBuilder::new_with_default_features()).build()
}

#[test]
fn every_function_of_the_registry_has_its_bound() {
    let state = state();
    let functions = state.scalar_functions();
    assert!(functions.len() > 200, "{}", functions.len());
    let mut unbounded: Vec<&str> = functions.values().filter(|f| !is_bounded(f)).map(|f| f.name()).collect();
    unbounded.sort_unstable();
    assert!(unbounded.is_empty(), "{unbounded:?}");
}

#[tokio::test]
async fn what_the_planner_takes_from_elsewhere_has_its_bound_too() {
    let context = SessionContext::new_with_state(state());
    for sql in [
        "select a || 'x' || a from (values ('a'), ('b')) t(a)",
        "select a || X'61' from (values (X'61'), (X'62')) t(a)",
        "select [a, a] || [a] from (values ('a'), ('b')) t(a)",
        "select array_append([a], a) || a, [a][1], [a][1:1] from (values ('a'), ('b')) t(a)",
        "select {'x': a}, struct(a), substring(a from 1 for 2), overlay(a placing 'x' from 1) from (values ('a'), ('b')) t(a)",
        "select extract(year from now()) || a, position('x' in a) from (values ('a'), ('b')) t(a)",
        "select concat_ws('', a, 'x', a), concat(a, 'x', 'y'), to_char(now(), a) from (values ('a'), ('b')) t(a)",
        "select count(*) from (values ('a'), ('b')) t(a) group by a || 'x' having max(a || a) > 'a' order by min(a || 'y')",
        "select a from (values ('a'), ('b')) t(a) where a in (select b || 'x' from (values ('c')) s(b))",
    ] {
        let plan = match context.sql(sql).await {
            Ok(frame) => frame.create_physical_plan().await.unwrap(),
            Err(e) => panic!("{sql}: {e}"),
        };
        let unbounded = rule::unbounded(&plan);
        assert!(unbounded.is_empty(), "{sql}: {unbounded:?}");
    }
}

#[tokio::test]
async fn the_concatenation_operator_keeps_its_results() {
    let context = SessionContext::new_with_state(state());
    let sql = "select a || b || 1, a || null, arrow_typeof(a || b) from (values ('x', 'y'), ('z', null)) t(a, b)";
    let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
    let shown = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
    assert!(shown.contains("| xy1") && shown.contains("Utf8"), "{shown}");
    assert_eq!(batches[0].column(0).null_count(), 1, "{shown}");
    assert_eq!(batches[0].column(1).null_count(), 2, "{shown}");
}

#[tokio::test]
async fn lengths_below_zero_pad_to_nothing() {
    let context = SessionContext::new_with_state(state());
    let sql = "select lpad(a, n, f), rpad(a, n, f), lpad(a, n), rpad(a, -3, 'x') from (values ('ab', -5, 'x'), ('ab', 4, 'yz')) t(a, n, f)";
    let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
    let shown = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
    let cells = |line: &str| line.split('|').skip(1).take(4).map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = shown.lines().skip(3).take(2).map(cells).collect();
    assert_eq!(rows, [["", "", "", ""], ["yzab", "abyz", "ab", ""]], "{shown}");
}

/// Arguments of several types, some of them large.
fn arguments() -> Vec<ArrayRef> {
    let list = |n: i64| ListArray::from_iter_primitive::<Int64Type, _, _>([Some((0..n).map(Some))]);
    let mut texts = arrow::array::ListBuilder::new(arrow::array::StringBuilder::new());
    (0..200).for_each(|n| texts.values().append_value(format!("text {n}")));
    texts.append(true);
    vec![
        Arc::new(StringArray::from(vec!["a".repeat(700)])),
        Arc::new(StringArray::from(vec!["ΐß ﬃ".repeat(70)])),
        Arc::new(StringArray::from(vec!["a"])),
        Arc::new(StringArray::from(vec!["g"])),
        Arc::new(StringArray::from(vec!["%c %+"])),
        Arc::new(Int64Array::from(vec![300])),
        Arc::new(Float64Array::from(vec![1.5])),
        Arc::new(list(300)),
        Arc::new(texts.finish()),
        Arc::new(TimestampMillisecondArray::from(vec![1_600_000_000_000])),
    ]
}

/// Bytes of the result of one row, and their bound; `None` if the function does not accept the arguments.
fn made(function: &ScalarUDF, args: &[ArrayRef]) -> Option<(u64, u64)> {
    let fields: Vec<FieldRef> = args.iter().map(|a| Arc::new(Field::new("a", a.data_type().clone(), true))).collect();
    let fields = fields_with_udf(&fields, function).ok()?;
    let cast = |(a, f): (&ArrayRef, &FieldRef)| arrow::compute::cast(a, f.data_type()).ok();
    let args = args.iter().zip(&fields).map(cast).collect::<Option<Vec<_>>>()?;
    let scalars: Vec<ScalarValue> =
        args.iter().map(|a| ScalarValue::try_from_array(a, 0)).collect::<DfResult<_>>().ok()?;
    let references: Vec<Option<&ScalarValue>> = scalars.iter().map(Some).collect();
    let of = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &references };
    let return_field = function.return_field_from_args(of).ok()?;
    let values: Vec<ColumnarValue> = scalars.into_iter().map(ColumnarValue::Scalar).collect();
    let bounded = function.inner().downcast_ref::<Bounded>()?;
    let bound = Sizes::new(bounded.growth, &values, 1).ok()?.largest();
    if is_fixed(return_field.data_type()) {
        return None;
    }
    let args = ScalarFunctionArgs {
        args: values,
        arg_fields: fields,
        number_rows: 1,
        return_field,
        config_options: Arc::default(),
    };
    let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bounded.inner.invoke_with_args(args)));
    let array = made.ok()?.ok()?.into_array(1).ok()?;
    Some((bytes_of(array.as_ref(), 0, 1), bound))
}

#[test]
fn no_function_makes_more_of_a_row_than_its_bound() {
    let state = state();
    let arguments = arguments();
    let (mut tried, mut wrong) = (0, std::collections::BTreeMap::new());
    for function in state.scalar_functions().values() {
        let mut try_one = |args: &[ArrayRef]| {
            if let Some((made, bound)) = made(function, args) {
                tried += 1;
                if made > bound.saturating_add(64) {
                    let types: Vec<String> = args.iter().map(|a| a.data_type().to_string()).collect();
                    wrong.insert(function.name().to_owned(), format!("{types:?}: {made} of {bound}"));
                }
            }
        };
        try_one(&[]);
        for a in &arguments {
            try_one(std::slice::from_ref(a));
            for b in &arguments {
                try_one(&[a.clone(), b.clone()]);
                for c in &arguments {
                    try_one(&[a.clone(), b.clone(), c.clone()]);
                }
            }
        }
        for text in &arguments[..3] {
            try_one(&[text.clone(), arguments[2].clone(), text.clone(), arguments[3].clone()]);
        }
    }
    assert!(tried > 5_000, "{tried}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
