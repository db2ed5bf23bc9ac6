//! E-mail over SMTP: one recipient per mail.

use std::time::{Duration, SystemTime};

use ::mail::{MailSettings, Transport, is_address, with_crlf};
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::transport::smtp;
use lettre::{Address, Message};

use super::DeliveryId;
use super::outcome::{self, Outcome};
use crate::messages::rules::MailPayload;

/// Most connections to the mail server between mails; each carries many.
const MAX_IDLE: usize = 4;
/// How long sending one mail may take; it must fit into the lease.
const TOTAL: Duration = Duration::from_secs(30);

/// Sends mail.
pub(crate) struct Mailer {
    transport: Transport,
    from: Mailbox,
    domain: String,
}

impl Mailer {
    /// Builds the transport; it connects when there is mail.
    ///
    /// # Errors
    /// The operator's CA certificate cannot be parsed.
    pub(crate) fn new(settings: &MailSettings) -> Result<Self, smtp::Error> {
        let transport = Transport::new(settings, MAX_IDLE)?;
        Ok(Self { transport, from: settings.from.clone(), domain: settings.domain.clone() })
    }

    /// Sends one mail. Every attempt of a job sends the same headers and text.
    pub(crate) async fn send(&self, id: DeliveryId, to: &str, payload: &MailPayload) -> Outcome {
        let Some(mail) = self.mail(id, to, payload) else { return Outcome::dead(None, "malformed_target") };
        match tokio::time::timeout(TOTAL, self.transport.send(&mail)).await {
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
            .raw_header(::mail::subject(&payload.subject_line))
            .date(SystemTime::from(payload.created_at))
            .message_id(Some(format!("<{id}@{}>", self.domain)))
            .raw_header(header("X-Platform-Delivery-Id", id.to_string()))
            .raw_header(header("Auto-Submitted", "auto-generated".to_owned()))
            .header(ContentType::TEXT_PLAIN)
            .body(with_crlf(&payload.body))
            .ok()
    }
}

/// Classifies a failed send: 4xx and missing responses are retried, 5xx is final. A refused login is the platform's
/// fault, not the receiver's, so it is retried and logged.
fn failed(id: DeliveryId, error: &smtp::Error) -> Outcome {
    let status = error.status().map(u16::from);
    match status {
        Some(530 | 534 | 535 | 538) => {
            tracing::error!(%id, status, "the mail server refused the platform's login");
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
