//! Posts a module's events to notification: after the commit with the user's bearer, or from a worker with the services'
//! credential on behalf of a subject ([`NotificationClient::post_for`]).

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
/// How long posting an event may take: the change is committed, and the user still waits for the response.
const EVENT_BUDGET: Duration = Duration::from_secs(1);

/// An event of a module.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event<'a> {
    /// The company in which it happened.
    pub company_id: CompanyId,
    /// The module that posts it.
    pub source_module: &'a str,
    /// What happened, such as `ticket.created`; webhooks receive it as `<sourceModule>.<eventType>`.
    pub event_type: &'a str,
    /// Key of the channel that it goes to; nothing is sent when the company has no such channel.
    pub channel_key: &'a str,
    /// One line.
    pub subject_line: &'a str,
    /// Text.
    pub body: &'a str,
    /// Events of one source module with the same key become one message.
    pub dedupe_key: &'a str,
}

/// How notification answered an event that a worker posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It is published now or was before, or the company has no such channel.
    Taken,
    /// It is refused permanently: the subject no longer has access to the company, or the event is malformed.
    Refused(StatusCode),
    /// The outcome is unknown, because notification did not answer or not as documented; post it again. Holds the reason.
    Unanswered(String),
}

/// The body of an event posted on behalf of a subject.
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
    /// A client of notification at `base_url`.
    #[must_use]
    pub fn new(base_url: &str) -> Self {
        Self(Client::new("notification", base_url, EVENT_BUDGET))
    }

    /// A client of notification at the address that [`BASE_URL`] sets.
    pub fn read(reader: &mut Reader<'_>) -> Self {
        Self::new(&base_url(reader, "notification", PORT))
    }

    /// The same with the services' credential, for [`Self::post_for`].
    #[must_use]
    pub fn inside(self, inside: &Inside) -> Self {
        Self(self.0.inside(inside))
    }

    /// Posts an event. The change that it reports is committed already, so a failure is only logged.
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

    /// Posts an event on behalf of a subject, with the services' credential instead of a bearer, for workers that run after
    /// the subject's request has ended. Notification asks authz whether the subject has access to the company.
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
                // A rejected credential (401) or an unknown route (404) is a deployment error that will be corrected, so those
                // statuses count as unanswered and the event is posted again.
                status @ (StatusCode::BAD_REQUEST
                | StatusCode::FORBIDDEN
                | StatusCode::PAYLOAD_TOO_LARGE
                | StatusCode::UNPROCESSABLE_ENTITY) => Posted::Refused(status),
                status => Posted::Unanswered(format!("status {status}")),
            },
        }
    }
}
