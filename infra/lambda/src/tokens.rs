//! Who may come in: whoever brings one of the tokens of a secret, in the way of any of the clients.
//!
//! `Authorization: Bearer …` and `Token …` (InfluxDB 2), `Basic …` with the token as the password, `?p=…` (InfluxDB 1).
//! A function whose URL the platform guards has no tokens of its own.

use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Uri, header};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use parking_lot::Mutex;
use serde_json::Value;
use subtle::ConstantTimeEq;
use tidelake_format::{
    Error, Result,
    access::{Principal, Rights},
};

use crate::aws::Aws;

/// How long a secret is believed before it is read again: a token that was taken away works no longer than this.
const BELIEVED: Duration = Duration::from_secs(60);
/// How long an unknown token waits before the secret is read again for it.
const READ_AGAIN: Duration = Duration::from_secs(5);

/// The tokens of a secret.
#[derive(Debug)]
pub struct Tokens {
    secret: String,
    aws: Aws,
    known: Mutex<Option<(Instant, Vec<String>)>>,
}

impl Tokens {
    /// Tokens from a secret of Secrets Manager: `{"tokens": ["…"]}`.
    pub fn new(secret: String, aws: Aws) -> Self {
        Self { secret, aws, known: Mutex::new(None) }
    }

    /// Who a request is from; `None` where it brings no token that is known.
    ///
    /// # Errors
    /// Unavailable when the secret cannot be read, Invalid when it holds no tokens.
    pub async fn admit(&self, headers: &HeaderMap, uri: &Uri) -> Result<Option<Principal>> {
        let Some(brought) = token(headers, uri) else { return Ok(None) };
        let is_known = self.is_known(&brought).await?;
        Ok(is_known.then(|| Principal::narrowed("function-token", Rights::Admin)))
    }

    async fn is_known(&self, brought: &str) -> Result<bool> {
        if let Some((at, tokens)) = &*self.known.lock() {
            let is_known = is_among(tokens, brought);
            if at.elapsed() < if is_known { BELIEVED } else { READ_AGAIN } {
                return Ok(is_known);
            }
        }
        let asked = Instant::now();
        let tokens = tokens_of(&self.aws.secret(&self.secret).await?)?;
        let is_known = is_among(&tokens, brought);
        *self.known.lock() = Some((asked, tokens));
        Ok(is_known)
    }
}

/// The tokens of a secret's text.
fn tokens_of(secret: &str) -> Result<Vec<String>> {
    let expected = || Error::invalid("a secret with tokens is {\"tokens\": [\"…\"]}, each of 16 characters or more");
    let value: Value = serde_json::from_str(secret).map_err(|_| expected())?;
    let tokens = value["tokens"].as_array().ok_or_else(expected)?;
    let tokens: Option<Vec<String>> = tokens.iter().map(|token| token.as_str().map(str::to_owned)).collect();
    tokens.filter(|all| !all.is_empty() && all.iter().all(|token| token.len() >= 16)).ok_or_else(expected)
}

/// Whether a token is one of them; how long that takes tells nothing of how much of one was right.
fn is_among(tokens: &[String], brought: &str) -> bool {
    tokens.iter().fold(false, |found, token| found | bool::from(token.as_bytes().ct_eq(brought.as_bytes())))
}

/// The token that a request brings.
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
        // a signature, which the platform has looked at: the token stands beside it
        "aws4-hmac-sha256" => in_query(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(tokens_of(&format!("{{\"tokens\": [\"{TOKEN}\"]}}")).unwrap(), [TOKEN]);
        for wrong in ["", "abc", "{}", "{\"tokens\": []}", "{\"tokens\": [\"short\"]}", "{\"tokens\": [1]}"] {
            assert!(tokens_of(wrong).is_err(), "{wrong}");
        }
        let tokens = [TOKEN.to_owned(), "f".repeat(20)];
        assert!(is_among(&tokens, TOKEN) && !is_among(&tokens, "0123456789abcdeF") && !is_among(&[], TOKEN));
    }
}
