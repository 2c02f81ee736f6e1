//! The table `functions`: the functions that statements can call, for SHOW FUNCTIONS and for the completion of editors.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema},
};
use datafusion::{execution::SessionState, logical_expr::Documentation};

use crate::functions::is_internal;

/// A function's kind, and its syntax and purpose where they are documented.
type Described = (&'static str, Option<String>, Option<String>);

/// One row a name, in their order: `name`, `kind` (scalar, aggregate, window or table), `syntax` and `description`, a sentence. A
/// name of several functions is listed with the first of these kinds.
///
/// # Errors
/// Arrow's.
pub(crate) fn table(state: &SessionState) -> datafusion::common::Result<RecordBatch> {
    let mut all: BTreeMap<&str, Described> = BTreeMap::new();
    let mut add = |kind, name, documentation: Option<&Documentation>| {
        let syntax = documentation.map(|d| shown(&d.syntax_example));
        let description = documentation.map(|d| first_sentence(&d.description));
        all.insert(name, (kind, syntax, description));
    };
    state.table_functions().keys().for_each(|name| add("table", name.as_str(), None));
    state.window_functions().iter().for_each(|(name, f)| add("window", name.as_str(), f.documentation()));
    state.aggregate_functions().iter().for_each(|(name, f)| add("aggregate", name.as_str(), f.documentation()));
    state.higher_order_functions().iter().for_each(|(name, f)| add("scalar", name.as_str(), f.documentation()));
    state.scalar_functions().iter().for_each(|(name, f)| add("scalar", name.as_str(), f.documentation()));
    all.retain(|name, _| !is_internal(name));
    let fields = [("name", false), ("kind", false), ("syntax", true), ("description", true)]
        .map(|(name, is_nullable)| Field::new(name, DataType::Utf8, is_nullable));
    let names = StringArray::from_iter_values(all.keys());
    let kinds = StringArray::from_iter_values(all.values().map(|(kind, ..)| kind));
    let syntax = StringArray::from_iter(all.values().map(|(_, syntax, _)| syntax.as_deref()));
    let descriptions = StringArray::from_iter(all.values().map(|(.., description)| description.as_deref()));
    let columns = vec![Arc::new(names) as _, Arc::new(kinds) as _, Arc::new(syntax) as _, Arc::new(descriptions) as _];
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), columns)?)
}

/// The first of several lines of syntax.
fn shown(syntax: &str) -> String {
    syntax.trim().lines().next().unwrap_or_default().trim().to_owned()
}

/// The first sentence of a text of several lines.
fn first_sentence(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.split_once(". ") {
        Some((first, _)) => format!("{first}."),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use datafusion::execution::SessionStateBuilder;

    use super::*;
    use crate::functions::register;

    #[test]
    fn functions_are_listed_with_kind_syntax_and_purpose() {
        let rows = table(&register(SessionStateBuilder::new_with_default_features()).build()).unwrap();
        let column = |at: usize| rows.column(at).as_string::<i32>();
        let of = |name: &str| (0..rows.num_rows()).find(|row| column(0).value(*row) == name);
        for (name, kind) in [("avg", "aggregate"), ("last", "aggregate"), ("lag", "window"), ("abs", "scalar")] {
            assert_eq!(column(1).value(of(name).unwrap()), kind, "{name}");
        }
        let abs = of("abs").unwrap();
        assert_eq!(column(2).value(abs), "abs(numeric_expression)");
        assert_eq!(column(3).value(abs), "Returns the absolute value of a number.");
        assert!(of("tick_floor").is_none() && of("_wstart").is_none(), "users do not call it");
    }

    #[test]
    fn a_description_is_one_sentence_of_one_line() {
        assert_eq!(first_sentence("Adds\n  numbers. More of it."), "Adds numbers.");
        assert_eq!(first_sentence("Version 1.2 of it"), "Version 1.2 of it");
        assert_eq!(shown("\n avg(expr)\nmean(expr)"), "avg(expr)");
    }
}
