//! Bounds patterns of LIKE, SIMILAR TO and regular expressions: compiling one takes hundreds of bytes of memory per
//! byte of pattern, and cannot be interrupted.
//!
//! Functions check their patterns ([`Work::Pattern`](super::work::Work)). Operators are not functions: their constant
//! patterns are checked during planning; other patterns are wrapped in a function that checks and returns its argument.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion::{
    error::Result as DfResult,
    logical_expr::{
        BinaryExpr, ColumnarValue, Expr, Like, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility, expr::ScalarFunction,
    },
};

use super::{
    bound, missing,
    work::{checked_length, checked_pattern},
};

/// Names of the functions; internal to plans.
pub(super) const REGEX: &str = "checked_pattern";
pub(super) const LIKE: &str = "checked_like_pattern";
pub(super) const TEXT: &str = "searched_text";

static OF_REGEX: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(REGEX));
static OF_LIKE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(LIKE));
static OF_TEXT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(TEXT));

fn function(name: &'static str) -> Arc<ScalarUDF> {
    let arguments = if name == TEXT { 2 } else { 1 };
    bound(Arc::new(ScalarUDF::from(Pattern { name, signature: Signature::any(arguments, Volatility::Immutable) })))
}

/// Wraps the pattern of an operator in a check; other expressions are returned unchanged, with false.
///
/// # Errors
/// Invalid if a constant pattern is too long.
pub(super) fn bound_operator(expr: Expr) -> DfResult<(Expr, bool)> {
    use Operator::*;
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr {
            left,
            op:
                op @ (RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch | LikeMatch | ILikeMatch | NotLikeMatch
                | NotILikeMatch),
            right,
        }) => {
            let is_regex = matches!(op, RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch);
            let (left, is_wrapped) = if is_regex { searched(left, &right) } else { (left, false) };
            let (right, is_changed) = checked(right, op.to_string().as_str(), is_regex)?;
            (Expr::BinaryExpr(BinaryExpr { left, op, right }), is_changed || is_wrapped)
        }
        Expr::Like(like) => {
            let (pattern, is_changed) = checked(like.pattern, "LIKE", false)?;
            (Expr::Like(Like { pattern, ..like }), is_changed)
        }
        Expr::SimilarTo(like) => {
            let (expr, is_wrapped) = searched(like.expr, &like.pattern);
            let (pattern, is_changed) = checked(like.pattern, "SIMILAR TO", true)?;
            (Expr::SimilarTo(Like { expr, pattern, ..like }), is_changed || is_wrapped)
        }
        other => (other, false),
    })
}

fn checked(pattern: Box<Expr>, operator: &str, is_regex: bool) -> DfResult<(Box<Expr>, bool)> {
    match pattern.as_ref() {
        Expr::Literal(value, _) => {
            let text = value.try_as_str().flatten().unwrap_or_default();
            if is_regex {
                checked_pattern(operator, text)?;
            } else {
                checked_length(operator, text.len() as u64)?;
            }
            Ok((pattern, false))
        }
        Expr::ScalarFunction(ScalarFunction { func, .. }) if [REGEX, LIKE].contains(&func.name()) => {
            Ok((pattern, false))
        }
        _ => {
            let function = if is_regex { &OF_REGEX } else { &OF_LIKE };
            Ok((Box::new(function.call(vec![*pattern])), true))
        }
    }
}

/// Wraps the text that a regular expression searches, if it is computed and so may be long, in a function that checks
/// text and pattern and returns the text. Columns stay unwrapped, so that filters on them still select series.
fn searched(text: Box<Expr>, pattern: &Expr) -> (Box<Expr>, bool) {
    match text.as_ref() {
        Expr::Column(_) | Expr::Literal(..) => (text, false),
        Expr::ScalarFunction(ScalarFunction { func, .. }) if func.name() == TEXT => (text, false),
        _ => (Box::new(OF_TEXT.call(vec![*text, pattern.clone()])), true),
    }
}

/// Returns its first argument.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Pattern {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Pattern {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        types.first().cloned().ok_or_else(|| missing(self.name))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        args.args.into_iter().next().ok_or_else(|| missing(self.name))
    }
}
