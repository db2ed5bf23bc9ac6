//! `GET /internal/identity/service-accounts/{clientId}`: the subject of a client's own tokens, as the provider has it now.

use axum::extract::State;
use contract::Subject;
use serde::Serialize;
use service::{ApiError, Data, Insider, PathParams};

use crate::App;

/// Longest client id of a provider.
const MAX_CLIENT_ID_BYTES: usize = 255;

/// A client and the subject of its account; `null` if there is no such client or it has no account.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceAccount {
    client_id: String,
    kc_sub: Option<Subject>,
}

/// Asks the provider. Creates no record: the account's first request does that.
pub(crate) async fn one(
    State(app): State<App>,
    _insider: Insider,
    path: PathParams,
) -> Result<Data<ServiceAccount>, ApiError> {
    let client_id = path.text("clientId").to_owned();
    if client_id.len() > MAX_CLIENT_ID_BYTES {
        return Err(ApiError::BadRequest(
            format!("clientId must have at most {MAX_CLIENT_ID_BYTES} bytes").into(),
        ));
    }
    let account = app.provider.service_account(&client_id).await?;
    let kc_sub = account.and_then(|account| Subject::parse(&account.id));
    Ok(Data(ServiceAccount { client_id, kc_sub }))
}
