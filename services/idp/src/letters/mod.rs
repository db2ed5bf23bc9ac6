//! E-mails with a link to choose a password, for users who have forgotten theirs and for invited users.
//!
//! ```text
//! http.rs   requested by name -> letters      same response and same work whether or not there is such an account
//! worker.rs letters -> account -> links -> mail server
//! link.rs   a link's page -> password, once
//! ```
//!
//! limits.rs: requests of one address          text.rs: the texts of the e-mails

pub(crate) mod http;
pub(crate) mod limits;
pub(crate) mod link;
pub(crate) mod store;
mod text;
pub(crate) mod worker;

use std::sync::Arc;

use lettre::Message;
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::transport::smtp;
use mail::MailSettings;
use time::Duration;
use uuid::Uuid;

use text::Letter;

/// Most connections to the mail server between e-mails.
const MAX_IDLE: usize = 2;

/// The purpose of an e-mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A forgotten password.
    Reset,
    /// A new account.
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

    /// How long a link is valid: short for a user who is waiting for it, longer for an invitation.
    pub(crate) const fn lifetime(self) -> Duration {
        match self {
            Self::Reset => Duration::minutes(30),
            Self::Invitation => Duration::days(3),
        }
    }
}

/// Sends e-mails. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Mailer(Arc<Sender>);

struct Sender {
    transport: mail::Transport,
    from: Mailbox,
    domain: String,
}

/// Why an e-mail was not sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// The address or the message is invalid.
    #[error("the e-mail cannot be written: {0}")]
    Malformed(String),
    /// The server cannot be reached or refuses the connection.
    #[error("the mail server takes no e-mail: {}", told(.0))]
    Unconnected(#[source] smtp::Error),
    /// Does not quote the server's response, which may name the receiver.
    #[error("the mail server did not accept the e-mail: {}", told(.0))]
    Server(#[from] smtp::Error),
    /// The server's reply was none to its command.
    #[error("the mail server did not accept the e-mail: status {0}")]
    OutOfStep(u16),
}

fn told(error: &smtp::Error) -> String {
    match error.status() {
        Some(code) => format!("status {code}"),
        None if error.is_timeout() => "timeout".to_owned(),
        None => "no connection, or an interrupted one".to_owned(),
    }
}

impl SendError {
    /// Whether another attempt may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Malformed(_) => false,
            Self::OutOfStep(_) | Self::Unconnected(_) => true,
            // A refused SMTP login is the platform's fault, not the receiver's.
            Self::Server(error) => {
                let code = error.status().map(u16::from);
                !matches!(code, Some(500..)) || matches!(code, Some(530 | 534 | 535 | 538))
            }
        }
    }
}

impl Mailer {
    /// # Errors
    /// The operator's CA certificate is invalid.
    pub(crate) fn new(settings: &MailSettings) -> Result<Self, smtp::Error> {
        let transport = mail::Transport::new(settings, MAX_IDLE)?;
        let (from, domain) = (settings.from.clone(), settings.domain.clone());
        Ok(Self(Arc::new(Sender { transport, from, domain })))
    }

    /// Sends one e-mail. Every attempt has the same `Message-Id`.
    async fn send(&self, id: Uuid, to: &str, letter: &Letter) -> Result<(), SendError> {
        let Sender { transport, from, domain } = &*self.0;
        let malformed = |error: &dyn std::fmt::Display| SendError::Malformed(error.to_string());
        if !mail::is_address(to) {
            return Err(malformed(&"no mail can be sent to the address"));
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
        let connection = transport.connection().await.map_err(SendError::Unconnected)?;
        let reply = connection.send(&message).await?;
        if reply.is_taken { Ok(()) } else { Err(SendError::OutOfStep(reply.status)) }
    }
}
