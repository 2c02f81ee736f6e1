//! Errors of the SQL planner in the words of users: what is wrong, where, what was expected, and what works instead.
//!
//! DataFusion's planner reports errors as text, without a place and in terms of its own types. [`explain`] recognises the texts
//! of the mistakes that users make, finds the place in the statement, and names the nearest function or the rewrite. Names of
//! functions, clauses and tables of other systems are in [`functions`], [`clauses`] and [`tables`]; [`values`] finds values at fault.

pub(super) mod clauses;
pub(super) mod functions;
pub(super) mod tables;
pub(super) mod values;

use std::{collections::BTreeSet, ops::ControlFlow};

use datafusion::{
    execution::SessionState,
    sql::{
        parser::Statement,
        sqlparser::{
            ast::{Expr, Select, Spanned, Value, Visitor},
            tokenizer::Location,
        },
    },
};
use tidelake_format::{Error, Kind, nearest::nearest};

use super::{lex::at, resolve::function_name, visit::visit};
use crate::{functions::is_internal, type_names::sql_types};

/// Replaces an error of planning `statement` by one that names the place and what to write instead, where the mistake is
/// known; other errors stay as they are.
pub(super) fn explain(error: Error, statement: &Statement, state: &SessionState) -> Error {
    match translate(error.message(), statement, state) {
        Some(better) => better.because(error.reason()).source(error),
        None => locate(error, statement),
    }
}

fn translate(text: &str, statement: &Statement, state: &SessionState) -> Option<Error> {
    let place = |fault: Fault, found: &dyn Fn(&Expr) -> Option<Location>| place(statement, fault, found);
    let of_function = |fault, name: &str| place(fault, &|expr| function_at(expr, |f| f.eq_ignore_ascii_case(name)));
    if let Some(name) = between(text, "Invalid function '", "'") {
        return Some(at(unknown_function(name, state), of_function(Fault::Each, name)));
    }
    if let Some((name, expected, found)) = wrong_count(text) {
        let error = Error::invalid("wrong number of arguments").with("function", &name).with("expected", expected);
        return Some(at(error.with("found", found), of_function(Fault::One, &name)));
    }
    if let Some((name, expected, found)) = wrong_type(text) {
        let error = Error::invalid("this function does not take arguments of these types").with("function", name);
        let error = error.with("expected", expected).with("found", found);
        return Some(at(
            error.with("use", "CAST(… AS DOUBLE), or TRY_CAST for NULL where it fails"),
            of_function(Fault::One, name),
        ));
    }
    if text.contains("must appear in the GROUP BY clause") {
        let full = between(text, "column \"", "\"").or_else(|| between(text, "references: ", " must"))?;
        let column = last_part(full);
        let error = Error::invalid("this column is neither in GROUP BY nor inside an aggregate").with("column", column);
        let error = error.with("use", format!("GROUP BY {column}, or an aggregate such as last({column})"));
        return Some(at(error, place(Fault::Bare, &|expr| column_at(expr, column))));
    }
    if let Some(operands) = between(text, "Cannot coerce arithmetic expression ", " to valid types")
        .or_else(|| text.split_once("comparison operation ").map(|(_, operands)| operands))
    {
        let mut parts = operands.split(' ');
        let (left, operator, right) = (parts.next()?, parts.next()?, parts.next()?);
        let error = Error::invalid("this operator does not take operands of these types").with("operator", operator);
        let error = error.with("left", sql_types(left)).with("right", sql_types(right));
        let instead = match [left, right].contains(&"Boolean") {
            true => "true or false, without quotes",
            false => "CAST(… AS DOUBLE), or a number without quotes",
        };
        let error = error.with("use", instead);
        return Some(at(error, place(Fault::One, &|expr| operand_at(expr, operator))));
    }
    if let Some(name) = text.split_once("Ambiguous reference to unqualified field ").map(|(_, name)| name) {
        let name = last_part(name);
        let error = Error::invalid("this column is in several tables").with("column", name);
        let error = error.with("use", format!("table.{name}, with the name or the alias of its table"));
        return Some(at(error, place(Fault::Each, &|expr| column_at(expr, name))));
    }
    if text.contains("Aggregate functions are not allowed in the WHERE clause") {
        let aggregates = state.aggregate_functions();
        let error = Error::invalid("WHERE cannot contain aggregates").with("use", "GROUP BY … HAVING");
        let function = place(Fault::InWhere, &|expr| function_at(expr, |f| aggregates.contains_key(f)));
        return Some(at(error, function));
    }
    if let Some(types) = between(text, "common type to coerce ", " in ") {
        let error = Error::invalid("LIKE, ILIKE and SIMILAR TO compare texts").with("expected", "VARCHAR and a text");
        let error = error.with("found", sql_types(types)).with("use", "CAST(… AS VARCHAR)");
        return Some(at(
            error,
            place(Fault::One, &|expr| match expr {
                Expr::Like { pattern, .. } | Expr::ILike { pattern, .. } => Some(pattern.span().start),
                _ => None,
            }),
        ));
    }
    let name = between(text, "No field named ", ". ").or_else(|| between(text, "No field named ", "."))?;
    let name = last_part(name);
    let error = Error::invalid("no such column").because(tidelake_format::Reason::ColumnNotFound).with("column", name);
    Some(at(error, place(Fault::Each, &|expr| column_at(expr, name))))
}

