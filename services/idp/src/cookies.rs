//! Cookies of the provider's pages: each is a random secret or a sealed token, inaccessible to scripts, not sent with
//! other sites' requests, and sent over TLS only (the gateway terminates TLS).

use http::HeaderMap;
use http::header::COOKIE;

/// Characters of [`random_text`](crate::keys::rules::random_text).
const LENGTH: usize = 43;
/// Longest sealed token in a cookie, in characters.
const SEALED_MAX: usize = 1_024;

/// The secret in the cookie `name`, if the browser sent a well-formed one.
pub(crate) fn secret(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = value(headers, name)?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (value.len() == LENGTH && value.bytes().all(plain)).then(|| value.to_owned())
}

/// The value of the cookie `name`, unless it is longer than a sealed token.
pub(crate) fn sealed<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    value(headers, name).filter(|value| value.len() <= SEALED_MAX)
}

fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let sent = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = sent.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// How long a browser keeps a cookie.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keep<'a> {
    /// Until the browser is closed.
    Session(&'a str),
    /// For this many seconds.
    For(&'a str, i64),
    /// Delete it.
    Remove,
}

/// `Set-Cookie` values for the paths below a realm, as the provider names them and as the gateway serves them.
pub(crate) fn set(realm: &str, name: &str, keep: Keep<'_>) -> [String; 2] {
    let (value, age) = match keep {
        Keep::Session(value) => (value, String::new()),
        Keep::For(value, seconds) => (value, format!(" Max-Age={seconds};")),
        Keep::Remove => ("", " Max-Age=0;".to_owned()),
    };
    ["", "/auth"].map(|prefix| {
        format!("{name}={value}; Path={prefix}/realms/{realm}/;{age} HttpOnly; Secure; SameSite=Lax")
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::keys::rules::random_text;

    #[test]
    fn only_a_well_formed_secret_is_read() {
        let mut headers = HeaderMap::new();
        assert_eq!(secret(&headers, "NAME"), None);
        let text = random_text().expect("random");
        let line = format!("a=b; NAME={text}; c=d");
        headers.insert(COOKIE, HeaderValue::try_from(line).expect("ascii"));
        assert_eq!(secret(&headers, "NAME"), Some(text));
        for bad in ["NAME=", "NAME=short", "NAME", "XNAME=x"] {
            headers.insert(COOKIE, HeaderValue::from_static(bad));
            assert_eq!(secret(&headers, "NAME"), None, "{bad}");
        }
    }
}
