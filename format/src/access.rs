//! Who may do what: users, the tokens of programs, and their rights, kept in the catalog, so that every node agrees.
//!
//! Values here, in `user` and `rights`; `secret` makes and checks passwords and tokens; `credentials` reads what a
//! request brings; `authenticate` is the one place that decides who it is; `admit` does that for requests of HTTP.

mod admit;
mod authenticate;
mod credentials;
mod failures;
mod rights;
mod secret;
#[cfg(test)]
mod tests;
mod user;

pub use admit::Peer;
pub use authenticate::{Authenticator, LoggedIn};
pub use credentials::Credentials;
pub use rights::{Grants, Principal, Privilege, Privileges, Rights, Scope};
pub use secret::{MAX_PASSWORD, MIN_PASSWORD, Secret, hash_password, new_token};
pub use user::{ApiToken, User, Users};

/// A statement as it may be shown: without the secrets that statements about users hold.
///
/// ```
/// use tidelake_format::access::redacted;
/// assert_eq!(redacted("create user ada password 'a \\' b' admin"), "create user ada password '…' admin");
/// assert_eq!(redacted("ALTER USER ada PASS \"x"), "ALTER USER ada PASS '…'");
/// assert_eq!(redacted("select 'x'"), "select 'x'");
/// ```
pub fn redacted(sql: &str) -> std::borrow::Cow<'_, str> {
    let mut words = sql.split_ascii_whitespace().map(str::to_ascii_uppercase);
    let has_secret = matches!(words.next().as_deref(), Some("CREATE" | "ALTER" | "SET"))
        && matches!(words.next().as_deref(), Some("USER" | "PASSWORD"));
    if !has_secret {
        return sql.into();
    }
    let (mut shown, mut quote, mut escaped) = (String::with_capacity(sql.len()), None, false);
    for c in sql.chars() {
        match quote {
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                shown.push_str("'…'");
            }
            None => shown.push(c),
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(q) if c == q => quote = None,
            Some(_) => {}
        }
    }
    shown.into()
}
