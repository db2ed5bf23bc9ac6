//! E-mail over SMTP by lettre: one recipient a mail, connections kept for several.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::{self, PoolConfig};
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use percent_encoding::percent_decode_str;
use rustls_pki_types::CertificateDer;
use url::Url;
use zeroize::Zeroizing;

use super::DeliveryId;
use super::outcome::{self, Outcome};
use crate::messages::rules::MailPayload;

/// Longest address (RFC 5321, section 4.5.3.1.3, without its angle brackets).
pub const MAX_ADDRESS: usize = 254;
/// Connections to the mail server; one carries many mails.
const MAX_CONNECTIONS: u32 = 4;
/// A connection that has nothing to carry is closed before servers close it (five minutes, RFC 5321).
const IDLE: Duration = Duration::from_mins(1);
/// How long the mail server may take for one reply.
const REPLY: Duration = Duration::from_secs(10);
/// How long a whole mail may take: within the lease.
const TOTAL: Duration = Duration::from_secs(30);

/// Whether a text is an address that mail can be sent to: ASCII, one address, no display name, no quoted part. What would
/// end a header's line or begin another address is refused with everything else.
#[must_use]
pub fn is_address(text: &str) -> bool {
    let odd = |byte: u8| !byte.is_ascii_graphic() || b"\"(),:;<>[\\]".contains(&byte);
    text.len() <= MAX_ADDRESS && !text.bytes().any(odd) && text.parse::<Address>().is_ok()
}

/// How connections to the mail server are secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// TLS from the start.
    Implicit,
    /// `STARTTLS`, without which nothing is sent.
    StartTls,
    /// Plain text.
    None,
}

/// `PLATFORM_NOTIFICATION_SMTP_URL`. `Debug` shows no password.
#[derive(Clone, PartialEq, Eq)]
pub struct SmtpUrl {
    /// Name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// How it is secured.
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
    /// What is wrong, without the value, which holds a password.
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

/// The mail server and the sender.
#[derive(Clone, Debug)]
pub struct MailSettings {
    /// Where it is.
    pub server: SmtpUrl,
    /// Whom it is trusted by besides the public authorities.
    pub authorities: Vec<CertificateDer<'static>>,
    /// `From`.
    pub from: Mailbox,
}

/// Sends mail.
pub(crate) struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    domain: String,
}

impl Mailer {
    /// Connects when there is mail. `domain` stands in `Message-Id` and in `EHLO`.
    ///
    /// # Errors
    /// A certificate of the operator's that is none.
    pub(crate) fn new(settings: &MailSettings, domain: &str) -> Result<Self, smtp::Error> {
        let server = &settings.server;
        let tls = match server.security {
            Security::None => Tls::None,
            Security::StartTls => Tls::Required(tls(settings)?),
            Security::Implicit => Tls::Wrapper(tls(settings)?),
        };
        let pool = PoolConfig::new().max_size(MAX_CONNECTIONS).idle_timeout(IDLE);
        let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&server.host)
            .port(server.port)
            .tls(tls)
            .timeout(Some(REPLY))
            .hello_name(ClientId::Domain(domain.to_owned()))
            .pool_config(pool);
        if let Some((user, password)) = &server.login {
            transport = transport.credentials(Credentials::new(user.clone(), password.as_str().to_owned()));
        }
        Ok(Self { transport: transport.build(), from: settings.from.clone(), domain: domain.to_owned() })
    }

    /// Sends one mail. Each attempt of a job sends the same header and text.
    pub(crate) async fn send(&self, id: DeliveryId, to: &str, payload: &MailPayload) -> Outcome {
        let Some(mail) = self.mail(id, to, payload) else { return Outcome::dead(None, "malformed_target") };
        match tokio::time::timeout(TOTAL, self.transport.send(mail)).await {
            Ok(Ok(response)) => Outcome::done(Some(u16::from(response.code()))),
            Ok(Err(error)) => failed(id, &error),
            Err(_) => Outcome::again(None, outcome::SMTP_TIMEOUT),
        }
    }

    fn mail(&self, id: DeliveryId, to: &str, payload: &MailPayload) -> Option<Message> {
        let to = is_address(to).then(|| to.parse::<Address>().ok())??;
        let header = |name, value: String| HeaderValue::new(HeaderName::new_from_ascii_str(name), value);
        Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, to))
            .subject(payload.subject_line.as_str())
            .date(SystemTime::from(payload.created_at))
            .message_id(Some(format!("<{id}@{}>", self.domain)))
            .raw_header(header("X-Platform-Delivery-Id", id.to_string()))
            .raw_header(header("Auto-Submitted", "auto-generated".to_owned()))
            .header(ContentType::TEXT_PLAIN)
            .body(with_crlf(&payload.body))
            .ok()
    }
}

/// The text with every line end (CR, LF or CRLF) written as CRLF. Neither may stand alone in a mail (RFC 5321, section
/// 2.3.8), and some relays take `<CR>.<CR>` for the end of the message.
fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n")
}

fn tls(settings: &MailSettings) -> Result<TlsParameters, smtp::Error> {
    let mut tls = TlsParameters::builder(settings.server.host.clone());
    for authority in &settings.authorities {
        tls = tls.add_root_certificate(Certificate::from_der(authority.to_vec())?);
    }
    tls.build_rustls()
}

/// 4xx and whatever never came to an answer are tried again, 5xx is for good. A login that is refused is the platform's own
/// fault, never the receiver's: it is tried again, and told in the log.
fn failed(id: DeliveryId, error: &smtp::Error) -> Outcome {
    let status = error.status().map(u16::from);
    match status {
        Some(530 | 534 | 535 | 538) => {
            tracing::error!(%id, status, "the mail server refuses the platform's login");
            Outcome::again(status, outcome::SMTP_LOGIN)
        }
        Some(500..) => Outcome::dead(status, "smtp_status"),
        Some(_) => Outcome::again(status, "smtp_status"),
        None if error.is_timeout() => Outcome::again(None, outcome::SMTP_TIMEOUT),
        None => {
            tracing::debug!(%id, %error, "the mail server cannot be reached");
            Outcome::again(None, outcome::SMTP_CONNECTION)
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

    #[test]
    fn an_address_is_one_plain_ascii_address() {
        let longest = format!("{}@{}.example", "a".repeat(64), vec!["b".repeat(59); 3].join("."));
        for good in
            ["a@example.com", "first.last+tag@mail.example.co.uk", "o'neil@example.com", longest.as_str()]
        {
            assert!(is_address(good), "{good} {}", good.len());
        }
        for bad in [
            "",
            "a",
            "@example.com",
            "a@",
            "a@b@c",
            "a b@example.com",
            "Name <a@example.com>",
            "a@example.com,b@example.com",
            "a@example.com\r\nBcc: b@example.com",
            "\"a\"@example.com",
            "ä@example.com",
            "a@[127.0.0.1]",
            "a@exämple.com",
        ] {
            assert!(!is_address(bad), "{bad}");
        }
        assert!(!is_address(&format!("{}@{}.example", "a".repeat(64), vec!["b".repeat(63); 3].join("."))));
    }
}
