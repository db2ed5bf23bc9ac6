//! Handlers of `…/protocol/openid-connect/auth` (shows the form or refuses) and `…/login-actions/authenticate` (takes
//! the form). They decide nothing that `rules.rs` can decide.

use axum::extract::{Request, State};
use axum::response::{Html, IntoResponse, Response};
use contract::CorrelationId;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, SET_COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::json;
use service::{ApiError, AuditEvent, Correlation};
use uuid::Uuid;

use crate::browser_sessions;
use crate::clients;
use crate::clients::rules::Client;
use crate::cookies::{self, Keep};
use crate::form::Params;
use crate::login::answer;
use crate::login::device::Device;
use crate::login::guard::Source;
use crate::login::page::{self, Form};
use crate::login::rules::{self, Freshness, LoginRequest, Misaddressed, Refused, Target};
use crate::login::ticket::{BROWSER_COOKIE, Browser, EXECUTION, Ticket};
use crate::meter::Outcome;
use crate::refusal::PageError;
use crate::state::App;
use crate::users;
use crate::users::passwords::HashingError;
use crate::users::rules::User;

const STALE: &str = "You took too long to sign in. Please try again.";
/// Longest user name that is looked up.
const MAX_USERNAME_BYTES: usize = 255;

impl From<Misaddressed> for PageError {
    fn from(problem: Misaddressed) -> Self {
        Self::bad(problem.to_string())
    }
}

/// `GET` and `POST /realms/{realm}/protocol/openid-connect/auth`.
pub(crate) async fn authorize(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let headers = request.headers().clone();
    let params = if request.method() == Method::POST {
        Params::of_body(request).await?
    } else {
        Params::of_query(request.uri().query())?
    };
    let client = clients::store::find(&app.core.pool, rules::client_id(&params)?).await?;
    let target = Target::of(&params, client.as_ref())?;
    let client = client.ok_or(Misaddressed::UnknownClient)?;
    let accepted = LoginRequest::accept(&params, &client, target.clone());
    match accepted.and_then(|request| Ok((request, Freshness::of(&params)?))) {
        Ok((request, freshness)) => admit_or_ask(&app, request, freshness, &headers, &correlation).await,
        Err(refused) => Ok(refuse(&app, &target, &refused)),
    }
}

/// Answers from the browser's session where that is fresh enough, else by the form.
async fn admit_or_ask(
    app: &App,
    request: LoginRequest,
    freshness: Freshness,
    headers: &HeaderMap,
    correlation: &CorrelationId,
) -> Result<Response, PageError> {
    let now = app.core.clock.now();
    let session = browser_sessions::of(app, headers).await?;
    if let Some(session) = session.filter(|session| freshness.admits(session.authenticated_at, now))
        && let Some(response) = answer::to_session(app, &request, &session, correlation).await?
    {
        return Ok(response);
    }
    if freshness.forbids_a_form() {
        return Ok(refuse(app, &request.target, &Refused::login_required()));
    }
    let username = request.login_hint.clone().unwrap_or_default();
    let browser = Browser::of(headers).map_or_else(Browser::new, Ok).map_err(ApiError::from)?;
    show_form(app, request, &browser, &username, None)
}

/// `POST /realms/{realm}/login-actions/authenticate`.
pub(crate) async fn authenticate(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let query = Params::of_query(request.uri().query())?;
    let headers = request.headers().clone();
    let form = Params::of_body(request).await?;
    let (ticket, browser) = admit(&app, &query, Browser::of(&headers))?;
    let client = clients::store::find(&app.core.pool, &ticket.request.client_id).await?;
    check_still_allowed(client.as_ref(), &ticket.request)?;
    let username = form.get("username").unwrap_or_default();
    if ticket.is_stale(app.core.clock.unix_seconds()) {
        return show_form(&app, ticket.request, &browser, username, Some(STALE));
    }
    let password = form.get("password").unwrap_or_default();
    match check_credentials(&app, &headers, username, password).await? {
        Credentials::Good(user) => finish(&app, ticket.request, &browser, &headers, user, &correlation).await,
        Credentials::Bad { user, failure } => {
            record_failure(&app, &ticket.request, user, failure, &correlation).await?;
            show_form(&app, ticket.request, &browser, username, Some(failure.message()))
        }
    }
}

