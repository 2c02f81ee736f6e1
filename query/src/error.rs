//! Converts DataFusion's errors to [`Error`] and back; a user error keeps its kind.

use datafusion::error::DataFusionError;
use tidelake_format::{Error, Kind};

use crate::type_names::sql_types;

/// Converts a planning or execution error. An [`Error`] wrapped in it stays as it is.
pub fn from_datafusion(error: DataFusionError) -> Error {
    let ours = match error.find_root() {
        DataFusionError::External(inner) => inner.downcast_ref::<Error>().map(Error::copied),
        _ => None,
    };
    if let Some(ours) = ours {
        return ours.source(error);
    }
    let root = error.find_root();
    if let DataFusionError::ResourcesExhausted(text) = root {
        return used_up(text).source(error);
    }
    let kind = match root {
        DataFusionError::External(inner) if is_of_pattern(&inner.to_string()) => Kind::Invalid,
        DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::Configuration(_)
        | DataFusionError::Execution(_)
        | DataFusionError::ArrowError(..) => Kind::Invalid,
        DataFusionError::NotImplemented(_) => Kind::Unsupported,
        DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) => Kind::Unavailable,
        _ => Kind::Internal,
    };
    let message = match (kind, root) {
        // DataFusion's context is kept only for internal errors, where it helps to find the bug.
        (Kind::Internal, _) => return Error::new(kind, error.strip_backtrace()).source(error),
        (_, DataFusionError::ArrowError(reason, _)) => reason.to_string(),
        (_, DataFusionError::External(reason)) => reason.to_string(),
        _ => root.strip_backtrace(),
    };
    of_values(&message).unwrap_or_else(|| Error::new(kind, plain(&message))).source(error)
}

/// The engine's text without its classes of errors, its advice to report a bug, and its empty last line.
fn plain(text: &str) -> &str {
    const CLASSES: [&str; 10] = [
        "Error during planning: ",
        "Execution error: ",
        "Schema error: ",
        "SQL error: ",
        "Arrow error: ",
        "Cast error: ",
        "Parser error: ",
        "Compute error: ",
        "Invalid argument error: ",
        "This feature is not implemented: ",
    ];
    let mut text = text.split("\nThis issue was likely caused by a bug").next().unwrap_or(text);
    while let Some(rest) = CLASSES.iter().find_map(|class| text.strip_prefix(class)) {
        text = rest;
    }
    text.strip_prefix("Internal error: ").unwrap_or(text).trim_end()
}

/// The error of a value that an expression cannot take, from the engine's text; `None` for other texts.
fn of_values(text: &str) -> Option<Error> {
    if text.contains("ivide by zero") {
        return Some(
            Error::invalid("division by zero")
                .with("expected", "a divisor other than 0")
                .with("use", "a / nullif(b, 0), which is NULL where b is 0"),
        );
    }
    if let Some((option, _)) =
        text.split_once("EXPLAIN option ").and_then(|(_, rest)| rest.split_once(" is not supported"))
    {
        let error = Error::unsupported("this option of EXPLAIN is not supported").with("found", option);
        return Some(error.with("use", "EXPLAIN SELECT …, or EXPLAIN ANALYZE SELECT …"));
    }
    if let Some((value, ty)) =
        text.split_once("Cannot cast string ").and_then(|(_, rest)| rest.split_once(" to value of "))
    {
        let ty = ty.strip_suffix(" type").unwrap_or(ty).lines().next().unwrap_or(ty);
        let ty = sql_types(ty);
        let error = Error::invalid("this text has no value of the type").with("expected", &ty);
        let error = error.with("found", shorten(value));
        return Some(error.with("use", format!("TRY_CAST(… AS {ty}), which is NULL for such texts")));
    }
    let behind = |words: &str| text.split_once(words).map(|(_, rest)| rest);
    let clause = behind("LIMIT must be >= 0, '").map(|rest| ("LIMIT", rest));
    if let Some((clause, rest)) = clause.or_else(|| behind("OFFSET must be >=0, '").map(|rest| ("OFFSET", rest))) {
        let found = rest.split('\'').next().unwrap_or(rest);
        let error = Error::invalid(format!("{clause} is negative"));
        return Some(error.with("expected", "0 or more rows").with("found", shorten(found)));
    }
    if let Some(found) = behind("Percentile value must be between 0.0 and 1.0 inclusive, ") {
        let found = found.split(" is invalid").next().unwrap_or(found);
        let error = Error::invalid("the fraction of a percentile is out of range");
        return Some(error.with("expected", "0 to 1, such as 0.95").with("found", shorten(found)));
    }
    if let Some((value, ty)) = text.split_once("Can't cast value ").and_then(|(_, rest)| rest.split_once(" to type ")) {
        let ty = sql_types(ty.lines().next().unwrap_or(ty));
        let error = Error::invalid("this value is out of the range of the type").with("expected", &ty);
        let error = error.with("found", shorten(value));
        return Some(error.with("use", format!("TRY_CAST(… AS {ty}), which is NULL for such values")));
    }
    if let Some((unit, units)) =
        text.split_once(" granularity: '").and_then(|(_, rest)| rest.split_once("'. Supported values are: "))
    {
        let error = Error::invalid("no such unit of time").with("found", shorten(unit));
        return Some(error.suggest(unit, units.split(", ")).with("expected one of", units));
    }
    let zone =
        text.split_once("Invalid timezone \"").and_then(|(_, rest)| rest.split_once('"')).map(|(zone, _)| zone)?;
    let error = Error::invalid("no such time zone").with("found", shorten(zone));
    let known = chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
    Some(error.suggest(zone, known).with("expected", "an IANA name such as Europe/Berlin, or an offset such as +02:00"))
}

