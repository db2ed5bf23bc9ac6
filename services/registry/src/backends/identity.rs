//! Client of identity: looks up the service account of a client of the identity provider. Handlers call it before they
//! begin a transaction, never inside one.

use std::sync::Arc;
use std::time::Duration;

use contract::{CorrelationId, Subject};
use http::{Method, StatusCode};
use serde::Deserialize;
use service::Inside;
use service::client::{Call, Client, Unavailable, encode_segment};
use tokio::sync::Notify;

/// Timeout of a call, during which identity asks the provider twice. After a timeout, a registration still completes
/// within the budget of a request.
const BUDGET: Duration = Duration::from_millis(1_500);

/// A client of identity. Cheap to clone.
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

    /// Returns the subject of the client's service account; `None` if the provider has no such client.
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

/// The state that handlers and the worker share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Backends {
    pub(crate) identity: IdentityClient,
    registered: Arc<Notify>,
}

impl Backends {
    /// Creates the state for identity at `base_url`.
    pub(crate) fn new(base_url: &str, inside: &Inside) -> Self {
        Self { identity: IdentityClient::new(base_url, inside), registered: Arc::default() }
    }

    /// Wakes the worker after the registration of an app, whose backend may be unknown.
    pub(crate) fn look(&self) {
        self.registered.notify_one();
    }

    /// Returns the notification that [`look`](Self::look) sends.
    pub(crate) fn registered(&self) -> Arc<Notify> {
        Arc::clone(&self.registered)
    }
}