/// `GET /realms/{realm}/login-actions/authenticate`: the address of a form that was shown again, opened anew.
pub(crate) async fn reopen(State(app): State<App>, request: Request) -> Result<Response, PageError> {
    let query = Params::of_query(request.uri().query())?;
    let (ticket, browser) = admit(&app, &query, Browser::of(request.headers()))?;
    let client = clients::store::find(&app.core.pool, &ticket.request.client_id).await?;
    check_still_allowed(client.as_ref(), &ticket.request)?;
    show_form(&app, ticket.request, &browser, "", None)
}

/// `GET /resources/login.css`.
pub(crate) async fn style() -> Response {
    let headers = [(CONTENT_TYPE, "text/css; charset=utf-8"), (CACHE_CONTROL, "public, max-age=3600")];
    (headers, page::STYLE).into_response()
}

/// The ticket behind a posted form, when it was shown to this browser.
fn admit(app: &App, query: &Params, browser: Option<Browser>) -> Result<(Ticket, Browser), PageError> {
    let session_code = query.get("session_code").unwrap_or_default();
    let ticket = Ticket::open(&app.keys, session_code).ok_or_else(|| {
        PageError::bad("This login form is not valid. Go back to the application and sign in again.")
    })?;
    let fits = query.get("client_id") == Some(ticket.request.client_id.as_str())
        && query.get("tab_id") == Some(ticket.tab_id.as_str())
        && query.get("execution") == Some(EXECUTION);
    if !fits {
        return Err(PageError::bad("This login form does not fit its address."));
    }
    let browser = browser.filter(|browser| ticket.is_of(browser)).ok_or_else(|| {
        PageError::bad("The cookie of this login is missing. Allow cookies, go back to the application and sign in again.")
    })?;
    Ok((ticket, browser))
}

/// A client may have been changed while its form was open.
fn check_still_allowed(client: Option<&Client>, request: &LoginRequest) -> Result<(), Misaddressed> {
    let client = client.ok_or(Misaddressed::UnknownClient)?;
    if !client.enabled {
        return Err(Misaddressed::DisabledClient);
    }
    if client.allows_redirect(&request.target.redirect_uri) { Ok(()) } else { Err(Misaddressed::RedirectUri) }
}

enum Credentials {
    Good(User),
    Bad { user: Option<Uuid>, failure: Failure },
}

#[derive(Clone, Copy)]
enum Failure {
    Wrong,
    /// Too soon after wrong ones from the same device or address; the password was not looked at.
    Delayed,
    Disabled,
}

impl Failure {
    /// Told alike for an unknown name, a wrong password and an attempt that came too soon, so that names cannot be tried out.
    const fn message(self) -> &'static str {
        match self {
            Self::Wrong | Self::Delayed => "Invalid username or password.",
            Self::Disabled => "Account is disabled, contact your administrator.",
        }
    }

    /// Of the audit row.
    const fn reason(self) -> &'static str {
        match self {
            Self::Wrong => "credentials",
            Self::Delayed => "too_many_failures",
            Self::Disabled => "disabled",
        }
    }
}

/// The same work is done for every name, known or not; that an account is disabled is told only to who knows its
/// password.
async fn check_credentials(
    app: &App,
    headers: &HeaderMap,
    name: &str,
    password: &str,
) -> Result<Credentials, PageError> {
    let name = name.trim().to_lowercase();
    let login = if name.len() <= MAX_USERNAME_BYTES {
        users::store::find_login(&app.core.pool, &name).await?
    } else {
        None
    };
    let (user, hash) = login.map_or((None, None), |login| (Some(login.user), login.password_hash));
    let now = app.core.clock.unix_seconds();
    let attempt = user.as_ref().map(|user| (user.id, source(app, headers, user.id, now)));
    let admitted = attempt.is_none_or(|(account, source)| app.guard.admits(account, source, now));
    let hash = hash.filter(|_| admitted);
    let fits = app.passwords.matches(password, hash).await.map_err(hashing_failed)?;
    if let Some((account, source)) = attempt.filter(|_| fits) {
        app.guard.succeeded(account, source);
    }
    Ok(match user {
        Some(user) if fits => known(user),
        other => {
            let failure = if admitted { Failure::Wrong } else { Failure::Delayed };
            Credentials::Bad { user: other.map(|user| user.id), failure }
        }
    })
}

