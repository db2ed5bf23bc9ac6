//! What modules tell notification: an event of their own, posted after their commit with the user's bearer, or by a worker
//! with the services' credential in the name of a subject ([`NotificationClient::post_for`]).

use std::time::Duration;

use contract::CorrelationId;
use contract::id::CompanyId;
use contract::settings::Kind;
use contract::{Reader, Subject, Variable};
use http::{Method, StatusCode};
use serde::Serialize;

use crate::Inside;
use crate::client::{Call, Client};
use crate::config::base_url;

/// Where notification is.
pub const BASE_URL: Variable = Variable::new(
    "PLATFORM_NOTIFICATION_BASE_URL",
    Kind::Url,
    None,
    "Address of notification; without it, notification's port on this machine",
);
/// `service.port` of its manifest.
const PORT: u16 = 8150;
/// How long an event may take: what it is about is committed, and its user waits for the answer.
const EVENT_BUDGET: Duration = Duration::from_secs(1);

/// An event of a module.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event<'a> {
    /// In which company.
    pub company_id: CompanyId,
    /// The module that posts it.
    pub source_module: &'a str,
    /// What happened, as `ticket.created`; webhooks are told `<sourceModule>.<eventType>`.
    pub event_type: &'a str,
    /// Key of the channel that it goes to; where the company has none, nothing is sent.
    pub channel_key: &'a str,
    /// One line.
    pub subject_line: &'a str,
    /// Text.
    pub body: &'a str,
    /// The same event posted twice is one message.
    pub dedupe_key: &'a str,
}

/// What notification said of an event that a worker posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It is published, was before, or the company has no such channel.
    Taken,
    /// It is refused for good: the company is not open to the subject any more, or the event is malformed.
    Refused(StatusCode),
    /// Nobody knows: it is to be posted again.
    Unanswered(String),
}

/// The body of an event in the name of a subject.
#[derive(Serialize)]
struct InTheNameOf<'a> {
    #[serde(flatten)]
    event: &'a Event<'a>,
    subject: &'a Subject,
}

/// Posts events.
#[derive(Clone)]
pub struct NotificationClient(Client);

impl NotificationClient {
    /// For notification at `base_url`.
    #[must_use]
    pub fn new(base_url: &str) -> Self {
        Self(Client::new("notification", base_url, EVENT_BUDGET))
    }

    /// For notification where [`BASE_URL`] says.
    pub fn read(reader: &mut Reader<'_>) -> Self {
        Self::new(&base_url(reader, "notification", PORT))
    }

    /// The same with the services' credential, for [`Self::post_for`].
    #[must_use]
    pub fn inside(self, inside: &Inside) -> Self {
        Self(self.0.inside(inside))
    }

    /// Posts an event. What it tells of has happened and stays so: a failure is logged and nothing else.
    pub async fn post(&self, token: &str, event: &Event<'_>, correlation: &CorrelationId) {
        let call = Call::new(Method::POST, "/internal/notification/events");
        let sent = self.0.send(call.bearer(token).correlation(correlation).json(event)).await;
        let problem = match sent {
            Ok(answer) if matches!(answer.status, StatusCode::OK | StatusCode::ACCEPTED) => return,
            Ok(answer) => format!("status {}", answer.status),
            Err(unavailable) => unavailable.reason,
        };
        let (source_module, event_type) = (event.source_module, event.event_type);
        tracing::warn!(source_module, event_type, problem, "an event was not taken by notification");
    }

    /// Posts an event in the name of a subject, with the services' credential and without a bearer: what a worker does
    /// after the subject's request has ended. Notification asks authz whether the company is open to the subject.
    pub async fn post_for(
        &self,
        subject: &Subject,
        event: &Event<'_>,
        correlation: &CorrelationId,
    ) -> Posted {
        let call = Call::new(Method::POST, "/internal/notification/events").correlation(correlation);
        match self.0.send(call.json(&InTheNameOf { event, subject })).await {
            Err(unavailable) => Posted::Unanswered(unavailable.reason),
            Ok(answer) => match answer.status {
                StatusCode::OK | StatusCode::ACCEPTED => Posted::Taken,
                // A wrong credential is somebody's slip that is mended; so is a notification that does not know the route.
                status @ (StatusCode::BAD_REQUEST
                | StatusCode::FORBIDDEN
                | StatusCode::PAYLOAD_TOO_LARGE
                | StatusCode::UNPROCESSABLE_ENTITY) => Posted::Refused(status),
                status => Posted::Unanswered(format!("status {status}")),
            },
        }
    }
}
