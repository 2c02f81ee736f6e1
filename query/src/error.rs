//! From DataFusion's errors to ours: a user's mistake stays a user's mistake.

use datafusion::error::DataFusionError;
use tidelake_format::{Error, Kind};

/// Converts an error of planning or execution, keeping one of ours that travelled inside it.
pub fn from_datafusion(error: DataFusionError) -> Error {
    let ours = match error.find_root() {
        DataFusionError::External(inner) => inner.downcast_ref::<Error>().map(|e| (e.kind(), e.to_string())),
        _ => None,
    };
    if let Some((kind, message)) = ours {
        return Error::new(kind, message).source(error);
    }
    let root = error.find_root();
    let kind = match root {
        DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::Configuration(_)
        | DataFusionError::Execution(_)
        | DataFusionError::ArrowError(..) => Kind::Invalid,
        DataFusionError::NotImplemented(_) => Kind::Unsupported,
        DataFusionError::ResourcesExhausted(_) | DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) => {
            Kind::Unavailable
        }
        _ => Kind::Internal,
    };
    let message = match (kind, root) {
        // where it happened helps only who looks for a bug of ours
        (Kind::Internal, _) => error.strip_backtrace(),
        (_, DataFusionError::ArrowError(reason, _)) => reason.to_string(),
        _ => root.strip_backtrace(),
    };
    Error::new(kind, message).source(error)
}

/// Wraps one of ours so that it can pass through DataFusion.
pub fn to_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

#[cfg(test)]
mod tests {
    use arrow::error::ArrowError;

    use super::*;

    #[test]
    fn a_mistake_is_told_without_the_rule_that_has_found_it() {
        let reason = ArrowError::CastError("Cannot cast string 'x' to value of Int64 type".to_owned());
        let found = DataFusionError::ArrowError(Box::new(reason), None).context("Optimizer rule 'simplify' failed");
        let error = from_datafusion(found);
        assert_eq!(error.kind(), Kind::Invalid);
        assert_eq!(error.to_string(), "Cast error: Cannot cast string 'x' to value of Int64 type");
        let bug = from_datafusion(DataFusionError::Internal("no such column".to_owned()).context("rule"));
        assert!(bug.to_string().contains("rule"), "{bug}");
    }

    #[test]
    fn an_error_of_ours_comes_out_as_it_went_in() {
        let inner = Error::corrupt("a segment is torn").with("key", "log/1");
        let said = inner.to_string();
        let wrapped = to_datafusion(inner).context("while sorting");
        let error = from_datafusion(DataFusionError::Shared(std::sync::Arc::new(wrapped)));
        assert_eq!((error.kind(), error.to_string()), (Kind::Corrupt, said));
    }
}
