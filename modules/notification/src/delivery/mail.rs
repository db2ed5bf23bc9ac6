//! E-mail over SMTP: one recipient per mail.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use ::mail::{MailSettings, Reply, Transport, is_address, with_crlf};
use contract::id::CompanyId;
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::transport::smtp;
use lettre::{Address, Message};
use service::{FairLimit, FairPermit};
use tokio::time::Instant;

use super::DeliveryId;
use super::outcome::{self, Outcome};
use crate::messages::rules::MailPayload;

/// Most connections to the mail server between mails; each carries many.
const MAX_IDLE: usize = 4;
/// Most connections to the mail server at a time. Mail servers allow one client about twenty to fifty, and answer 421 to
/// more.
const MAX_CONNECTIONS: usize = 16;
/// Most of them for one company, as many as one channel's deliveries run at a time: a mail server that takes seconds for
/// the mails of one must not hold up another's.
const MAX_CONNECTIONS_PER_COMPANY: usize = 4;
/// How long a mail waits for one of its company's connections.
const WAIT: Duration = Duration::from_secs(3);
/// How long sending one mail may take; with [`WAIT`] it must fit into the lease.
const TOTAL: Duration = Duration::from_secs(30);
/// The wait of a mail that gets no connection; no attempt counts.
const BUSY_PAUSE: Duration = Duration::from_secs(10);
/// How long a server may turn connections away before attempts count, so that every mail comes to an end.
const LONG_BUSY: Duration = Duration::from_hours(1);

/// Sends mail.
pub(crate) struct Mailer {
    transport: Transport,
    from: Mailbox,
    domain: String,
    connections: FairLimit,
    /// Since when the server has taken no mail.
    down_since: Mutex<Option<Instant>>,
}

impl Mailer {
    /// Builds the transport; it connects when there is mail.
    ///
    /// # Errors
    /// The operator's CA certificate cannot be parsed.
    pub(crate) fn new(settings: &MailSettings) -> Result<Self, smtp::Error> {
        let transport = Transport::new(settings, MAX_IDLE)?;
        let connections = FairLimit::new(MAX_CONNECTIONS, MAX_CONNECTIONS_PER_COMPANY);
        let (from, domain) = (settings.from.clone(), settings.domain.clone());
        Ok(Self { transport, from, domain, connections, down_since: Mutex::default() })
    }

    /// Waits until the company may use one more connection; dropping the permit gives it back.
    ///
    /// # Errors
    /// The outcome of a mail whose permit does not come in time.
    pub(crate) async fn permit(&self, company: CompanyId) -> Result<FairPermit, Outcome> {
        let company = company.to_string();
        match tokio::time::timeout(WAIT, self.connections.acquire(&company, usize::MAX)).await {
            Ok(Ok(Some(permit))) => Ok(permit),
            Ok(Ok(None) | Err(_)) | Err(_) => Err(Outcome::later(BUSY_PAUSE, outcome::SMTP_BUSY)),
        }
    }

    /// Sends one mail with the company's permit. Every attempt of a job sends the same headers and text.
    pub(crate) async fn send(
        &self,
        _permit: &FairPermit,
        id: DeliveryId,
        to: &str,
        payload: &MailPayload,
    ) -> Outcome {
        let Some(mail) = self.mail(id, to, payload) else { return Outcome::dead(None, "malformed_target") };
        let sent = tokio::time::timeout(TOTAL, self.send_mail(id, &mail)).await;
        sent.unwrap_or_else(|_| Outcome::again(None, outcome::SMTP_TIMEOUT))
    }

    async fn send_mail(&self, id: DeliveryId, mail: &Message) -> Outcome {
        let connection = match self.transport.connection().await {
            Ok(connection) => connection,
            Err(error) => return self.unconnected(id, &error),
        };
        match connection.send(mail).await {
            Ok(Reply { status, is_taken: true }) => {
                *self.down_since.lock().unwrap_or_else(PoisonError::into_inner) = None;
                Outcome::done(Some(status))
            }
            Ok(Reply { status, is_taken: false }) => Outcome::again(Some(status), "smtp_status"),
            Err(error) => self.failed(id, &error),
        }
    }

    /// Classifies a failure to connect: with any status, the server refuses the connection and not this mail.
    fn unconnected(&self, id: DeliveryId, error: &smtp::Error) -> Outcome {
        match error.status().map(u16::from) {
            status @ Some(400..=499) => turned_away(status, self.note_outage(error).elapsed()),
            Some(530 | 534 | 535 | 538) | None => self.failed(id, error),
            status @ Some(_) => {
                self.note_outage(error);
                Outcome::again(status, outcome::SMTP_CONNECTION)
            }
        }
    }

