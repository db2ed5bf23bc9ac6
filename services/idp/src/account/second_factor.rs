//! Setting up and removing one-time codes, and renewing recovery codes. A new secret is stored only after the user has
//! proved that the app has it; until then the form carries it, sealed.

use axum::extract::{Request, State};
use axum::response::Response;
use contract::CorrelationId;
use serde::{Deserialize, Serialize};
use serde_json::json;
use service::{ApiError, AuditedTx, Correlation};
use uuid::Uuid;

use super::http::show;
use super::visitor::{self, Asked, Entry, Login, Posted, Visitor};
use crate::browser_sessions;
use crate::form::Params;
use crate::keys::rules::Purpose;
use crate::login::credentials;
use crate::login::http::redirect;
use crate::login::ticket::AccountPage;
use crate::pages::account::{FormName, Problem, SetUp};
use crate::pages::{self, PRODUCT};
use crate::refusal::PageError;
use crate::second_factors::store::Totp;
use crate::second_factors::{self, event, rules};
use crate::state::App;
use crate::users;
use crate::users::passwords::CredentialDigest;

/// A secret that awaits its first code.
#[derive(Serialize, Deserialize)]
struct Waiting {
    session: Uuid,
    key: String,
}

/// `GET …/account/totp`.
pub(crate) async fn set_up(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let asked = Asked::of(&request)?;
    let entry = visitor::of(&app, &asked, AccountPage::SecondFactor, Login::Recent, &correlation).await?;
    match entry {
        Entry::SignIn(form) => Ok(form),
        Entry::Visitor(visitor) if visitor.user.has_totp => show(&app, &visitor, None, None).await,
        Entry::Visitor(visitor) => show_secret(&app, &visitor, &rules::new_secret()?, None),
    }
}

/// `POST …/account/totp`.
pub(crate) async fn turn_on(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let posted =
        visitor::posted(&app, request, AccountPage::SecondFactor, Login::Recent, &correlation).await?;
    let (visitor, form) = match posted {
        Posted::SignIn(form) => return Ok(form),
        Posted::Form(visitor, form) => (visitor, form),
    };
    let waiting: Option<Waiting> =
        form.get("totpSecret").and_then(|sealed| app.keys.open(Purpose::SecondFactorSetUp, sealed));
    let secret = waiting
        .filter(|waiting| waiting.session == visitor.session.id)
        .and_then(|waiting| rules::secret_of(&waiting.key))
        .ok_or_else(PageError::foreign_form)?;
    let now = app.core.clock.unix_seconds();
    let code = form.get("totp").and_then(rules::code);
    let Some(last_step) = code.and_then(|code| rules::step_of(&secret, code, now, i64::MIN)) else {
        return show_secret(&app, &visitor, &secret, Some(visitor.lang.texts().invalid_code));
    };
    add(&app, &visitor, Totp { secret, last_step }, &correlation).await
}

async fn add(
    app: &App,
    visitor: &Visitor,
    totp: Totp,
    correlation: &CorrelationId,
) -> Result<Response, PageError> {
    let (user, now) = (visitor.user.id, app.core.clock.now());
    let codes = rules::new_recovery_codes()?;
    let mut tx = app.core.begin_as(&user.to_string(), Some(correlation.as_str())).await?;
    // The session must not have been ended meanwhile by a new password or the account's removal.
    let password = users::store::lock_password(tx.conn(), user).await?.map(CredentialDigest::of);
    if !browser_sessions::store::keep(tx.conn(), visitor.session.id, now).await? {
        tx.unchanged().await?;
        return visitor.sign_in(app, AccountPage::SecondFactor, correlation);
    }
    let is_first = !second_factors::store::find(&mut *tx.conn(), user).await?.any();
    if !second_factors::store::add(tx.conn(), user, &totp, now).await? {
        tx.unchanged().await?;
        return show(app, visitor, None, None).await;
    }
    if is_first {
        users::store::end_sessions(tx.conn(), user, Some(visitor.session.id)).await?;
    }
    second_factors::store::replace_recovery_codes(tx.conn(), user, &tags(app, user, &codes)).await?;
    tx.commit(&event("second_factor.added", user, json!({ "kind": "one_time_code" }))).await?;
    let mut response = show_codes(visitor, &codes);
    if let Some(device) = visitor.device(app, password) {
        device.with_second_factor().remember(app, &mut response)?;
    }
    Ok(response)
}

