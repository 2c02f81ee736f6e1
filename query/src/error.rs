//! From DataFusion's errors to ours: a user's mistake stays a user's mistake.

use datafusion::error::DataFusionError;
use tidelake_format::{Error, Kind};

/// Converts an error of planning or execution, keeping one of ours that travelled inside it.
pub fn from_datafusion(error: DataFusionError) -> Error {
    let message = error.strip_backtrace();
    let kind = match error.find_root() {
        DataFusionError::External(inner) => inner.downcast_ref::<Error>().map_or(Kind::Internal, Error::kind),
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
    Error::new(kind, message).source(error)
}

/// Wraps one of ours so that it can pass through DataFusion.
pub fn to_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
