//! Letters by e-mail with a link to choose a password: for who has forgotten it, and for who is invited.
//!
//! ```text
//! http.rs   asked for by name -> letters      the same answer and the same work whether there is such an account
//! worker.rs letters -> account -> links -> mail server
//! link.rs   a link's page -> password, once
//! ```
//!
//! limits.rs: how often an address may ask     text.rs: what a letter says

pub(crate) mod http;
pub(crate) mod limits;
pub(crate) mod link;
pub(crate) mod store;
mod text;
pub(crate) mod worker;

use std::sync::Arc;

use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::transport::smtp;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use mail::MailSettings;
use time::Duration;
use uuid::Uuid;

use text::Letter;

/// Connections to the mail server.
const MAX_CONNECTIONS: u32 = 2;

/// What a letter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The password is forgotten.
    Reset,
    /// The account is new.
    Invitation,
}

impl Kind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Invitation => "invitation",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        [Self::Reset, Self::Invitation].into_iter().find(|kind| kind.as_str() == word)
    }

    /// How long a link is good: who asks for one is waiting for it; who is invited reads it some day.
    pub(crate) const fn lifetime(self) -> Duration {
        match self {
            Self::Reset => Duration::minutes(30),
            Self::Invitation => Duration::days(3),
        }
    }
}

/// Sends letters. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Mailer(Arc<Sender>);

struct Sender {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    domain: String,
}

/// Why a letter was not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The address or the text is no mail.
    #[error("the letter cannot be written: {0}")]
    Malformed(String),
    /// Without the server's words, which may name the receiver.
    #[error("the mail server did not take the letter: {}", told(.0))]
    Server(#[from] smtp::Error),
}

fn told(error: &smtp::Error) -> String {
    match error.status() {
        Some(code) => format!("status {code}"),
        None if error.is_timeout() => "timeout".to_owned(),
        None => "no connection, or one that broke off".to_owned(),
    }
}

impl SendError {
    /// Whether another attempt may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Malformed(_) => false,
            // A login that is refused is the platform's own fault, not the receiver's.
            Self::Server(error) => {
                let code = error.status().map(u16::from);
                !matches!(code, Some(500..)) || matches!(code, Some(530 | 534 | 535 | 538))
            }
        }
    }
}

impl Mailer {
    /// # Errors
    /// A certificate of the operator's that is none.
    pub(crate) fn new(settings: &MailSettings) -> Result<Self, smtp::Error> {
        let transport = mail::transport(settings, MAX_CONNECTIONS)?;
        let (from, domain) = (settings.from.clone(), settings.domain.clone());
        Ok(Self(Arc::new(Sender { transport, from, domain })))
    }

    /// Sends one. Each attempt bears the same `Message-Id`.
    async fn send(&self, id: Uuid, to: &str, letter: &Letter) -> Result<(), SendError> {
        let Sender { transport, from, domain } = &*self.0;
        let malformed = |error: &dyn std::fmt::Display| SendError::Malformed(error.to_string());
        if !mail::is_address(to) {
            return Err(malformed(&"the address is none that mail can be sent to"));
        }
        let to = to.parse().map_err(|error: lettre::address::AddressError| malformed(&error))?;
        let generated =
            HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".to_owned());
        let message = Message::builder()
            .from(from.clone())
            .to(Mailbox::new(None, to))
            .subject(letter.subject)
            .message_id(Some(format!("<{id}@{domain}>")))
            .raw_header(generated)
            .header(ContentType::TEXT_PLAIN)
            .body(mail::with_crlf(&letter.body))
            .map_err(|error| malformed(&error))?;
        transport.send(message).await?;
        Ok(())
    }
}