/// Adds the place of the text that an error names as found, where the error has no place yet.
fn locate(error: Error, statement: &Statement) -> Error {
    let text = error.context("found").and_then(|found| found.strip_prefix('\'')?.strip_suffix('\''));
    let (Some(text), None) = (text.map(str::to_owned), error.context("line")) else { return error };
    at(error, place(statement, Fault::One, &|expr| text_at(expr, &text)))
}

/// The error of a function that does not exist.
fn unknown_function(name: &str, state: &SessionState) -> Error {
    let lower = name.to_lowercase();
    if state.window_functions().contains_key(&lower) {
        return Error::invalid("this function needs an OVER clause")
            .with("function", &lower)
            .with("use", format!("{lower}(…) OVER (PARTITION BY tag ORDER BY ts)"));
    }
    let error = Error::invalid("no such function").with("function", name);
    if let Some(instead) = functions::instead_of(&lower) {
        return error.with("use", instead);
    }
    let (scalars, aggregates) = (state.scalar_functions(), state.aggregate_functions());
    let own = scalars.keys().chain(aggregates.keys()).chain(state.window_functions().keys()).map(String::as_str);
    // The registries are hash maps; sorted, every process takes the same one of several names that are equally near.
    let own: BTreeSet<&str> = own.filter(|name| !is_internal(name)).collect();
    let foreign = functions::names().map(|name| -> &str { name });
    match nearest(&lower, own.into_iter().chain(foreign)) {
        Some(near) => match functions::instead_of(near) {
            Some(instead) => error.with("use", instead),
            None => error.with("did you mean", near),
        },
        None => error.with("expected", "a built-in function, such as avg, count, last or date_trunc"),
    }
}

/// Function, expected and found number of arguments.
fn wrong_count(text: &str) -> Option<(String, String, String)> {
    let digits = |text: &str| text.trim_start().chars().take_while(char::is_ascii_digit).collect::<String>();
    let (name, rest) = if let Some(rest) = text.split_once("The function '").map(|(_, rest)| rest) {
        let (name, rest) = rest.split_once('\'')?;
        (name, rest.split_once(" expected ")?.1)
    } else if let Some((name, rest)) = text.split_once("The function ").and_then(|(_, rest)| rest.split_once(' ')) {
        (name, rest.strip_prefix("expects ")?)
    } else {
        let (name, rest) = function_in(text)?.split_once('\'')?;
        (name, rest.split_once(" expects ")?.1)
    };
    let expected = match rest.strip_prefix("zero ") {
        Some(_) => "0".to_owned(),
        None => rest.split(" argument").next()?.to_owned(),
    };
    let found = rest.split_once("received ").or_else(|| rest.split_once("but ")).map(|(_, found)| digits(found))?;
    let is_known = !found.is_empty() && expected.len() <= 20;
    is_known.then(|| (name.to_owned(), format!("{expected} argument{}", if expected == "1" { "" } else { "s" }), found))
}

