//! Client of identity: asks whether a subject has a record that is not closed. Handlers call it before they begin a
//! transaction, never inside one.

use std::time::Duration;

use contract::{CorrelationId, Subject};
use http::{Method, StatusCode};
use serde::Deserialize;
use service::Inside;
use service::client::{Call, Client, Unavailable, encode_segment};

/// Timeout of a call: identity reads one row.
const BUDGET: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
struct Answer {
    data: Known,
}

#[derive(Deserialize)]
struct Known {
    lifecycle: String,
}

/// A client of identity. Cheap to clone.
#[derive(Clone)]
pub(crate) struct IdentityClient(Client);

impl IdentityClient {
    pub(crate) fn new(base_url: &str, inside: &Inside) -> Self {
        Self(Client::new("identity", base_url, BUDGET).inside(inside))
    }

    /// Whether the subject has a record in identity that is not closed.
    ///
    /// # Errors
    /// Identity is unreachable, or answers with a status other than 200 and 404.
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
