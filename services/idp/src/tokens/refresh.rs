//! Grant `refresh_token`. A session has one good refresh token; each use makes the next one. An older one presented
//! again ends the session, because one of the two who have it is a thief (RFC 9700, section 4.14). A client whose answer
//! was lost, or whose tabs refresh at the same moment, gets the same new tokens again for ten seconds.

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

/// How long after its exchange a refresh token gives the same answer again.
const REPEATED_WITHIN: Duration = Duration::seconds(10);
const NOT_ACTIVE: &str = "Session not active";

pub(super) async fn exchange(
    app: &App,
    client: &Client,
    params: &Params,
    correlation: &CorrelationId,
) -> Result<TokenSet, OauthError> {
    let token = params.get("refresh_token").ok_or_else(|| OauthError::invalid_request("No refresh token"))?;
    // As the database keeps it: the same tokens are made of it again.
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
        // The same only when nothing that the tokens are made of has changed.
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

/// When the presented token was replaced, if it is the last that was and [`REPEATED_WITHIN`] is not over.
fn replaced_just_now(session: &Session, presented: &[u8], now: OffsetDateTime) -> Option<OffsetDateTime> {
    let replaced_at = session.replaced_at.filter(|_| session.replaced_hash.as_deref() == Some(presented))?;
    let age = now - replaced_at;
    (!age.is_negative() && age <= REPEATED_WITHIN).then_some(replaced_at)
}

/// What the token says by itself.
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
