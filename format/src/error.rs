//! The one error type of this crate: a kind that says what the caller does, a message, and where.

use std::fmt;

/// What the caller should do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request is wrong: fix it. Never worth a retry.
    Invalid,
    /// The named thing does not exist.
    NotFound,
    /// Somebody else changed what this attempt was based on: refresh and try again.
    Conflict,
    /// The store or a bounded resource cannot serve this now: wait and try again.
    Unavailable,
    /// Stored bytes are not what was written: stop, a person looks.
    Corrupt,
    /// Understood, but not something this version does (a newer format, for example).
    Unsupported,
    /// A bug of ours.
    Internal,
}

impl Kind {
    /// Whether the same attempt may succeed later without any change to it.
    pub fn is_retryable(self) -> bool {
        matches!(self, Kind::Conflict | Kind::Unavailable)
    }
}

/// An error with its [`Kind`], a message, `key: value` context and the error beneath it.
pub struct Error {
    kind: Kind,
    message: String,
    context: Vec<(&'static str, String)>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A new error; the message says what was expected and what was found.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), context: Vec::new(), source: None }
    }

    /// [`Kind::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    /// [`Kind::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    /// [`Kind::Conflict`].
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, message)
    }

    /// [`Kind::Unavailable`].
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Kind::Unavailable, message)
    }

    /// [`Kind::Corrupt`].
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(Kind::Corrupt, message)
    }

    /// [`Kind::Unsupported`].
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Kind::Unsupported, message)
    }

    /// [`Kind::Internal`].
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// Adds one `key: value` of context, such as the object key.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.context.push((key, value.to_string()));
        self
    }

    /// Attaches the error beneath this one.
    #[must_use]
    pub fn source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What the caller should do.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The message without context and source.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The value of one context key, where it was given.
    pub fn context(&self, key: &str) -> Option<&str> {
        self.context.iter().find(|(k, _)| *k == key).map(|(_, v)| v.as_str())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for (i, (key, value)) in self.context.iter().enumerate() {
            write!(f, "{}{key}: {value}", if i == 0 { " (" } else { ", " })?;
        }
        if !self.context.is_empty() {
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind)?;
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            write!(f, "; caused by: {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(e: arrow::error::ArrowError) -> Self {
        Error::internal("arrow operation failed").with("reason", &e).source(e)
    }
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(e: parquet::errors::ParquetError) -> Self {
        Error::internal("parquet operation failed").with("reason", &e).source(e)
    }
}

impl From<object_store::Error> for Error {
    fn from(e: object_store::Error) -> Self {
        let kind = match &e {
            object_store::Error::NotFound { .. } => Kind::NotFound,
            object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. } => Kind::Conflict,
            object_store::Error::InvalidPath { .. } => Kind::Invalid,
            object_store::Error::NotSupported { .. } | object_store::Error::NotImplemented { .. } => Kind::Unsupported,
            _ => Kind::Unavailable,
        };
        Error::new(kind, "object store request failed").with("reason", &e).source(e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_the_context_in_order() {
        let e = Error::corrupt("checksum differs").with("key", "log/a/0").with("expected", 1);
        assert_eq!(e.to_string(), "checksum differs (key: log/a/0, expected: 1)");
        assert_eq!(e.context("key"), Some("log/a/0"));
        assert!(!e.kind().is_retryable());
    }
}