/// `POST …/account/recovery-codes`.
pub(crate) async fn renew_codes(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let (visitor, mut tx) = match with_password(&app, request, FormName::NewCodes, &correlation).await? {
        Checked::Other(answer) => return Ok(answer),
        Checked::Right(visitor, _, tx) => (visitor, tx),
    };
    let (user, codes) = (visitor.user.id, rules::new_recovery_codes()?);
    let tags = tags(&app, user, &codes);
    if !second_factors::store::replace_recovery_codes(tx.conn(), user, &tags).await? {
        tx.unchanged().await?;
        return show(&app, &visitor, None, None).await;
    }
    tx.commit(&event("second_factor.recovery_codes_renewed", user, json!({}))).await?;
    Ok(show_codes(&visitor, &codes))
}

/// `POST …/account/totp/remove`.
pub(crate) async fn remove(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let checked = with_password(&app, request, FormName::RemoveSecondFactor, &correlation).await?;
    let (visitor, mut tx) = match checked {
        Checked::Other(answer) => return Ok(answer),
        Checked::Right(visitor, _, tx) => (visitor, tx),
    };
    let user = visitor.user.id;
    if second_factors::store::remove(tx.conn(), user).await? {
        second_factors::store::drop_spare_codes(tx.conn(), user).await?;
        tx.commit(&event("second_factor.removed", user, json!({ "reason": "user" }))).await?;
    } else {
        tx.unchanged().await?;
    }
    Ok(redirect(&visitor.done("second-factor-removed")))
}

/// The outcome of a form that requires the password.
pub(super) enum Checked {
    /// The password is right, in a transaction that locks the user's row, so that it stays right.
    Right(Box<Visitor>, Params, AuditedTx),
    /// The response in all other cases.
    Other(Response),
}

pub(super) async fn with_password(
    app: &App,
    request: Request,
    name: FormName,
    correlation: &CorrelationId,
) -> Result<Checked, PageError> {
    let posted = visitor::posted(app, request, AccountPage::Account, Login::Any, correlation).await?;
    let (visitor, form) = match posted {
        Posted::SignIn(answer) => return Ok(Checked::Other(answer)),
        Posted::Form(visitor, form) => (visitor, form),
    };
    let typed = form.get("password").unwrap_or_default();
    let user = visitor.user.id;
    if let Some(password) = credentials::check_again(app, &visitor.headers, user, typed).await? {
        let mut tx = app.core.begin_as(&user.to_string(), Some(correlation.as_str())).await?;
        if users::store::lock_password_of(tx.conn(), user, password).await? {
            return Ok(Checked::Right(visitor, form, tx));
        }
        tx.unchanged().await?;
    }
    let text = visitor.lang.texts().wrong_password;
    Ok(Checked::Other(show(app, &visitor, None, Some(Problem { form: name, text })).await?))
}

fn show_secret(
    app: &App,
    visitor: &Visitor,
    secret: &[u8],
    problem: Option<&'static str>,
) -> Result<Response, PageError> {
    let key = rules::key_text(secret);
    let waiting = Waiting { session: visitor.session.id, key: key.clone() };
    let claims = serde_json::to_value(waiting).map_err(ApiError::internal)?;
    let sealed = app.keys.seal(Purpose::SecondFactorSetUp, &claims)?;
    let page = pages::account::set_up(&SetUp {
        frame: visitor.frame(),
        uri: &rules::key_uri(PRODUCT, &visitor.user.username, secret),
        key: &key,
        sealed: &sealed,
        problem,
    });
    Ok(pages::answer_account(page))
}

pub(super) fn show_codes(visitor: &Visitor, codes: &[String]) -> Response {
    let shown: Vec<String> = codes.iter().map(|code| rules::shown(code)).collect();
    pages::answer_account(pages::account::recovery_codes(&visitor.frame(), &shown))
}

pub(super) fn tags(app: &App, user: Uuid, codes: &[String]) -> Vec<Vec<u8>> {
    codes.iter().map(|code| second_factors::tag(&app.keys, user, code)).collect()
}
