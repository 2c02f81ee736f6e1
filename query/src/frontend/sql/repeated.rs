//! Statements that name WITH queries too often: a WITH query is planned again each time that it is named, so a few hundred
//! bytes that name each one twice from the next ask for a plan of 2^40 parts. They are counted in the text, because the
//! planner itself takes as long as the plan is large.

use std::{collections::HashMap, ops::ControlFlow};

use datafusion::sql::{
    parser::Statement,
    sqlparser::ast::{ObjectName, Query, Visit, Visitor},
};
use tidelake_format::{Error, Result};

use super::visit::{visit, visit_relations};

/// Refuses a statement that reads more than `most` relations once each WITH query stands at each place that names it.
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

/// The error of a statement of too many parts.
pub(super) fn too_many(most: usize) -> Error {
    Error::invalid(
        "the statement has too many parts; a WITH query counts each time that it is named: name it less often",
    )
    .with("limit", most)
}

/// Every WITH query of a statement by its name, and the relations that each reads. Queries of one name count together.
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
    /// The relations that a relation of this name stands for. A query that names itself, as a recursive one does, counts
    /// once there.
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

/// The names of the relations in a part of a statement, as often as it names them.
fn names<T: Visit>(part: &T) -> Vec<String> {
    let mut names = Vec::new();
    visit_relations(part, &mut |ObjectName(parts)| {
        if let [name] = parts.as_slice() {
            names.push(name.to_string().trim_matches('"').to_ascii_lowercase());
        }
    });
    names
}