/// Function, expected and found types.
fn wrong_type(text: &str) -> Option<(&str, String, String)> {
    if let Some(rest) = text.split_once("given name and argument types '").map(|(_, rest)| rest) {
        // The name and the types of a call, then each signature on a line.
        let (call, rest) = rest.split_once("'.")?;
        let (name, types) = call.split_once('(')?;
        let signatures: Vec<&str> = rest.lines().map(str::trim).filter(|line| line.starts_with(name)).collect();
        // `spread(x)` is computed by a function of two numbers.
        let (name, expected) = match name {
            "spread_between" => ("spread", "a number".to_owned()),
            name => (name, signature(&signatures)),
        };
        return Some((name, expected, sql_types(types.trim_end_matches(')'))));
    }
    if let Some(rest) = text.split_once("to satisfy a call to '").map(|(_, rest)| rest) {
        let (name, rest) = rest.split_once('\'')?;
        let types = between(rest, "coercion from ", " to the signature").unwrap_or_default();
        return Some((name, "other types".to_owned(), sql_types(types)));
    }
    let (name, rest) = function_in(text)?.split_once('\'')?;
    let found = between(rest, "(DataType: ", ")")?;
    let mut expected: Vec<&str> = Vec::new();
    for required in rest.match_indices("requires ").map(|(i, word)| &rest[i + word.len()..]) {
        let name = match required.split([',', ' ']).next().unwrap_or_default() {
            "Duration" => "a duration",
            "Timestamp" => "a time",
            "String" => "a text",
            "Boolean" => "a BOOL",
            "Interval" => "an interval",
            _ => "a number",
        };
        if !expected.contains(&name) {
            expected.push(name);
        }
    }
    expected.sort_unstable();
    expected.reverse();
    Some((name, expected.join(" or "), sql_types(found)))
}

/// The text behind `Function '`, where a name begins.
fn function_in(text: &str) -> Option<&str> {
    text.split_once("Function '").map(|(_, rest)| rest)
}

/// Signatures as the engine writes them, in the words of SQL.
fn signature(signatures: &[&str]) -> String {
    let texts: Vec<String> = signatures.iter().take(3).map(|one| sql_types(one)).collect();
    if texts.is_empty() || texts.iter().any(|text| text.contains("UserDefined")) {
        "other types".to_owned()
    } else {
        texts.join(" or ")
    }
}

/// The text between two others.
fn between<'t>(text: &'t str, before: &str, behind: &str) -> Option<&'t str> {
    text.split_once(before)?.1.split_once(behind).map(|(inner, _)| inner)
}

/// The column of a qualified name; an expression as it is.
fn last_part(name: &str) -> &str {
    let name = name.trim_end_matches('.');
    if name.contains(['(', ' ']) { name } else { name.rsplit('.').next().unwrap_or(name).trim_matches('"') }
}

/// Which of the expressions that match are at fault.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Each of them: the first one is shown.
    Each,
    /// One, and only the planner knows which: a place is shown if there is no other.
    One,
    /// The first one outside function calls.
    Bare,
    /// The first one in a WHERE.
    InWhere,
}

/// Finds an expression in a statement.
struct Looking<'a> {
    look: &'a dyn Fn(&Expr) -> Option<Location>,
    fault: Fault,
    /// The depth of function calls around the expression, and whether it is in a WHERE.
    calls: usize,
    in_where: bool,
    found: Vec<Location>,
}

