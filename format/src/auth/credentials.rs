//! Reads credentials from requests of all supported clients.

use std::fmt;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use http::{HeaderMap, Uri, header};
use url::form_urlencoded;

/// Base64 with or without padding: Go's Flight client omits it.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Credentials of a request. Passwords and tokens are never shown or logged.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Nothing.
    None,
    /// An API or session token.
    Token(String),
    /// A user's name and password; the password may also be a token.
    Password {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Credentials::None => f.write_str("None"),
            Credentials::Token(_) => f.write_str("Token(…)"),
            Credentials::Password { user, .. } => {
                f.debug_struct("Password").field("user", user).finish_non_exhaustive()
            }
        }
    }
}

impl Credentials {
    /// Reads `Authorization: Basic …`, `Bearer …`, `Token …` (InfluxDB: a token or `user:password`) and `Taosd …`.
    /// Without that header, reads the path `/rest/login/{user}/{password}` or the query parameters `u` and `p`
    /// (InfluxDB 1) or `token` (TDengine).
    ///
    /// ```
    /// use http::HeaderMap;
    /// use tidelake_format::auth::Credentials;
    /// let none = HeaderMap::new();
    /// let found = Credentials::of(&none, &"/write?u=ada&p=a%20b".parse().unwrap());
    /// assert_eq!(found, Credentials::Password { user: "ada".into(), password: "a b".into() });
    /// ```
    pub fn of(headers: &HeaderMap, uri: &Uri) -> Self {
        match headers.get(header::AUTHORIZATION) {
            Some(value) => value.to_str().map_or(Credentials::None, Self::of_header),
            None => Self::of_uri(uri),
        }
    }

    fn of_header(value: &str) -> Self {
        let Some((scheme, rest)) = value.trim().split_once(' ') else { return Credentials::None };
        let rest = rest.trim();
        let pair = |text: &str| {
            let (user, password) = text.split_once(':')?;
            Some(Credentials::Password { user: user.to_owned(), password: password.to_owned() })
        };
        match scheme.to_ascii_lowercase().as_str() {
            // Sent by drivers that have no token configured.
            "bearer" if rest == "None" => Credentials::None,
            "bearer" | "taosd" => Credentials::Token(rest.to_owned()),
            "token" => pair(rest).unwrap_or_else(|| Credentials::Token(rest.to_owned())),
            "basic" => {
                let text = LENIENT.decode(rest).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                text.and_then(|text| pair(&text)).unwrap_or(Credentials::None)
            }
            _ => Credentials::None,
        }
    }

    fn of_uri(uri: &Uri) -> Self {
        if let Some((user, password)) = uri.path().strip_prefix("/rest/login/").and_then(|rest| rest.split_once('/')) {
            return Credentials::Password { user: decoded(user), password: decoded(password) };
        }
        let (mut user, mut password) = (None, None);
        for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
            match name.as_ref() {
                "u" => user = Some(value.into_owned()),
                "p" => password = Some(value.into_owned()),
                "token" => return Credentials::Token(value.into_owned()),
                _ => {}
            }
        }
        match password {
            Some(password) => Credentials::Password { user: user.unwrap_or_default(), password },
            None => Credentials::None,
        }
    }
}

/// Percent-decodes a part of a path.
fn decoded(text: &str) -> String {
    let form = text.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    form_urlencoded::parse(form.as_bytes()).next().map_or(String::new(), |(text, _)| text.into_owned())
}
