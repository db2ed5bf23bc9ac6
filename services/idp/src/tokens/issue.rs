//! Signs the tokens of a session and makes the new refresh token its only valid one.

use serde::Serialize;
use serde_json::Value;
use service::{ApiError, AuditedTx};
use time::{Duration, OffsetDateTime};

use crate::clients::rules::Client;
use crate::keys::rules::{Purpose, sha256};
use crate::state::App;
use crate::tokens::claims::{self, ACCESS_SECONDS, Grant, Login, REFRESH_SECONDS};
use crate::tokens::scope::Scope;
use crate::tokens::store::{self, Replaced, Session};

/// A successful response of the token route.
#[derive(Debug, Serialize)]
pub(super) struct TokenSet {
    pub(super) access_token: String,
    pub(super) expires_in: i64,
    pub(super) refresh_expires_in: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<String>,
    pub(super) token_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id_token: Option<String>,
    #[serde(rename = "not-before-policy")]
    pub(super) not_before_policy: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_state: Option<String>,
    pub(super) scope: &'static str,
}

/// The data that the tokens of a session are made from.
pub(super) struct Issue<'a> {
    pub(super) client: &'a Client,
    pub(super) session: &'a Session,
    pub(super) scope: Scope,
    pub(super) nonce: Option<&'a str>,
    /// Digest of the exchanged refresh token; the same seed and time give the same tokens.
    pub(super) seed: Option<&'a [u8]>,
    pub(super) now: OffsetDateTime,
}

/// Tokens, and what the session stores about their refresh token.
pub(super) struct Made {
    pub(super) tokens: TokenSet,
    pub(super) refresh_hash: Vec<u8>,
    idle_until: OffsetDateTime,
}

/// Issues the tokens of a user's session. Their refresh token becomes the only valid one.
pub(super) async fn for_session(
    app: &App,
    tx: &mut AuditedTx,
    issue: &Issue<'_>,
) -> Result<TokenSet, ApiError> {
    let made = make(app, issue)?;
    let replaced = issue.seed.map(|hash| Replaced { hash, at: issue.now });
    store::keep_refresh(tx.conn(), issue.session.id, &made.refresh_hash, made.idle_until, replaced).await?;
    Ok(made.tokens)
}

/// Signs the tokens without storing anything.
pub(super) fn make(app: &App, issue: &Issue<'_>) -> Result<Made, ApiError> {
    let session = issue.session;
    let login = Login {
        session: session.id,
        authenticated_at: session.authenticated_at.unix_timestamp(),
        nonce: issue.nonce,
    };
    let grant = Grant {
        issuer: &app.realm.issuer,
        realm: &app.realm.name,
        audience: &app.realm.audience,
        client: issue.client,
        user: &session.user,
        login: Some(login),
        scope: issue.scope,
        seed: issue.seed,
        now: issue.now.unix_timestamp(),
    };
    let idle_until = issue.now.saturating_add(Duration::seconds(REFRESH_SECONDS)).min(session.ends_at);
    let refresh_expires_in = (idle_until - issue.now).whole_seconds().max(0);
    let refresh_token = app.keys.seal(Purpose::RefreshToken, &claims::refresh(&grant, refresh_expires_in))?;
    let refresh_hash = sha256(refresh_token.as_bytes());
    let access_token = app.keys.sign(&claims::access(&grant))?;
    let id_token = id_token(app, &grant, &access_token)?;
    let tokens = TokenSet {
        access_token,
        expires_in: ACCESS_SECONDS,
        refresh_expires_in,
        refresh_token: Some(refresh_token),
        token_type: "Bearer",
        id_token,
        not_before_policy: 0,
        session_state: Some(session.id.to_string()),
        scope: issue.scope.as_str(),
    };
    Ok(Made { tokens, refresh_hash, idle_until })
}

/// Issues the token of a service account. It has no session, so nothing is stored.
pub(super) fn for_service_account(app: &App, grant: &Grant<'_>) -> Result<TokenSet, ApiError> {
    let claims: Value = claims::access(grant);
    let access_token = app.keys.sign(&claims)?;
    let id_token = id_token(app, grant, &access_token)?;
    Ok(TokenSet {
        access_token,
        expires_in: ACCESS_SECONDS,
        refresh_expires_in: 0,
        refresh_token: None,
        token_type: "Bearer",
        id_token,
        not_before_policy: 0,
        session_state: None,
        scope: grant.scope.as_str(),
    })
}

fn id_token(app: &App, grant: &Grant<'_>, access_token: &str) -> Result<Option<String>, ApiError> {
    if !grant.scope.openid {
        return Ok(None);
    }
    Ok(Some(app.keys.sign(&claims::id(grant, access_token))?))
}
