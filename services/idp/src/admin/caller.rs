//! Who asks an administration route: the bearer must be a token that this provider signed for the administration
//! client. The provider checks it with the keys it holds; there is nobody to fetch them from.

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::Deserialize;

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
