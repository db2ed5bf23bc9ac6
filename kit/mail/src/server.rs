//! The mail server's address, security and login.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode_str;
use url::Url;
use zeroize::Zeroizing;

/// How connections to the mail server are secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// TLS from the start.
    Implicit,
    /// `STARTTLS`; nothing is sent without it.
    StartTls,
    /// Plain text.
    None,
}

/// `PLATFORM_NOTIFICATION_SMTP_URL`. `Debug` shows no password.
#[derive(Clone, PartialEq, Eq)]
pub struct SmtpUrl {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// How the connection is secured.
    pub security: Security,
    /// User and password.
    pub login: Option<(String, Zeroizing<String>)>,
}

impl fmt::Debug for SmtpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SmtpUrl({}:{} {:?})", self.host, self.port, self.security)
    }
}

impl SmtpUrl {
    /// Reads `smtps://…` or `smtp://…[?tls=none]`.
    ///
    /// # Errors
    /// A description of the problem, without the value, because that holds a password.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let url =
            Url::parse(text).map_err(|_| "is not a URL such as smtps://user:password@mail.example.com")?;
        let security = match (url.scheme(), url.query()) {
            ("smtps", None) => Security::Implicit,
            ("smtp", None | Some("tls=required")) => Security::StartTls,
            ("smtp", Some("tls=none")) => Security::None,
            ("smtp" | "smtps", Some(_)) => return Err("knows no other option than tls=none of smtp://"),
            _ => return Err("is neither smtp:// nor smtps://"),
        };
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or("names no host")?;
        if !matches!(url.path(), "" | "/") || url.fragment().is_some() {
            return Err("has a path or a fragment, which means nothing here");
        }
        let login = login(&url)?;
        if login.is_some() && security == Security::None {
            return Err("would send the password in plain text; leave out tls=none or the login");
        }
        let port = url.port().unwrap_or(if security == Security::Implicit { 465 } else { 587 });
        Ok(Self { host: host.trim_matches(['[', ']']).to_owned(), port, security, login })
    }
}

fn login(url: &Url) -> Result<Option<(String, Zeroizing<String>)>, &'static str> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().map(Cow::into_owned);
    match (url.username(), url.password()) {
        ("", None) => Ok(None),
        ("", Some(_)) | (_, None) => Err("needs both a user and a password, or neither"),
        (user, Some(password)) => {
            let wrong = "has a login that is not UTF-8";
            let user = decoded(user).map_err(|_| wrong)?;
            Ok(Some((user, Zeroizing::new(decoded(password).map_err(|_| wrong)?))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_read_with_its_security_and_its_login() {
        for (text, host, port, security, login) in [
            ("smtps://mail.example.com", "mail.example.com", 465, Security::Implicit, None),
            ("smtp://mail.example.com", "mail.example.com", 587, Security::StartTls, None),
            ("smtp://mail.example.com:25?tls=required", "mail.example.com", 25, Security::StartTls, None),
            ("smtp://127.0.0.1:2525?tls=none", "127.0.0.1", 2525, Security::None, None),
            ("smtps://me%40x:p%2Fw@[::1]:4650/", "::1", 4650, Security::Implicit, Some(("me@x", "p/w"))),
        ] {
            let login =
                login.map(|(user, word): (&str, &str)| (user.to_owned(), Zeroizing::new(word.to_owned())));
            let expected = SmtpUrl { host: host.to_owned(), port, security, login };
            assert_eq!(SmtpUrl::parse(text), Ok(expected), "{text}");
        }
        for bad in [
            "",
            "mail.example.com:25",
            "http://mail.example.com",
            "smtp://",
            "smtp://x?tls=maybe",
            "smtps://x?tls=none",
            "smtp://x/path",
            "smtp://user@x",
            "smtp://:word@x",
            "smtp://user:word@x?tls=none",
            "smtp://x#y",
        ] {
            assert!(SmtpUrl::parse(bad).is_err(), "{bad}");
        }
        let shown = format!("{:?}", SmtpUrl::parse("smtps://me:very-secret@x"));
        assert!(!shown.contains("very-secret"), "{shown}");
    }
}
