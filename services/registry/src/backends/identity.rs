//! The one question that registry has for identity: which account is a client's own? Asked before a transaction begins,
//! never inside one.

use std::sync::Arc;
use std::time::Duration;

use contract::{CorrelationId, Subject};
use http::{Method, StatusCode};
use serde::Deserialize;
use service::Inside;
use service::client::{Call, Client, Unavailable, encode_segment};
use tokio::sync::Notify;

/// How long identity may take, which asks the provider twice. A registration that waits so long in vain still ends within
/// the budget of a request.
const BUDGET: Duration = Duration::from_millis(1_500);

/// Asks identity.
#[derive(Clone)]
pub(crate) struct IdentityClient(Client);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    kc_sub: Option<Subject>,
}

impl IdentityClient {
    fn new(base_url: &str, inside: &Inside) -> Self {
        Self(Client::new("identity", base_url, BUDGET).inside(inside))
    }

    /// The subject of the client's own tokens; `None` while the provider has no such client.
    pub(crate) async fn account_of(
        &self,
        client_id: &str,
        correlation: &CorrelationId,
    ) -> Result<Option<Subject>, Unavailable> {
        let path = format!("/internal/identity/service-accounts/{}", encode_segment(client_id));
        let answer = self.0.send(Call::new(Method::GET, path).correlation(correlation)).await?;
        if answer.status != StatusCode::OK {
            return Err(self.0.unavailable(format!("status {}", answer.status)));
        }
        Ok(self.0.data::<Answer>(&answer)?.kc_sub)
    }
}

/// What handlers and the task share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Backends {
    pub(crate) identity: IdentityClient,
    registered: Arc<Notify>,
}

impl Backends {
    /// With identity at `base_url`.
    pub(crate) fn new(base_url: &str, inside: &Inside) -> Self {
        Self { identity: IdentityClient::new(base_url, inside), registered: Arc::default() }
    }

    /// Says that an app was registered whose backend may not be known.
    pub(crate) fn look(&self) {
        self.registered.notify_one();
    }

    /// Notified when somebody says so.
    pub(crate) fn registered(&self) -> Arc<Notify> {
        Arc::clone(&self.registered)
    }
}