/// A device that signed in to this account before, else the address.
fn source(app: &App, headers: &HeaderMap, account: Uuid, now: i64) -> Source {
    let device = Device::of(&app.keys, headers, account, now);
    device.map_or_else(|| Source::address(headers), Source::Device)
}

fn known(user: User) -> Credentials {
    if user.enabled {
        Credentials::Good(user)
    } else {
        Credentials::Bad { user: Some(user.id), failure: Failure::Disabled }
    }
}

fn hashing_failed(error: HashingError) -> PageError {
    if matches!(error, HashingError::Busy) { PageError::busy() } else { ApiError::internal(error).into() }
}

async fn record_failure(
    app: &App,
    request: &LoginRequest,
    user: Option<Uuid>,
    failure: Failure,
    correlation: &CorrelationId,
) -> Result<(), PageError> {
    app.meter.login(if matches!(failure, Failure::Delayed) { Outcome::Delayed } else { Outcome::Failed });
    let subject = user.map_or_else(|| "user:unknown".to_owned(), |id| format!("user:{id}"));
    let payload = json!({ "clientId": request.client_id, "reason": failure.reason() });
    let tx = app.core.begin_as("system:login", Some(correlation.as_str())).await?;
    tx.commit(&AuditEvent { company: None, action: "login.failed", subject, payload }).await?;
    Ok(())
}

/// Answers the request of a user who has proved to be who it is.
async fn finish(
    app: &App,
    request: LoginRequest,
    browser: &Browser,
    headers: &HeaderMap,
    user: User,
    correlation: &CorrelationId,
) -> Result<Response, PageError> {
    if let Some(response) = answer::to_login(app, &request, headers, user.id, correlation).await? {
        return Ok(response);
    }
    let failure = Failure::Disabled;
    record_failure(app, &request, Some(user.id), failure, correlation).await?;
    show_form(app, request, browser, &user.username, Some(failure.message()))
}

fn show_form(
    app: &App,
    request: LoginRequest,
    browser: &Browser,
    username: &str,
    problem: Option<&str>,
) -> Result<Response, PageError> {
    let ticket = Ticket::new(request, browser, app.core.clock.unix_seconds()).map_err(ApiError::from)?;
    let session_code = ticket.seal(&app.keys).map_err(ApiError::from)?;
    let query = [
        ("session_code", session_code.as_str()),
        ("execution", EXECUTION),
        ("client_id", &ticket.request.client_id),
        ("tab_id", &ticket.tab_id),
    ];
    let query = serde_urlencoded::to_string(query).map_err(ApiError::internal)?;
    let action = format!("{}/login-actions/authenticate?{query}", app.realm.issuer);
    let form = Form { realm: &app.realm.name, action: &action, username, problem };
    let mut response = Html(page::login(&form)).into_response();
    page::protect(&mut response);
    set_cookie(app, &mut response, BROWSER_COOKIE, Keep::Session(browser.as_str()));
    Ok(response)
}

fn refuse(app: &App, target: &Target, refused: &Refused) -> Response {
    let outcome = [("error", refused.error), ("error_description", refused.description.as_str())];
    redirect(&target.answer(&app.realm.issuer, &outcome))
}

/// Sends the browser on.
pub(crate) fn redirect(location: &str) -> Response {
    let mut response = StatusCode::FOUND.into_response();
    page::protect(&mut response);
    set_header(&mut response, LOCATION, location);
    response
}

/// Sets or removes a cookie.
pub(crate) fn set_cookie(app: &App, response: &mut Response, name: &str, keep: Keep<'_>) {
    for cookie in cookies::set(&app.realm.name, name, keep) {
        match HeaderValue::try_from(cookie) {
            Ok(cookie) => drop(response.headers_mut().append(SET_COOKIE, cookie)),
            Err(error) => *response = PageError::from(ApiError::internal(error)).into_response(),
        }
    }
}

/// Sets a header whose text is encoded already; a text that is no header value is a bug and leaves no half answer.
fn set_header(response: &mut Response, name: HeaderName, value: &str) {
    match HeaderValue::try_from(value) {
        Ok(value) => drop(response.headers_mut().insert(name, value)),
        Err(error) => *response = PageError::from(ApiError::internal(error)).into_response(),
    }
}
