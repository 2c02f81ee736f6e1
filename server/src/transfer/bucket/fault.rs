//! Errors of requests to a bucket, in the words of the command line.

use object_store::Error;

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    Read,
    List,
    Write,
    Delete,
}

impl Right {
    /// The action of AWS policies.
    fn action(self) -> &'static str {
        match self {
            // Without the right to list, S3 answers so also about an object that does not exist.
            Right::Read => "s3:GetObject, and s3:ListBucket if the object may not exist",
            Right::List => "s3:ListBucket",
            Right::Write => "s3:PutObject",
            Right::Delete => "s3:DeleteObject",
        }
    }
}

/// The error of a request about a URL, with what the user can do.
pub(super) fn explain(url: &str, right: Right, error: Error) -> anyhow::Error {
    let text = full(&error);
    let said = said(&text);
    // The client has no variants for the faults of lists.
    let is_denied = matches!(error, Error::PermissionDenied { .. }) || text.contains("status code: 403");
    match error {
        _ if text.contains("<Code>NoSuchBucket</Code>") => anyhow::anyhow!("{url}: no such bucket"),
        Error::NotFound { .. } if right == Right::Read => anyhow::anyhow!("no such object: {url}"),
        _ if is_denied => {
            anyhow::anyhow!("{url}: access denied{said}; expected credentials with the right {}", right.action())
        }
        Error::Unauthenticated { .. } => {
            anyhow::anyhow!(
                "{url}: the credentials are missing or not valid{said}; expected AWS_ACCESS_KEY_ID and \
                             AWS_SECRET_ACCESS_KEY, or a role"
            )
        }
        Error::Precondition { .. } => anyhow::anyhow!("{url}: the object was changed while it was read"),
        error => anyhow::anyhow!("{url}: the request failed: {error}"),
    }
}

/// The messages of an error and of its causes.
fn full(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}

/// The code and message of the reply of S3, which is XML.
fn said(text: &str) -> String {
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(content, _)| content)
    };
    match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!(" ({code}: {message})"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_url_the_reason_and_the_missing_right() {
        let source = "403 Forbidden: <Error><Code>AccessDenied</Code><Message>Access Denied.</Message></Error>";
        let denied = Error::PermissionDenied { path: "k".to_owned(), source: source.into() };
        let expected =
            "s3://b/k: access denied (AccessDenied: Access Denied.); expected credentials with the right s3:ListBucket";
        assert_eq!(explain("s3://b/k", Right::List, denied).to_string(), expected);
        let listed = Error::Generic { store: "S3", source: format!("status code: {source}").into() };
        assert_eq!(explain("s3://b/k", Right::List, listed).to_string(), expected);
        let missing = Error::Generic { store: "S3", source: "<Code>NoSuchBucket</Code>".into() };
        assert_eq!(explain("s3://b/k", Right::Read, missing).to_string(), "s3://b/k: no such bucket");
    }
}
