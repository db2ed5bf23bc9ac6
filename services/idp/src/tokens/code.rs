//! Grant `authorization_code`: a code can be taken once, whatever the outcome. A code that is redeemed again by its client
//! with the right verifier ends the session that it opened, because one of its two holders must have stolen it (RFC 6749,
//! section 4.1.2); without the verifier it does not, or whoever saw a code could end its session (OAuth 2.1, section 7.5.2).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use contract::CorrelationId;
use serde_json::json;
use service::{AuditEvent, AuditedTx};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::clients::rules::Client;
use crate::form::Params;
use crate::keys::rules::sha256;
use crate::login::rules::is_pkce_text;
use crate::refusal::OauthError;
use crate::state::App;
use crate::tokens::issue::{self, Issue, TokenSet};
use crate::tokens::scope::Scope;
use crate::tokens::store::{self, Session, TakenCode};

const NOT_VALID: &str = "Code not valid";

pub(super) async fn exchange(
    app: &App,
    client: &Client,
    params: &Params,
    correlation: &CorrelationId,
) -> Result<TokenSet, OauthError> {
    let code = params.get("code").ok_or_else(|| OauthError::invalid_request("Missing parameter: code"))?;
    let code_hash = sha256(code.as_bytes());
    let owner = store::owner_of_code(&app.core.pool, &code_hash).await?;
    let (session_id, user_id) = owner.ok_or_else(|| OauthError::invalid_grant(NOT_VALID))?;
    let now = app.core.clock.now();
    let mut tx = app.core.begin_as(&user_id.to_string(), Some(correlation.as_str())).await?;
    // The session first, as whatever ends it does.
    let Some(session) = store::lock_session(tx.conn(), session_id).await? else {
        tx.unchanged().await?;
        return Err(OauthError::invalid_grant(NOT_VALID));
    };
    let Some(code) = store::take_code(tx.conn(), &code_hash, now).await? else {
        let used = store::used_code(tx.conn(), &code_hash).await?;
        let is_holder = used.is_some_and(|used| matches(&used, &session, client, params).is_ok());
        return Err(end_reused(tx, session_id, is_holder).await?);
    };
    if let Err(description) = redeem(&code, &session, client, params, now) {
        return Err(refuse(tx, &session, description).await?);
    }
    // `Scope` wrote the stored text.
    let scope = Scope::parse(&code.scope).unwrap_or(Scope { openid: false });
    let what = Issue { client, session: &session, scope, nonce: code.nonce.as_deref(), seed: None, now };
    let tokens = issue::for_session(app, &mut tx, &what).await?;
    tx.commit(&event("session.tokens_issued", session_id, json!({ "clientId": client.id }))).await?;
    Ok(tokens)
}

/// Checks what an exchange must match.
fn redeem(
    code: &TakenCode,
    session: &Session,
    client: &Client,
    params: &Params,
    now: OffsetDateTime,
) -> Result<(), &'static str> {
    if code.expires_at <= now {
        return Err("Code is expired");
    }
    matches(code, session, client, params)?;
    if session.user.enabled { Ok(()) } else { Err("User disabled") }
}

/// Checks that the client is the one that got the code, with its redirect URI and its verifier.
fn matches(
    code: &TakenCode,
    session: &Session,
    client: &Client,
    params: &Params,
) -> Result<(), &'static str> {
    if session.client_id != client.id {
        return Err("Auth error");
    }
    if params.get("redirect_uri") != Some(code.redirect_uri.as_str()) {
        return Err("Incorrect redirect_uri");
    }
    check_verifier(params.get("code_verifier"), &code.code_challenge)
}

/// Checks the verifier (RFC 7636, section 4.6, method S256).
fn check_verifier(verifier: Option<&str>, challenge: &str) -> Result<(), &'static str> {
    let verifier = verifier.ok_or("PKCE code verifier not specified")?;
    if !is_pkce_text(verifier) {
        return Err("PKCE verification failed: Invalid code verifier");
    }
    if URL_SAFE_NO_PAD.encode(sha256(verifier.as_bytes())) == challenge {
        Ok(())
    } else {
        Err("PKCE verification failed: Code mismatch")
    }
}

/// Refuses an exchange. The code stays taken, so a guesser of verifiers gets one attempt.
async fn refuse(
    tx: AuditedTx,
    session: &Session,
    description: &'static str,
) -> Result<OauthError, OauthError> {
    tx.commit(&event("code.refused", session.id, json!({ "reason": description }))).await?;
    Ok(OauthError::invalid_grant(description))
}

/// Refuses a code that was used before, and ends its session if the request has all that a holder of the code has.
async fn end_reused(mut tx: AuditedTx, session: Uuid, is_holder: bool) -> Result<OauthError, OauthError> {
    if is_holder && store::end_session(tx.conn(), session).await? {
        tx.commit(&event("session.revoked", session, json!({ "reason": "code_reused" }))).await?;
    } else {
        tx.unchanged().await?;
    }
    Ok(OauthError::invalid_grant(NOT_VALID))
}

fn event(action: &'static str, session: Uuid, payload: serde_json::Value) -> AuditEvent {
    AuditEvent { company: None, action, subject: format!("session:{session}"), payload }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7636, appendix B.
    const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

    #[test]
    fn a_verifier_fits_its_challenge_only() {
        assert_eq!(check_verifier(Some(VERIFIER), CHALLENGE), Ok(()));
        let other = VERIFIER.to_lowercase();
        for (verifier, why) in [
            (None, "PKCE code verifier not specified"),
            (Some("short"), "PKCE verification failed: Invalid code verifier"),
            (Some(other.as_str()), "PKCE verification failed: Code mismatch"),
            (Some(CHALLENGE), "PKCE verification failed: Code mismatch"),
        ] {
            assert_eq!(check_verifier(verifier, CHALLENGE), Err(why));
        }
    }
}
