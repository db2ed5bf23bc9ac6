//! The one question that org has for identity: is there a record of this subject that is not closed? Asked before a transaction
//! begins, never inside one.

use std::time::Duration;

use contract::{CorrelationId, Subject};
use http::{Method, StatusCode};
use serde::Deserialize;
use service::Inside;
use service::client::{Call, Client, Unavailable, encode_segment};

/// How long identity may take: it reads one row.
const BUDGET: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
struct Answer {
    data: Known,
}

#[derive(Deserialize)]
struct Known {
    lifecycle: String,
}

/// Asks identity.
#[derive(Clone)]
pub(crate) struct IdentityClient(Client);

impl IdentityClient {
    pub(crate) fn new(base_url: &str, inside: &Inside) -> Self {
        Self(Client::new("identity", base_url, BUDGET).inside(inside))
    }

    /// Whether the subject has an identity record and is not closed. Anything but a yes or a no is no answer.
    pub(crate) async fn knows(
        &self,
        subject: &Subject,
        correlation: &CorrelationId,
    ) -> Result<bool, Unavailable> {
        let path = format!("/internal/identity/users/{}", encode_segment(subject.as_str()));
        let answer = self.0.send(Call::new(Method::GET, path).correlation(correlation)).await?;
        match answer.status {
            StatusCode::OK => Ok(self.0.json::<Answer>(&answer)?.data.lifecycle != "closed"),
            StatusCode::NOT_FOUND => Ok(false),
            other => Err(self.0.unavailable(format!("status {other}"))),
        }
    }
}