    /// Classifies a failed send: 4xx and missing responses are retried, 5xx is final. A refused login is the platform's
    /// fault, not the receiver's, so it is retried and logged. 421 counts as well: many servers answer it to one recipient.
    fn failed(&self, id: DeliveryId, error: &smtp::Error) -> Outcome {
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
                self.note_outage(error);
                Outcome::again(None, outcome::SMTP_CONNECTION)
            }
        }
    }

    /// Logs an outage of the mail server once, not for every mail, and returns when it began.
    fn note_outage(&self, error: &smtp::Error) -> Instant {
        let mut down_since = self.down_since.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = *down_since {
            tracing::debug!(%error, "the mail server still takes no mail");
            return since;
        }
        tracing::warn!(%error, "the mail server takes no mail");
        *down_since.insert(Instant::now())
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

/// The outcome of a mail that got no connection from a server that has taken no mail for this long.
fn turned_away(status: Option<u16>, down: Duration) -> Outcome {
    if down < LONG_BUSY {
        Outcome::later(BUSY_PAUSE, outcome::SMTP_BUSY)
    } else {
        Outcome::again(status, outcome::SMTP_BUSY)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ::mail::SmtpUrl;
    use service::workers::Verdict;
    use testkit::{SmtpReceiver, Step};
    use uuid::Uuid;

    use super::*;

    fn mailer(server: &SmtpReceiver) -> Arc<Mailer> {
        let url = format!("smtp://{}?tls=none", server.address());
        let settings = MailSettings {
            server: SmtpUrl::parse(&url).expect("a URL"),
            authorities: Vec::new(),
            from: "a@example.com".parse().expect("an address"),
            domain: "platform.example".to_owned(),
        };
        Arc::new(Mailer::new(&settings).expect("no certificates"))
    }

    /// One delivery, as the queue makes it.
    async fn deliver(mailer: &Mailer, company: u128, id: u128) -> Outcome {
        let company = CompanyId::from(Uuid::from_u128(company));
        let permit = match mailer.permit(company).await {
            Ok(permit) => permit,
            Err(busy) => return busy,
        };
        let created_at = time::OffsetDateTime::UNIX_EPOCH;
        let payload = MailPayload { subject_line: "s".to_owned(), body: "b".to_owned(), created_at };
        mailer.send(&permit, DeliveryId::from(Uuid::from_u128(id)), "b@example.com", &payload).await
    }

    fn count(server: &SmtpReceiver, verb: &str) -> usize {
        server.commands().iter().filter(|command| command.starts_with(verb)).count()
    }

    #[tokio::test]
    async fn mails_of_one_company_leave_connections_to_the_others() {
        let server = SmtpReceiver::start().await;
        let mailer = mailer(&server);
        server.hang(Step::Data);
        let hanging: Vec<_> = (0..3 * MAX_CONNECTIONS_PER_COMPANY)
            .map(|at| {
                let mailer = Arc::clone(&mailer);
                tokio::spawn(async move { deliver(&mailer, 1, u128::try_from(at).expect("small")).await })
            })
            .collect();
        while count(&server, "DATA") < MAX_CONNECTIONS_PER_COMPANY {
            tokio::task::yield_now().await;
        }
        server.behave(Step::Data);
        assert_eq!(deliver(&mailer, 2, 100).await, Outcome::done(Some(250)));
        assert_eq!(count(&server, "EHLO"), MAX_CONNECTIONS_PER_COMPANY + 1);
        let first = hanging.first().expect("there is one");
        assert!(!first.is_finished(), "control: the first still hangs");
        let busy = Outcome::later(BUSY_PAUSE, outcome::SMTP_BUSY);
        assert_eq!(deliver(&mailer, 1, 101).await, busy, "its permit did not come");
        hanging.iter().for_each(tokio::task::JoinHandle::abort);
    }

    #[tokio::test]
    async fn a_server_that_turns_mail_away_costs_no_attempt() {
        let server = SmtpReceiver::start().await;
        let mailer = mailer(&server);
        for (step, code) in [(Step::Connect, 421), (Step::Connect, 450), (Step::Hello, 421)] {
            server.answer(step, code, "later");
            let busy = Outcome::later(BUSY_PAUSE, outcome::SMTP_BUSY);
            assert_eq!(deliver(&mailer, 1, 1).await, busy, "{step:?} {code}");
            server.behave(step);
        }
        assert_eq!(deliver(&mailer, 1, 1).await, Outcome::done(Some(250)));
        // One recipient of a server that takes other mail.
        for (step, code) in
            [(Step::Recipient, 450), (Step::Recipient, 421), (Step::Data, 421), (Step::Sender, 421)]
        {
            server.answer(step, code, "later");
            let outcome = deliver(&mailer, 1, 1).await;
            assert_eq!(outcome.verdict, Verdict::Retry { asked: None }, "{step:?} {code}: an attempt counts");
            assert_eq!(outcome.status, Some(code), "{step:?}");
            server.behave(step);
        }
        for (step, code) in [(Step::Mail, 354), (Step::Recipient, 354), (Step::Data, 250)] {
            server.answer(step, code, "word");
            let outcome = deliver(&mailer, 1, 1).await;
            assert_eq!(outcome, Outcome::again(Some(code), "smtp_status"), "{step:?} {code}: out of step");
            server.behave(step);
        }
        for step in [Step::Connect, Step::Hello] {
            server.answer(step, 554, "no service");
            let outcome = deliver(&mailer, 1, 1).await;
            assert_eq!(
                outcome,
                Outcome::again(Some(554), outcome::SMTP_CONNECTION),
                "{step:?}: no mail's fault"
            );
            server.behave(step);
        }
    }

    #[test]
    fn a_server_that_turns_every_mail_away_costs_attempts_after_an_hour() {
        let just_below = LONG_BUSY.saturating_sub(Duration::from_millis(1));
        assert_eq!(turned_away(Some(421), just_below), Outcome::later(BUSY_PAUSE, outcome::SMTP_BUSY));
        let retry = Outcome::again(Some(421), outcome::SMTP_BUSY);
        assert_eq!(turned_away(Some(421), LONG_BUSY), retry);
        assert_eq!(retry.verdict, Verdict::Retry { asked: None });
    }
}
