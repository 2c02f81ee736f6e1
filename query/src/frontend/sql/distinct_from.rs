//! Corrects the right side of IS [NOT] DISTINCT FROM.
//!
//! The parser reads it as far as the whole expression goes: `a IS DISTINCT FROM b AND c` becomes
//! `a IS DISTINCT FROM (b AND c)`. IS binds more closely than NOT, AND and OR, so this means
//! `(a IS DISTINCT FROM b) AND c`.

use std::{iter::Peekable, ops::ControlFlow, vec};

use datafusion::sql::{
    parser::Statement,
    sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, Visitor, VisitorMut},
};
use tidelake_format::Error;

use super::visit::{visit, visit_mut};

/// Gives every IS [NOT] DISTINCT FROM of a statement its own right side, in subqueries too.
pub(crate) fn correct(statement: &mut Statement) {
    match statement {
        // Most statements have none, and need no new conditions.
        Statement::Statement(statement) if visit(statement.as_ref(), &mut Find).is_break() => {
            let _ = visit_mut(statement.as_mut(), &mut Correct::default());
        }
        Statement::Explain(explain) => correct(&mut explain.statement),
        _ => {}
    }
}

/// Stops at an IS [NOT] DISTINCT FROM whose right side is an AND or an OR.
struct Find;

impl Visitor for Find {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) if takes_too_much(right) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Whether an expression ends in an operand of AND, OR or another IS DISTINCT FROM that is not in parentheses.
fn takes_too_much(right: &Expr) -> bool {
    match right {
        Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. }
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..) => true,
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => takes_too_much(expr),
        _ => false,
    }
}

/// Nests each condition anew.
#[derive(Default)]
struct Correct {
    /// For each expression around the visited one: whether it is an operator of a condition. Its operands are then nested
    /// already.
    around: Vec<bool>,
}

impl VisitorMut for Correct {
    type Break = Box<Error>;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        let is_operator = matches!(
            expr,
            Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or, .. }
                | Expr::UnaryOp { op: UnaryOperator::Not, .. }
                | Expr::IsDistinctFrom(..)
                | Expr::IsNotDistinctFrom(..)
        );
        if is_operator && self.around.last() != Some(&true) {
            let whole = std::mem::replace(expr, Expr::value(Value::Null));
            *expr = parse(&mut items(whole).into_iter().peekable(), 0);
        }
        self.around.push(is_operator);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &mut Expr) -> ControlFlow<Self::Break> {
        self.around.pop();
        ControlFlow::Continue(())
    }
}

/// An operand or an operator of a condition.
enum Item {
    Operand(Box<Expr>),
    Not,
    Infix(Infix),
}

#[derive(Clone, Copy)]
enum Infix {
    Or,
    And,
    IsDistinctFrom,
    IsNotDistinctFrom,
}

/// How closely NOT binds: between AND and IS.
const NOT: u8 = 3;

impl Infix {
    /// How closely the operator binds.
    fn closeness(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::IsDistinctFrom | Self::IsNotDistinctFrom => NOT + 1,
        }
    }

    fn of(self, left: Expr, right: Expr) -> Expr {
        let (left, right) = (Box::new(left), Box::new(right));
        match self {
            Self::Or => Expr::BinaryOp { left, op: BinaryOperator::Or, right },
            Self::And => Expr::BinaryOp { left, op: BinaryOperator::And, right },
            Self::IsDistinctFrom => Expr::IsDistinctFrom(left, right),
            Self::IsNotDistinctFrom => Expr::IsNotDistinctFrom(left, right),
        }
    }
}

