//! The one error type of this crate: a kind that says what the caller does, a message, and where.

use std::fmt;

/// What the caller should do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The request is wrong: fix it. Never worth a retry.
    Invalid,
    /// The named thing does not exist.
    NotFound,
    /// A concurrent change invalidated this attempt: refresh and try again.
    Conflict,
    /// The caller is not authenticated: send valid credentials.
    Unauthenticated,
    /// The caller has no right to do this.
    Forbidden,
    /// The store or a bounded resource cannot serve this now: wait and try again.
    Unavailable,
    /// The store has no space left, or its quota is used up: the same attempt succeeds once there is room.
    Full,
    /// Stored bytes are not what was written: stop; an operator must investigate.
    Corrupt,
    /// Understood, but not something this version does (a newer format, for example).
    Unsupported,
    /// A bug of ours.
    Internal,
}

impl Kind {
    /// Whether the same attempt may succeed later without any change to it.
    pub fn is_retryable(self) -> bool {
        matches!(self, Kind::Conflict | Kind::Unavailable | Kind::Full)
    }

    /// Whether the caller, not the operator, has to change something.
    pub fn is_callers(self) -> bool {
        matches!(self, Kind::Invalid | Kind::NotFound | Kind::Unsupported | Kind::Unauthenticated | Kind::Forbidden)
    }
}

/// What an [`Error`] is about, where some protocol has a code of its own for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A statement needs a database, and neither the statement nor the session names one.
    DatabaseNotSpecified,
    /// There is no database of this name.
    DatabaseNotFound,
    /// There is no table of this name.
    TableNotFound,
    /// There is no column or tag of this name.
    ColumnNotFound,
    /// There is a database of this name already.
    DatabaseExists,
    /// There is a table of this name already.
    TableExists,
}

/// An error with its [`Kind`], a message, `key: value` context and the error beneath it.
pub struct Error {
    kind: Kind,
    reason: Option<Reason>,
    message: String,
    context: Vec<(&'static str, String)>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A new error; the message says what was expected and what was found.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, reason: None, message: message.into(), context: Vec::new(), source: None }
    }

    /// [`Kind::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    /// [`Kind::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    /// [`Kind::Unauthenticated`].
    pub fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(Kind::Unauthenticated, message)
    }

    /// [`Kind::Forbidden`].
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(Kind::Forbidden, message)
    }

    /// [`Kind::Conflict`].
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, message)
    }

    /// [`Kind::Unavailable`].
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Kind::Unavailable, message)
    }

    /// [`Kind::Full`].
    pub fn full(message: impl Into<String>) -> Self {
        Self::new(Kind::Full, message)
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

    /// Says what the error is about.
    #[must_use]
    pub fn because(self, reason: impl Into<Option<Reason>>) -> Self {
        Self { reason: reason.into(), ..self }
    }

    /// The same error for another caller, without the error beneath it.
    #[must_use]
    pub fn copied(&self) -> Self {
        let (message, context) = (self.message.clone(), self.context.clone());
        Self { kind: self.kind, reason: self.reason, message, context, source: None }
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

    /// What the error is about, where that is one of the known reasons.
    pub fn reason(&self) -> Option<Reason> {
        self.reason
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
