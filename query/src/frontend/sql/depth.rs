//! Prevents syntax trees too deep for recursion: limits chains of operators and balances AND and OR.
//!
//! A chain `a OR b OR c …` parses into a tree as deep as the chain is long. Chains of AND and OR are balanced, because
//! programs generate long ones; other chains are limited.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement,
    sqlparser::{
        ast::{BinaryOperator, Expr, Value, VisitorMut},
        keywords::Keyword,
        tokenizer::Token,
    },
};
use tidelake_format::{Error, Result};

use super::{
    lex::{Tok, at},
    visit::visit_mut,
};

/// Maximum length of a chain of operators, including those inside its parentheses.
const OPERATORS: usize = 300;
/// Maximum length of a chain of AND and OR.
const LOGICAL: usize = 5_000;
/// Maximum number of set operators in a chain.
const ARMS: usize = 200;
/// Maximum number of commas at one level of parentheses, as in IN (…) or a select list.
const ITEMS: usize = 50_000;

/// Counters of one level of parentheses.
#[derive(Default)]
struct Level {
    operators: usize,
    inner: usize,
    deepest: usize,
    logical: usize,
    arms: usize,
    items: usize,
}

impl Level {
    fn end_operand(&mut self) {
        self.deepest = self.deepest.max(self.operators + self.inner);
        self.operators = 0;
        self.inner = 0;
    }
}

/// Refuses chains of operators that are too long.
///
/// # Errors
/// Invalid, with the limit and the position.
pub(crate) fn check(tokens: &[Tok]) -> Result<()> {
    let mut levels = vec![Level::default()];
    for tok in tokens {
        if tok.token == Token::LParen {
            levels.push(Level::default());
            continue;
        }
        if tok.token == Token::RParen
            && levels.len() > 1
            && let Some(mut inner) = levels.pop()
        {
            inner.end_operand();
            if let Some(level) = levels.last_mut() {
                level.inner = level.inner.max(inner.deepest + inner.arms);
            }
        }
        let Some(level) = levels.last_mut() else { continue };
        match &tok.token {
            Token::Comma => {
                level.items += 1;
                level.end_operand();
                level.logical = 0;
            }
            Token::Word(w) if w.quote_style.is_none() => match w.keyword {
                Keyword::AND | Keyword::OR => {
                    level.logical += 1;
                    level.end_operand();
                }
                Keyword::SELECT
                | Keyword::FROM
                | Keyword::WHERE
                | Keyword::GROUP
                | Keyword::HAVING
                | Keyword::ORDER => {
                    level.end_operand();
                    level.logical = 0;
                }
                Keyword::WHEN | Keyword::THEN | Keyword::ELSE => level.end_operand(),
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => level.arms += 1,
                Keyword::IS | Keyword::LIKE | Keyword::ILIKE | Keyword::IN | Keyword::BETWEEN | Keyword::COLLATE => {
                    level.operators += 1;
                }
                _ => {}
            },
            Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::Placeholder(_)
            | Token::Period
            | Token::RParen => {}
            _ => level.operators += 1,
        }
        for (what, found, limit) in [
            ("operators", level.operators + level.inner, OPERATORS),
            ("items", level.items, ITEMS),
            ("AND and OR", level.logical, LOGICAL),
            ("arms of UNION, EXCEPT and INTERSECT", level.arms, ARMS),
        ] {
            if found > limit {
                return Err(at(
                    Error::invalid(format!("too long a chain of {what}")).with("limit", limit),
                    tok.span.start,
                ));
            }
        }
    }
    Ok(())
}

/// Nesting depth of a statement: the maximum of the parentheses and CASEs around a token plus the signs and NOTs before it.
pub(crate) fn nesting(tokens: &[Tok]) -> usize {
    let (mut deepest, mut around, mut before) = (0, 0_usize, 0_usize);
    for tok in tokens {
        let is_sign = matches!(tok.token, Token::Minus | Token::Plus | Token::Tilde | Token::ExclamationMark);
        if is_sign || tok.is_word("not") {
            before += 1;
        } else {
            before = 0;
        }
        if matches!(tok.token, Token::LParen | Token::LBracket | Token::LBrace) || tok.is_word("case") {
            around += 1;
        } else if matches!(tok.token, Token::RParen | Token::RBracket | Token::RBrace) || tok.is_word("end") {
            around = around.saturating_sub(1);
        }
        deepest = deepest.max(around + before);
    }
    deepest
}

/// Balances every chain of AND and of OR.
pub(crate) fn balance(statement: &mut Statement) {
    match statement {
        Statement::Statement(statement) => {
            let _ = visit_mut(statement.as_mut(), &mut Balance);
        }
        Statement::Explain(explain) => balance(&mut explain.statement),
        _ => {}
    }
}

struct Balance;

impl VisitorMut for Balance {
    type Break = Box<Error>;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), left, .. } = expr
            && matches!(left.as_ref(), Expr::BinaryOp { op: inner, .. } if inner == op)
        {
            let op = op.clone();
            let mut operands = Vec::new();
            let mut rest = take(expr);
            // The tree is left-deep: collect the operands from last to first.
            loop {
                match rest {
                    Expr::BinaryOp { left, op: inner, right } if inner == op => {
                        operands.push(*right);
                        rest = *left;
                    }
                    first => {
                        operands.push(first);
                        break;
                    }
                }
            }
            operands.reverse();
            *expr = join(operands, &op);
        }
        ControlFlow::Continue(())
    }
}

fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::Value(Value::Null.with_empty_span()))
}

/// Builds `a op b op …` as a balanced tree, in the same order.
pub(crate) fn join(mut operands: Vec<Expr>, op: &BinaryOperator) -> Expr {
    while operands.len() > 1 {
        let mut pairs = Vec::with_capacity(operands.len() / 2 + 1);
        let mut rest = operands.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) },
                None => left,
            });
        }
        operands = pairs;
    }
    operands.pop().unwrap_or_else(|| Expr::Value(Value::Boolean(false).with_empty_span()))
}
