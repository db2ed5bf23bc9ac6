//! Ends one or all of the user's own sessions.

use axum::extract::{Request, State};
use axum::response::Response;
use contract::id::parse_uuid;
use serde_json::json;
use service::{AuditEvent, Correlation};

use super::visitor::{self, Login, Posted, Visitor};
use crate::browser_sessions;
use crate::cookies::Keep;
use crate::login::http::{redirect, set_cookie};
use crate::login::ticket::AccountPage;
use crate::pages;
use crate::refusal::PageError;
use crate::state::App;
use crate::users;

/// `POST …/account/sessions/end`.
pub(crate) async fn end(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let posted = visitor::posted(&app, request, AccountPage::Account, Login::Any, &correlation).await?;
    let (visitor, form) = match posted {
        Posted::SignIn(form) => return Ok(form),
        Posted::Form(visitor, form) => (visitor, form),
    };
    let session = form.get("session").and_then(parse_uuid);
    let session = session.ok_or_else(|| PageError::bad("Invalid parameter: session"))?;
    let user = visitor.user.id;
    let mut tx = app.core.begin_as(&user.to_string(), Some(correlation.as_str())).await?;
    if browser_sessions::store::end_of_user(tx.conn(), session, user).await? {
        tx.commit(&ended(format!("browser-session:{session}"))).await?;
    } else {
        // It ended meanwhile, as requested, or belongs to another user, which the response does not reveal.
        tx.unchanged().await?;
    }
    if session == visitor.session.id {
        return Ok(gone(&app, &visitor));
    }
    Ok(redirect(&visitor.done("session")))
}

/// `POST …/account/sessions/end-all`.
pub(crate) async fn end_all(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let posted = visitor::posted(&app, request, AccountPage::Account, Login::Any, &correlation).await?;
    let visitor = match posted {
        Posted::SignIn(form) => return Ok(form),
        Posted::Form(visitor, _) => visitor,
    };
    let user = visitor.user.id;
    let mut tx = app.core.begin_as(&user.to_string(), Some(correlation.as_str())).await?;
    users::store::end_sessions(tx.conn(), user, None).await?;
    tx.commit(&ended(format!("user:{user}"))).await?;
    Ok(gone(&app, &visitor))
}

fn gone(app: &App, visitor: &Visitor) -> Response {
    let mut response = pages::answer(pages::login::logged_out(visitor.lang, &visitor.account()));
    set_cookie(app, &mut response, browser_sessions::COOKIE, Keep::Remove);
    response
}

fn ended(subject: String) -> AuditEvent {
    AuditEvent { company: None, action: "session.ended", subject, payload: json!({ "reason": "account" }) }
}
