//! The caller of an administration route: the bearer must be a token that this provider signed for the administration
//! client or, for accounts, the operator's credential. The provider verifies tokens with its own keys in memory.

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::Deserialize;
use service::Operator;

use crate::form::Params;
use crate::refusal::AdminError;
use crate::state::App;

/// The administration client.
#[derive(Clone, Debug)]
pub(crate) struct Administrator {
    /// `sub`: its service account.
    pub(crate) subject: String,
    /// `azp`.
    pub(crate) client_id: String,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    azp: String,
    typ: String,
    exp: i64,
}

impl FromRequestParts<App> for Administrator {
    type Rejection = AdminError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Self::Rejection> {
        let token = bearer::token_of(&parts.headers).map_err(|_| AdminError::unauthorized())?;
        let claims: Claims = app.keys.verify(token).ok_or_else(AdminError::unauthorized)?;
        let live = claims.exp > app.core.clock.unix_seconds();
        if !live || claims.iss != app.realm.issuer || claims.typ != "Bearer" {
            return Err(AdminError::unauthorized());
        }
        if claims.azp != app.realm.admin_client {
            return Err(AdminError::forbidden());
        }
        Ok(Self { subject: claims.sub, client_id: claims.azp })
    }
}

/// Longest name of an operator's account, in characters.
const MAX_OPERATOR: usize = 200;

/// A caller that reads or changes accounts.
#[derive(Clone, Debug)]
pub(crate) enum Asker {
    Administrator(Administrator),
    Operator(OperatorName),
}

/// The actor of an operator, with the account name in the query parameter `operator`.
#[derive(Clone, Debug)]
pub(crate) struct OperatorName(String);

impl Asker {
    /// The actor of audit rows.
    pub(crate) fn actor(&self) -> &str {
        match self {
            Self::Administrator(administrator) => &administrator.subject,
            Self::Operator(OperatorName(actor)) => actor,
        }
    }

    /// `clientId` of administration events.
    pub(crate) fn client_id(&self) -> &str {
        match self {
            Self::Administrator(administrator) => &administrator.client_id,
            Self::Operator(_) => "platform-operator",
        }
    }

    /// Requires an operator: the administration client may only read, enable, disable and remove accounts.
    pub(crate) fn operator(self) -> Result<Self, AdminError> {
        match self {
            Self::Operator(_) => Ok(self),
            Self::Administrator(_) => Err(AdminError::forbidden()),
        }
    }
}

impl FromRequestParts<App> for Asker {
    type Rejection = AdminError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Self::Rejection> {
        match Administrator::from_request_parts(parts, app).await {
            Ok(administrator) => return Ok(Self::Administrator(administrator)),
            Err(refused) if refused.is_forbidden() => return Err(refused),
            Err(_) => {}
        }
        Operator::from_request_parts(parts, app).await.map_err(|_| AdminError::unauthorized())?;
        let query = Params::of_query(parts.uri.query())?;
        let name = query.get("operator");
        let fits = |name: &&str| name.chars().count() <= MAX_OPERATOR && !name.chars().any(char::is_control);
        if name.is_some_and(|name| !fits(&name)) {
            let message =
                format!("operator must have at most {MAX_OPERATOR} characters and no control characters");
            return Err(AdminError::bad(message));
        }
        let actor = name.map_or_else(|| "operator".to_owned(), |name| format!("operator:{name}"));
        Ok(Self::Operator(OperatorName(actor)))
    }
}
