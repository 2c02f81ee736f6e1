//! Converts between [`Error`] and gRPC statuses.

use arrow_flight::error::FlightError;
use tidelake_format::{Error, Kind};
use tidelake_protocol::http::grpc_code;
use tonic::{Code, Status};

/// Maximum length of a status message, in bytes.
const MESSAGE_BYTES: usize = 2_048;

/// The gRPC status of an error: the code from its kind, the text from its message and context.
pub fn to_status(error: &Error) -> Status {
    if matches!(error.kind(), Kind::Internal | Kind::Corrupt) {
        tracing::error!(kind = ?error.kind(), ?error, "Flight SQL call failed");
    }
    // A status is sent in headers, which peers limit to about 8 KiB.
    let mut text = error.to_string();
    if text.len() > MESSAGE_BYTES {
        text.truncate(text.floor_char_boundary(MESSAGE_BYTES));
        text.push('…');
    }
    Status::new(Code::from(i32::from(grpc_code(error.kind()))), text)
}

/// Converts an error of a client's Flight stream: invalid bytes, or a lost client.
pub(super) fn from_flight(error: FlightError) -> Error {
    match error {
        FlightError::Tonic(status) => match status.code() {
            Code::OutOfRange | Code::InvalidArgument | Code::ResourceExhausted => {
                Error::invalid("cannot read the stream of batches").with("reason", status.message())
            }
            // tonic reports bytes that are not a message with this code.
            Code::Internal => Error::invalid("cannot read the stream of batches").with("reason", status.message()),
            _ => Error::unavailable("stream of batches ended early").with("reason", status.message()),
        },
        other => Error::invalid("invalid stream of Arrow batches").with("reason", &other).source(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_error_is_never_internal() {
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
