//! The functions that statements can call, their page, and those of other systems that errors name.

use std::collections::BTreeSet;

use datafusion::execution::FunctionRegistry;

use super::{
    super::mistakes::functions::names,
    support::{context, world},
};

/// Functions of the registry that the page describes in text, because users do not call them.
const INTERNAL: [&str; 3] = ["spread_between", "tick_floor", "tick_ceil"];

fn registered() -> BTreeSet<String> {
    let state = context(&std::sync::Arc::new(world())).state();
    let mut all: BTreeSet<String> = state.scalar_functions().keys().cloned().collect();
    all.extend(state.aggregate_functions().keys().cloned());
    all.extend(state.window_functions().keys().cloned());
    all.extend(state.higher_order_function_names());
    all.extend(state.table_functions().keys().cloned());
    all
}

#[test]
fn the_page_on_sql_lists_every_function() {
    let page = include_str!("../../../../../docs/sql.md");
    let section = page.split("## Functions").nth(1).unwrap().split("\n## ").next().unwrap();
    let listed: BTreeSet<&str> =
        section.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
    // The page says that the names of lists also begin with `list_`.
    let is_listed = |name: &str| {
        listed.contains(name)
            || name.strip_prefix("list_").is_some_and(|rest| listed.contains(format!("array_{rest}").as_str()))
    };
    let missing: Vec<String> =
        registered().into_iter().filter(|name| !name.starts_with("__") && !is_listed(name)).collect();
    assert!(missing.is_empty(), "docs/sql.md does not list {missing:?}");
    assert!(INTERNAL.iter().all(|name| registered().contains(*name)), "{INTERNAL:?} are gone");
}

#[test]
fn no_function_of_another_system_is_one_of_ours() {
    let ours = registered();
    let both: Vec<&str> = names().filter(|name| ours.contains(*name)).collect();
    assert!(both.is_empty(), "errors never name what replaces {both:?}");
}
