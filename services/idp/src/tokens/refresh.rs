//! Grant `refresh_token`. A session has one valid refresh token; each use creates the next one. An older one presented
//! again ends the session, because one of its two holders must have stolen it (RFC 9700, section 4.14). For ten seconds
//! the replaced token yields the same new tokens again, for a client that lost the response or refreshes in several
//! tabs.

use contract::CorrelationId;
use serde_json::json;
use service::{AuditEvent, AuditedTx};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::clients::rules::Client;
use crate::form::Params;
use crate::keys::rules::{Purpose, sha256};
use crate::refusal::OauthError;
use crate::state::App;
use crate::tokens::claims::RefreshClaims;
use crate::tokens::issue::{self, Issue, TokenSet};
use crate::tokens::scope::Scope;
use crate::tokens::store::{self, Session};

/// How long after its exchange a refresh token yields the same response again.
const REPEATED_WITHIN: Duration = Duration::seconds(10);
const NOT_ACTIVE: &str = "Session not active";

pub(super) async fn exchange(
    app: &App,
    client: &Client,
    params: &Params,
    correlation: &CorrelationId,
) -> Result<TokenSet, OauthError> {
    let token = params.get("refresh_token").ok_or_else(|| OauthError::invalid_request("No refresh token"))?;
    // The database's precision: a repeated exchange makes the same tokens from the stored time.
    let now = app.core.clock.now().truncate_to_microsecond();
    let claims = read(app, client, token, now).map_err(OauthError::invalid_grant)?;
    let mut tx = app.core.begin_as(&claims.sub.to_string(), Some(correlation.as_str())).await?;
    let Some(session) = store::lock_session(tx.conn(), claims.sid).await? else {
        tx.unchanged().await?;
        return Err(OauthError::invalid_grant(NOT_ACTIVE));
    };
    let presented = sha256(token.as_bytes());
    let scope = Scope::parse(&claims.scope).unwrap_or(Scope { openid: false });
    let what = |now| Issue {
        client,
        session: &session,
        scope,
        nonce: claims.nonce.as_deref(),
        seed: Some(&presented),
        now,
    };
    if session.refresh_hash.as_deref() != Some(presented.as_slice()) {
        let Some(replaced_at) = replaced_just_now(&session, &presented, now) else {
            return Err(end_reused(tx, session.id).await?);
        };
        let made = issue::make(app, &what(replaced_at))?;
        // The tokens are the same only if none of their data has changed.
        if session.refresh_hash.as_deref() != Some(made.refresh_hash.as_slice()) {
            return Err(end_reused(tx, session.id).await?);
        }
        tx.unchanged().await?;
        check(&session, now).map_err(OauthError::invalid_grant)?;
        return Ok(made.tokens);
    }
    if let Err(description) = check(&session, now) {
        tx.unchanged().await?;
        return Err(OauthError::invalid_grant(description));
    }
    let tokens = issue::for_session(app, &mut tx, &what(now)).await?;
    let payload = json!({ "clientId": client.id });
    tx.commit(&event("session.refreshed", session.id, payload)).await?;
    Ok(tokens)
}

/// When the presented token was replaced, if it is the last replaced one and was replaced within [`REPEATED_WITHIN`].
fn replaced_just_now(session: &Session, presented: &[u8], now: OffsetDateTime) -> Option<OffsetDateTime> {
    let replaced_at = session.replaced_at.filter(|_| session.replaced_hash.as_deref() == Some(presented))?;
    let age = now - replaced_at;
    (!age.is_negative() && age <= REPEATED_WITHIN).then_some(replaced_at)
}

/// Checks the token itself and returns its claims.
fn read(app: &App, client: &Client, token: &str, now: OffsetDateTime) -> Result<RefreshClaims, &'static str> {
    let claims: RefreshClaims = app.keys.open(Purpose::RefreshToken, token).ok_or("Invalid refresh token")?;
    if claims.azp != client.id {
        return Err("Invalid refresh token. Token client and authorized client don't match");
    }
    if claims.exp <= now.unix_timestamp() { Err("Token is not active") } else { Ok(claims) }
}

fn check(session: &Session, now: OffsetDateTime) -> Result<(), &'static str> {
    if session.idle_until <= now || session.ends_at <= now {
        return Err(NOT_ACTIVE);
    }
    if session.user.enabled { Ok(()) } else { Err("User disabled") }
}

async fn end_reused(mut tx: AuditedTx, session: Uuid) -> Result<OauthError, OauthError> {
    store::end_session(tx.conn(), session).await?;
    tx.commit(&event("session.revoked", session, json!({ "reason": "refresh_token_reused" }))).await?;
    Ok(OauthError::invalid_grant("Maximum allowed refresh token reuse exceeded"))
}

fn event(action: &'static str, session: Uuid, payload: serde_json::Value) -> AuditEvent {
    AuditEvent { company: None, action, subject: format!("session:{session}"), payload }
}
