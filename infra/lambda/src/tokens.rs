//! Authenticates requests by tokens listed in a secret, in any client's form. The secret also lists the rights of each token.
//!
//! `Authorization: Bearer …` and `Token …` (InfluxDB 2), `Basic …` with the token as the password, `?p=…` (InfluxDB 1).
//! A function whose URL is protected by the platform has no tokens.

use std::{
    fmt,
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, Uri, header};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use parking_lot::Mutex;
use serde::Deserialize;
use subtle::ConstantTimeEq;
use tidelake_format::{
    Error, Result,
    access::{Named, Principal, Privileges, Users},
};

use crate::aws::Aws;

/// Longest age of the cached secret for a known token: a revoked token is accepted for at most this long.
const BELIEVED: Duration = Duration::from_secs(60);
/// Longest age of the cached secret for an unknown token; an unknown token is refused without a read while the secret is younger.
const READ_AGAIN: Duration = Duration::from_secs(5);
/// Minimum length of a token, in bytes.
const LEAST: usize = 16;

/// The tokens of a secret.
#[derive(Debug)]
pub struct Tokens {
    secret: String,
    aws: Aws,
    known: Mutex<Option<(Instant, Vec<Token>)>>,
}

/// A token and its principal.
#[derive(PartialEq, Eq)]
struct Token {
    text: String,
    principal: Principal,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("principal", &self.principal).finish_non_exhaustive()
    }
}

impl Tokens {
    /// Tokens from a secret of Secrets Manager: `{"tokens": [{"token": "…", "name": "…", "read": ["…"], "write": ["…"]}]}`.
    pub fn new(secret: String, aws: Aws) -> Self {
        Self { secret, aws, known: Mutex::new(None) }
    }

    /// The principal of a request; `None` if the request has no known token.
    ///
    /// # Errors
    /// Unavailable if the secret cannot be read, Invalid if its format is wrong.
    pub async fn admit(&self, headers: &HeaderMap, uri: &Uri) -> Result<Option<Principal>> {
        let Some(brought) = token(headers, uri) else { return Ok(None) };
        if let Some((at, tokens)) = &*self.known.lock() {
            let found = principal_of(tokens, &brought);
            if at.elapsed() < if found.is_some() { BELIEVED } else { READ_AGAIN } {
                return Ok(found);
            }
        }
        let asked = Instant::now();
        let tokens = tokens_of(&self.aws.secret(&self.secret).await?)?;
        let found = principal_of(&tokens, &brought);
        *self.known.lock() = Some((asked, tokens));
        Ok(found)
    }
}

/// Contents of a secret.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Secret {
    tokens: Vec<Given>,
}

/// A token of a secret.
#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    /// Text only: reads and writes every database, but is not an administrator.
    Text(String),
    /// Text with rights.
    Limited(Limited),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limited {
    token: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    read: Vec<String>,
    #[serde(default)]
    write: Vec<String>,
}

/// Parses the tokens of a secret.
fn tokens_of(secret: &str) -> Result<Vec<Token>> {
    let expected = |what: &str| {
        Error::invalid("invalid token secret").with(
            "expected",
            format!("{{\"tokens\": [{{\"token\": \"…\", \"name\": \"…\", \"read\": [\"DATABASE\"], \"write\": [\"DATABASE\"]}}]}}{what}"),
        )
    };
    // The parser's error is dropped: it may contain a part of the secret.
    let secret: Secret = serde_json::from_str(secret).map_err(|_| expected(""))?;
    let mut tokens = Vec::new();
    for (at, given) in secret.tokens.into_iter().enumerate() {
        let (text, name, named) = match given {
            Given::Text(text) => (text, None, Named::everywhere(Privileges::ALL)),
            Given::Limited(Limited { token, name, read, write }) => {
                let named = Named::write(&write).with(Privileges { read: true, write: false }, &read);
                (token, name, named)
            }
        };
        if text.len() < LEAST {
            return Err(expected(", each token of 16 characters or more").with("token", at + 1));
        }
        // A token without a name is named by its position.
        let name = name.unwrap_or_else(|| format!("#{}", at + 1));
        if Users::check_name(&name).is_err() {
            return Err(
                expected(", each name of 1 to 64 bytes without space, quote, colon or slash").with("token", at + 1)
            );
        }
        tokens.push(Token { text, principal: Principal::service(&format!("token:{name}"), named) });
    }
    if tokens.is_empty() {
        return Err(expected(", at least one token"));
    }
    Ok(tokens)
}

