//! From our errors to statuses of gRPC.

use arrow_flight::error::FlightError;
use tidelake_format::{Error, Kind};
use tidelake_protocol::http::grpc_code;
use tonic::{Code, Status};

/// The longest message of a status, in bytes.
const MESSAGE_BYTES: usize = 2_048;

/// The gRPC status of an error: its kind as the code, its message and context as the text.
pub fn to_status(error: &Error) -> Status {
    if matches!(error.kind(), Kind::Internal | Kind::Corrupt) {
        tracing::error!(kind = ?error.kind(), ?error, "a Flight SQL call failed");
    }
    // A status travels in headers, which peers bound to 8 KiB or so.
    let mut text = error.to_string();
    if text.len() > MESSAGE_BYTES {
        text.truncate(text.floor_char_boundary(MESSAGE_BYTES));
        text.push('…');
    }
    Status::new(Code::from(i32::from(grpc_code(error.kind()))), text)
}

/// Ours, out of what a client's Flight stream can fail with: its bytes are wrong, or it went away.
pub(super) fn from_flight(error: FlightError) -> Error {
    match error {
        FlightError::Tonic(status) => match status.code() {
            Code::OutOfRange | Code::InvalidArgument | Code::ResourceExhausted => {
                Error::invalid("the stream of batches cannot be read").with("reason", status.message())
            }
            // So tonic tells of bytes that are no message.
            Code::Internal => Error::invalid("the stream of batches cannot be read").with("reason", status.message()),
            _ => Error::unavailable("the stream of batches broke off").with("reason", status.message()),
        },
        other => Error::invalid("the stream is not one of Arrow batches").with("reason", &other).source(other),
    }
}

/// An error of ours inside a stream that gets encoded.
pub(super) fn to_flight(error: Error) -> FlightError {
    FlightError::Tonic(Box::new(to_status(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_mistake_is_never_internal() {
        for (error, code) in [
            (Error::invalid("x"), Code::InvalidArgument),
            (Error::not_found("x"), Code::NotFound),
            (Error::conflict("x"), Code::Aborted),
            (Error::unauthenticated("x"), Code::Unauthenticated),
            (Error::forbidden("x"), Code::PermissionDenied),
            (Error::unavailable("x"), Code::Unavailable),
            (Error::corrupt("x"), Code::DataLoss),
            (Error::unsupported("x"), Code::Unimplemented),
            (Error::internal("x"), Code::Internal),
        ] {
            assert_eq!(to_status(&error).code(), code);
        }
        assert_eq!(
            to_status(&Error::invalid("no such column").with("column", "c")).message(),
            "no such column (column: c)"
        );
    }
}
