//! Refuses statements that reference WITH queries too often. A WITH query is planned again at each reference, so a few hundred
//! bytes, in which each WITH query references the previous one twice, have a plan of 2^40 nodes. References are counted in the
//! syntax tree, because planning itself takes time proportional to the plan's size.

use std::{collections::HashMap, ops::ControlFlow};

use datafusion::sql::{
    parser::Statement,
    sqlparser::ast::{ObjectName, Query, Visit, Visitor},
};
use tidelake_format::{Error, Result};

use super::visit::{visit, visit_relations};

/// Refuses a statement that reads more than `most` relations once all WITH queries are expanded.
///
/// # Errors
/// Invalid, with the limit.
pub(super) fn refuse(statement: &Statement, most: usize) -> Result<()> {
    let statement = match statement {
        Statement::Statement(statement) => statement,
        Statement::Explain(explain) => return refuse(&explain.statement, most),
        _ => return Ok(()),
    };
    let mut queries = Queries::default();
    let _ = visit(statement.as_ref(), &mut queries);
    if queries.0.is_empty() {
        return Ok(());
    }
    let mut known = HashMap::new();
    let relations: usize =
        names(statement.as_ref()).iter().fold(0, |sum, name| sum.saturating_add(queries.relations(name, &mut known)));
    if relations > most { Err(too_many(most)) } else { Ok(()) }
}

/// The error of a statement whose plan is too large.
pub(super) fn too_many(most: usize) -> Error {
    Error::invalid(
        "the statement has too many parts; a WITH query counts each time that it is named: name it less often",
    )
    .with("limit", most)
}

/// The relations that each WITH query of a statement reads, by the query's name. Queries of the same name are combined.
#[derive(Default)]
struct Queries(HashMap<String, Vec<String>>);

impl Visitor for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = cte.alias.name.value.to_ascii_lowercase();
            self.0.entry(name).or_default().extend(names(cte.query.as_ref()));
        }
        ControlFlow::Continue(())
    }
}

impl Queries {
    /// Number of relations that a reference to this name expands to. A reference of a recursive query to itself counts as one.
    fn relations(&self, name: &str, known: &mut HashMap<String, usize>) -> usize {
        let Some(read) = self.0.get(name) else { return 1 };
        if let Some(relations) = known.get(name) {
            return *relations;
        }
        known.insert(name.to_owned(), 1);
        let relations = read.iter().fold(1_usize, |sum, name| sum.saturating_add(self.relations(name, known)));
        known.insert(name.to_owned(), relations);
        relations
    }
}

/// The names of the relations in a part of a statement, once per reference.
fn names<T: Visit>(part: &T) -> Vec<String> {
    let mut names = Vec::new();
    visit_relations(part, &mut |ObjectName(parts)| {
        if let [name] = parts.as_slice() {
            names.push(name.to_string().trim_matches('"').to_ascii_lowercase());
        }
    });
    names
}