impl Visitor for Looking<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if self.fault == Fault::InWhere && !self.in_where && self.found.is_empty() {
            self.in_where = true;
            let _ = select.selection.as_ref().map(|selection| visit(selection, self));
            self.in_where = false;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let is_candidate = match self.fault {
            Fault::Each | Fault::One => true,
            Fault::Bare => self.calls == 0,
            Fault::InWhere => self.in_where,
        };
        if is_candidate && self.found.len() < 2 {
            self.found.extend((self.look)(expr).filter(|place| place.line > 0));
        }
        self.calls += usize::from(matches!(expr, Expr::Function(_)));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.calls -= usize::from(matches!(expr, Expr::Function(_)));
        ControlFlow::Continue(())
    }
}

/// The place of the expression at fault; the empty place where it is not certain.
fn place(statement: &Statement, fault: Fault, look: &dyn Fn(&Expr) -> Option<Location>) -> Location {
    let statement = match statement {
        Statement::Statement(statement) => statement,
        Statement::Explain(explain) => return place(&explain.statement, fault, look),
        _ => return Location::empty(),
    };
    let mut looking = Looking { look, fault, calls: 0, in_where: false, found: Vec::new() };
    let _ = visit(statement.as_ref(), &mut looking);
    match looking.found.as_slice() {
        [place] => *place,
        [place, ..] if fault != Fault::One => *place,
        _ => Location::empty(),
    }
}

fn function_at(expr: &Expr, is: impl Fn(&str) -> bool) -> Option<Location> {
    match expr {
        Expr::Function(function) if function_name(function).is_some_and(|name| is(name.as_str())) => {
            Some(function.name.span().start)
        }
        _ => None,
    }
}

fn column_at(expr: &Expr, name: &str) -> Option<Location> {
    match expr {
        Expr::Identifier(ident) if ident.value.eq_ignore_ascii_case(name) => Some(ident.span.start),
        _ => None,
    }
}

fn text_at(expr: &Expr, text: &str) -> Option<Location> {
    match expr {
        Expr::Value(value) if matches!(&value.value, Value::SingleQuotedString(one) if one == text) => {
            Some(value.span.start)
        }
        _ => None,
    }
}

/// The place of the right operand of an operator.
fn operand_at(expr: &Expr, operator: &str) -> Option<Location> {
    match expr {
        Expr::BinaryOp { op, right, .. } if op.to_string() == operator => Some(right.span().start),
        _ => None,
    }
}

/// The error of a text in the place of a number.
pub(super) fn text_for_number(text: &str, ty: &str) -> Error {
    Error::new(Kind::Invalid, "cannot compare a text with a number")
        .with("expected", format!("a number ({ty})"))
        .with("found", format!("'{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_types_are_read_from_the_engines_texts() {
        let count = |text| wrong_count(text).map(|(name, expected, found)| format!("{name}: {expected}, {found}"));
        let text = "Internal error: Function 'avg' failed to match any signature, errors: Error during planning: Function 'avg' \
                    expects 1 arguments but received 2,Error during planning: Function 'avg' expects 1 arguments";
        assert_eq!(count(text).as_deref(), Some("avg: 1 argument, 2"));
        let text = "The function 'version' expected zero argument but received 1. No function matches";
        assert_eq!(count(text).as_deref(), Some("version: 0 arguments, 1"));
        let text = "The function lag expects 2 arguments, but 4 were provided";
        assert_eq!(count(text).as_deref(), Some("lag: 2 arguments, 4"));
        let text = "Internal error: Function 'avg' failed to match any signature, errors: Error during planning: Function 'avg' \
                    requires Decimal, but received String (DataType: Utf8).,Error during planning: Function 'avg' requires \
                    Duration, but received String (DataType: Utf8).";
        assert_eq!(count(text), None);
        assert_eq!(wrong_type(text), Some(("avg", "a number or a duration".to_owned(), "VARCHAR".to_owned())));
    }
}
