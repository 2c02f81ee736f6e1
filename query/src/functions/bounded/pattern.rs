//! The bound of patterns of LIKE, SIMILAR TO and regular expressions: to compile one takes hundreds of bytes of memory for each of
//! its bytes, and nothing can stop it.
//!
//! Functions check theirs ([`Work::Pattern`](super::work::Work)). Operators are no functions: a constant pattern is checked where the
//! statement is planned, any other one is the argument of a function that gives it back.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion::{
    error::Result as DfResult,
    logical_expr::{
        BinaryExpr, ColumnarValue, Expr, Like, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        Volatility, expr::ScalarFunction,
    },
};

use super::{bound, missing, work::checked_pattern};

/// The name of the function, in plans alone.
pub(super) const NAME: &str = "checked_pattern";

static FUNCTION: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| bound(Arc::new(ScalarUDF::from(Pattern { signature: Signature::any(1, Volatility::Immutable) }))));

/// An operator with a bound for its pattern; another expression as it is, with false.
///
/// # Errors
/// Invalid where a constant pattern is too long.
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
            let (right, is_changed) = checked(right, op.to_string().as_str())?;
            (Expr::BinaryExpr(BinaryExpr { left, op, right }), is_changed)
        }
        Expr::Like(like) => {
            let (pattern, is_changed) = checked(like.pattern, "LIKE")?;
            (Expr::Like(Like { pattern, ..like }), is_changed)
        }
        Expr::SimilarTo(like) => {
            let (pattern, is_changed) = checked(like.pattern, "SIMILAR TO")?;
            (Expr::SimilarTo(Like { pattern, ..like }), is_changed)
        }
        other => (other, false),
    })
}

fn checked(pattern: Box<Expr>, operator: &str) -> DfResult<(Box<Expr>, bool)> {
    match pattern.as_ref() {
        Expr::Literal(value, _) => {
            let length = value.try_as_str().flatten().map_or(0, str::len);
            checked_pattern(operator, length as u64)?;
            Ok((pattern, false))
        }
        Expr::ScalarFunction(ScalarFunction { func, .. }) if func.name() == NAME => Ok((pattern, false)),
        _ => Ok((Box::new(FUNCTION.call(vec![*pattern])), true)),
    }
}

/// Gives its argument back.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Pattern {
    signature: Signature,
}

impl ScalarUDFImpl for Pattern {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        types.first().cloned().ok_or_else(|| missing(NAME))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        args.args.into_iter().next().ok_or_else(|| missing(NAME))
    }
}