/// The principal of a token, found in constant time, so timing does not reveal matching prefixes.
fn principal_of(tokens: &[Token], brought: &str) -> Option<Principal> {
    let mut found = None;
    for token in tokens {
        if bool::from(token.text.as_bytes().ct_eq(brought.as_bytes())) {
            found = Some(token.principal.clone());
        }
    }
    found
}

/// Extracts the token of a request.
fn token(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    let in_query = || {
        let mut pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        pairs.find(|(name, _)| name == "p").map(|(_, value)| value.into_owned())
    };
    let Some(header) = headers.get(header::AUTHORIZATION) else { return in_query() };
    let (scheme, rest) = header.to_str().ok()?.trim().split_once(' ')?;
    let rest = rest.trim();
    match scheme.to_ascii_lowercase().as_str() {
        "bearer" | "token" => Some(rest.to_owned()),
        "basic" => {
            let pair = String::from_utf8(STANDARD.decode(rest).ok()?).ok()?;
            pair.split_once(':').map(|(_, password)| password.to_owned())
        }
        // A signature that the platform has verified: the token is in the query.
        "aws4-hmac-sha256" => in_query(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn brought(authorization: Option<&str>, uri: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        if let Some(value) = authorization {
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        }
        token(&headers, &uri.parse().unwrap())
    }

    #[test]
    fn a_token_comes_in_the_way_of_any_client() {
        let basic = format!("Basic {}", STANDARD.encode(format!("user:{TOKEN}")));
        for authorization in [format!("Bearer {TOKEN}"), format!("Token  {TOKEN}"), format!("token {TOKEN}"), basic] {
            assert_eq!(brought(Some(&authorization), "/write").as_deref(), Some(TOKEN), "{authorization}");
        }
        assert_eq!(brought(None, &format!("/write?db=x&u=me&p={TOKEN}")).as_deref(), Some(TOKEN));
        assert_eq!(brought(None, "/write?p=a%2Bb+c%").as_deref(), Some("a+b c%"));
        let signed = "AWS4-HMAC-SHA256 Credential=AKID/20261123/eu-west-1/lambda/aws4_request, Signature=00";
        assert_eq!(brought(Some(signed), &format!("/write?p={TOKEN}")).as_deref(), Some(TOKEN));
        assert_eq!(brought(Some(signed), "/write"), None);
        for nothing in [Some("Bearer"), Some("Digest abc"), Some("Basic ###"), None] {
            assert_eq!(brought(nothing, "/write?db=p"), None, "{nothing:?}");
        }
    }

    #[test]
    fn a_secret_holds_long_tokens_or_is_refused() {
        for wrong in [
            "",
            "abc",
            "{}",
            "{\"tokens\": []}",
            "{\"tokens\": [\"short\"]}",
            "{\"tokens\": [1]}",
            "{\"tokens\": [{\"token\": \"short\", \"write\": [\"home\"]}]}",
            "{\"tokens\": [{\"token\": \"0123456789abcdef\", \"databases\": [\"home\"]}]}",
            "{\"tokens\": [{\"token\": \"0123456789abcdef\", \"name\": \"a b\"}]}",
            "{\"tokens\": [{\"write\": [\"home\"]}]}",
        ] {
            let error = tokens_of(wrong).unwrap_err().to_string();
            assert!(!error.contains(TOKEN), "{error}");
        }
    }

    #[test]
    fn a_token_may_do_what_the_secret_says_and_none_is_an_administrator() {
        let secret = json!({"tokens": [
            TOKEN,
            {"token": "telegraf-telegraf", "name": "telegraf", "write": ["home"]},
            {"token": "reader-reader-reader", "read": ["home", "weather"]},
            {"token": "nothing-nothing-nothing", "name": "nothing"},
        ]});
        let tokens = tokens_of(&secret.to_string()).unwrap();
        let found = |text: &str| principal_of(&tokens, text);
        for unknown in ["0123456789abcdeF", "", "0123456789abcde", "telegraf"] {
            assert_eq!(found(unknown), None, "{unknown}");
        }
        let can = |text: &str| {
            let principal = found(text).unwrap();
            assert!(!principal.is_admin() && !principal.is_whole() && principal.user().is_none(), "{text}");
            let creates = ["home", "other"].map(|name| principal.check_create(name).is_ok());
            (principal.to_string(), creates)
        };
        assert_eq!(can(TOKEN), ("token:#1".to_owned(), [true, true]));
        assert_eq!(can("telegraf-telegraf"), ("token:telegraf".to_owned(), [true, false]));
        assert_eq!(can("reader-reader-reader"), ("token:#3".to_owned(), [false, false]));
        assert_eq!(can("nothing-nothing-nothing"), ("token:nothing".to_owned(), [false, false]));
        assert!(!format!("{tokens:?}").contains(TOKEN));
    }
}