/// The operands and operators in the order of the text. The parser keeps that order, whatever it nests.
fn items(whole: Expr) -> Vec<Item> {
    let (mut found, mut open) = (Vec::new(), vec![Item::Operand(Box::new(whole))]);
    while let Some(item) = open.pop() {
        let Item::Operand(expr) = item else {
            found.push(item);
            continue;
        };
        let (infix, parts) = match *expr {
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => (Infix::And, (left, right)),
            Expr::BinaryOp { left, op: BinaryOperator::Or, right } => (Infix::Or, (left, right)),
            Expr::IsDistinctFrom(left, right) => (Infix::IsDistinctFrom, (left, right)),
            Expr::IsNotDistinctFrom(left, right) => (Infix::IsNotDistinctFrom, (left, right)),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
                found.push(Item::Not);
                open.push(Item::Operand(expr));
                continue;
            }
            operand => {
                found.push(Item::Operand(Box::new(operand)));
                continue;
            }
        };
        open.extend([Item::Operand(parts.1), Item::Infix(infix), Item::Operand(parts.0)]);
    }
    found
}

/// Nests the items up to the first operator that does not bind more closely than `least`.
fn parse(items: &mut Peekable<vec::IntoIter<Item>>, least: u8) -> Expr {
    let mut whole = match items.next() {
        Some(Item::Not) => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(parse(items, NOT)) },
        Some(Item::Operand(operand)) => *operand,
        // `items` puts an operand, or NOT and an operand, at the beginning and after each operator.
        Some(Item::Infix(_)) | None => unreachable!("an operator has an operand on each side"),
    };
    while let Some(Item::Infix(infix)) = items.peek() {
        let infix = *infix;
        if infix.closeness() <= least {
            break;
        }
        items.next();
        whole = infix.of(whole, parse(items, infix.closeness()));
    }
    whole
}

#[cfg(test)]
mod tests {
    use datafusion::sql::{
        parser::DFParser,
        sqlparser::ast::{SelectItem, SetExpr, Statement as Ast},
    };

    use super::*;

    /// The expression with parentheses around every operator.
    fn nested(expr: &Expr) -> String {
        match expr {
            Expr::BinaryOp { left, op, right } => format!("({} {op} {})", nested(left), nested(right)),
            Expr::IsDistinctFrom(left, right) => format!("({} D {})", nested(left), nested(right)),
            Expr::IsNotDistinctFrom(left, right) => format!("({} S {})", nested(left), nested(right)),
            Expr::UnaryOp { op, expr } => format!("({op} {})", nested(expr)),
            Expr::Nested(expr) => nested(expr),
            other => other.to_string(),
        }
    }

    fn corrected(condition: &str) -> String {
        let mut statement = DFParser::parse_sql(&format!("select {condition}")).unwrap().pop_front().unwrap();
        correct(&mut statement);
        let Statement::Statement(statement) = statement else { panic!("a query") };
        let Ast::Query(query) = *statement else { panic!("a query") };
        let SetExpr::Select(select) = *query.body else { panic!("a SELECT") };
        let [SelectItem::UnnamedExpr(expr)] = select.projection.as_slice() else { panic!("one expression") };
        nested(expr)
    }

    #[test]
    fn the_right_side_ends_before_and_or_and_the_next_is() {
        for (condition, expected) in [
            ("a is distinct from b", "(a D b)"),
            ("a is distinct from b and c", "((a D b) AND c)"),
            ("a is not distinct from b or c", "((a S b) OR c)"),
            ("c and a is distinct from b or d", "((c AND (a D b)) OR d)"),
            ("a is distinct from b and c is not distinct from d or e", "(((a D b) AND (c S d)) OR e)"),
            ("a or b is distinct from c and d", "(a OR ((b D c) AND d))"),
            ("not a is distinct from b and c", "((NOT (a D b)) AND c)"),
            ("a is distinct from not b and c", "((a D (NOT b)) AND c)"),
            ("a is distinct from (b and c) or d", "((a D (b AND c)) OR d)"),
            ("a is distinct from b is distinct from c", "((a D b) D c)"),
            ("a is distinct from b + 1 and c = 2", "((a D (b + 1)) AND (c = 2))"),
            ("a is distinct from b = c and d", "((a D (b = c)) AND d)"),
            ("(a is distinct from b and c) or d", "(((a D b) AND c) OR d)"),
        ] {
            assert_eq!(corrected(condition), expected, "{condition}");
        }
    }
}