/// Whether the text is a regex library's error about a pattern. Several libraries are in use, each with its own error type.
fn is_of_pattern(text: &str) -> bool {
    text.starts_with("regex parse error") || text.starts_with("Compiled regex exceeds size limit")
}

/// The out-of-memory error for DataFusion's text "Failed to allocate additional 1.5 MB for `HashJoinInput[0]` with 2.0 MB already
/// allocated for this reservation - 64.0 KB remain available for the total memory pool: …". Any other text, such as that of a
/// user's memory limit, is kept as the message.
fn used_up(text: &str) -> Error {
    let text = text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or(text);
    let parts = || {
        let (needed, rest) = text.split_once("Failed to allocate additional ")?.1.split_once(" for ")?;
        let (operator, rest) = rest.split_once(" with ")?;
        let (held, rest) = rest.split_once(" already allocated for this reservation - ")?;
        Some((needed, operator, held, rest.split_once(" remain available")?.0))
    };
    match parts() {
        Some((needed, operator, held, free)) => Error::unavailable(
            "the memory for queries is used up; select fewer rows, columns or groups, try again when fewer queries run, or raise \
             query_memory",
        )
        .with("needed", needed)
        .with("free", free)
        .with("operator", operator)
        .with("held", held),
        None => Error::unavailable(text),
    }
}

/// The error `what` for an allocation that the query memory pool refused with `full`.
pub(crate) fn no_room(what: String, full: DataFusionError) -> Error {
    let reason = from_datafusion(full);
    let error = Error::unavailable(what);
    match (reason.context("needed"), reason.context("free")) {
        (Some(needed), Some(free)) => error.with("needed", needed).with("free", free),
        _ => error.with("reason", reason.to_string()),
    }
}

/// Wraps an [`Error`] so that it can pass through DataFusion.
pub fn to_datafusion(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Converts a planning error: a wrapped [`Error`] is returned unchanged, a DataFusion error is converted by its kind.
pub(crate) fn of_planning(error: DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => from_datafusion(DataFusionError::External(other)),
        },
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => of_planning(*inner),
        DataFusionError::Collection(mut errors) if !errors.is_empty() => of_planning(errors.swap_remove(0)),
        // DataFusion reports some statements that it cannot plan as internal errors.
        DataFusionError::Internal(message) => {
            let message = message.lines().next().unwrap_or_default().trim_end_matches('.').to_owned();
            Error::unsupported("this statement cannot be planned").with("reason", message)
        }
        other => from_datafusion(other),
    }
}

/// Truncates untrusted text to 80 characters for an error message.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::error::ArrowError;

    use super::*;

    #[test]
    fn a_user_error_omits_the_optimizer_rule() {
        let reason = ArrowError::CastError("Cannot cast string 'x' to value of Int64 type".to_owned());
        let found = DataFusionError::ArrowError(Box::new(reason), None).context("Optimizer rule 'simplify' failed");
        let error = from_datafusion(found);
        assert_eq!(error.kind(), Kind::Invalid);
        let expected = "this text has no value of the type (expected: BIGINT, found: 'x', use: TRY_CAST(… AS BIGINT), which is \
                        NULL for such texts)";
        assert_eq!(error.to_string(), expected);
        let reason = ArrowError::CastError("Can't cast value 300 to type Int8".to_owned());
        let error = from_datafusion(DataFusionError::ArrowError(Box::new(reason), None));
        let expected = "this value is out of the range of the type (expected: TINYINT, found: 300, use: TRY_CAST(… AS TINYINT), \
                        which is NULL for such values)";
        assert_eq!(error.to_string(), expected);
        let twice = DataFusionError::Plan(
            "Execution error: Internal error: no width.\nThis issue was likely caused by a bug".into(),
        );
        assert_eq!(from_datafusion(twice).to_string(), "no width.");
        let bug = from_datafusion(DataFusionError::Internal("no such column".to_owned()).context("rule"));
        assert!(bug.to_string().contains("rule"), "{bug}");
    }

    #[test]
    fn an_out_of_memory_error_names_needed_and_free_bytes() {
        use datafusion::execution::memory_pool::{FairSpillPool, MemoryConsumer, MemoryPool};
        let pool: std::sync::Arc<dyn MemoryPool> = std::sync::Arc::new(FairSpillPool::new(100 << 10));
        let reservation = MemoryConsumer::new("HashJoinInput[0]").register(&pool);
        reservation.try_grow(40 << 10).unwrap();
        let full = || reservation.try_grow(1 << 20).unwrap_err();
        let error = from_datafusion(full());
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(error.to_string().starts_with("the memory for queries is used up; select fewer rows"), "{error}");
        for (key, value) in
            [("needed", "1024.0 KB"), ("free", "60.0 KB"), ("operator", "HashJoinInput[0]"), ("held", "40.0 KB")]
        {
            assert_eq!(error.context(key), Some(value), "{error}");
        }
        let error = no_room("no room for a result".to_owned(), full());
        assert_eq!((error.kind(), error.context("free")), (Kind::Unavailable, Some("60.0 KB")), "{error}");
        let other =
            from_datafusion(DataFusionError::ResourcesExhausted("the queries of user ada may hold 5 bytes".to_owned()));
        assert_eq!(other.to_string(), "the queries of user ada may hold 5 bytes");
    }

    #[test]
    fn a_wrapped_error_is_returned_unchanged() {
        let inner = Error::corrupt("a segment is torn").with("key", "log/1");
        let said = inner.to_string();
        let wrapped = to_datafusion(inner).context("while sorting");
        let error = from_datafusion(DataFusionError::Shared(std::sync::Arc::new(wrapped)));
        assert_eq!((error.kind(), error.to_string()), (Kind::Corrupt, said));
    }
}
