//! Handlers of `…/protocol/openid-connect/auth` (shows the form or refuses) and `…/login-actions/authenticate` (takes
//! the form). Decisions are in `rules.rs` where possible.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use contract::CorrelationId;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, SET_COOKIE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use service::{ApiError, Correlation};

use super::credentials::{self, Credentials};
use super::steps::Login;
use super::ticket::{Browser, Destination, Proved, Stage, Ticket};
use super::{new_password, passkey, second_factor};
use crate::browser_sessions;
use crate::clients;
use crate::clients::rules::Client;
use crate::cookies::{self, Keep};
use crate::form::Params;
use crate::login::answer;
use crate::login::rules::{self, Freshness, LoginRequest, Misaddressed, Refused, Target};
use crate::pages;
use crate::refusal::PageError;
use crate::state::App;
use crate::tokens::hint;

impl From<Misaddressed> for PageError {
    fn from(problem: Misaddressed) -> Self {
        match problem {
            Misaddressed::UnknownClient => Self::unfit(|texts| texts.unknown_client),
            Misaddressed::DisabledClient => Self::unfit(|texts| texts.disabled_client),
            // They name a parameter, so they are for the client's developers.
            Misaddressed::NoClient | Misaddressed::RedirectUri | Misaddressed::Repeated(_) => {
                Self::bad(problem.to_string())
            }
        }
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
    let accepted = accepted.and_then(|request| with_subject(&app, request, &params));
    match accepted.and_then(|request| Ok((request, Freshness::of(&params)?))) {
        Ok((request, freshness)) => admit_or_ask(&app, request, freshness, &headers, &correlation).await,
        Err(refused) => Ok(refuse(&app, &target, &refused)),
    }
}

/// Reads the user whom the client names by an ID token, if it does.
fn with_subject(app: &App, request: LoginRequest, params: &Params) -> Result<LoginRequest, Refused> {
    let Some(token) = params.get("id_token_hint") else { return Ok(request) };
    let hint = hint::read(app, token).ok_or_else(Refused::foreign_hint)?;
    Ok(LoginRequest { subject: Some(hint.sub), ..request })
}

/// Responds from the browser's session if it is fresh enough, else with the form.
async fn admit_or_ask(
    app: &App,
    request: LoginRequest,
    freshness: Freshness,
    headers: &HeaderMap,
    correlation: &CorrelationId,
) -> Result<Response, PageError> {
    let now = app.core.clock.now();
    let session = browser_sessions::of(app, headers).await?;
    let session = session.filter(|session| request.admits(session.user_id));
    if let Some(session) = session.filter(|session| freshness.admits(session.authenticated_at, now))
        && let Some(response) = answer::to_session(app, &request, &session, correlation).await?
    {
        return Ok(response);
    }
    if freshness.forbids_a_form() {
        return Ok(refuse(app, &request.target, &Refused::login_required()));
    }
    begin(app, Destination::Client(request), headers, correlation)
}

/// Shows the form of a new login.
pub(crate) fn begin(
    app: &App,
    destination: Destination,
    headers: &HeaderMap,
    correlation: &CorrelationId,
) -> Result<Response, PageError> {
    let browser = Browser::of(headers).map_or_else(Browser::new, Ok)?;
    let username = destination.login_hint().to_owned();
    Login { app, headers, correlation, destination, browser }.ask_password(&username, None)
}

/// `POST /realms/{realm}/login-actions/authenticate` and `…/required-action`: takes a form of a login.
pub(crate) async fn authenticate(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let query = Params::of_query(request.uri().query())?;
    let headers = request.headers().clone();
    let form = Params::of_body(request).await?;
    let (ticket, browser) = admit(&app, &query, Browser::of(&headers)).await?;
    let is_stale = ticket.is_stale(app.core.clock.unix_seconds());
    let Ticket { destination, stage, challenge, .. } = ticket;
    let login = Login { app: &app, headers: &headers, correlation: &correlation, destination, browser };
    let username = form.get("username").unwrap_or_default();
    if is_stale {
        let message = login.texts().too_slow;
        return login.ask_password(username, Some(message));
    }
    let signed = form.get("assertion").zip(challenge.as_ref());
    match (stage, signed) {
        (Stage::Password, Some((assertion, challenge))) => {
            passkey::sign_in(login, challenge, assertion).await
        }
        (Stage::Password, None) => {
            take_password(login, username, form.get("password").unwrap_or_default()).await
        }
        (Stage::SecondFactor(proved), Some((assertion, challenge))) => {
            passkey::second_step(login, proved, challenge, assertion).await
        }
        (Stage::SecondFactor(proved), None) => second_factor::take(login, proved, &form).await,
        (Stage::NewPassword(proved), _) => new_password::take(login, proved, &form).await,
    }
}

async fn take_password(login: Login<'_>, username: &str, password: &str) -> Result<Response, PageError> {
    match credentials::check(login.app, login.headers, username, password).await? {
        Credentials::Good { user, password, source } => {
            let proved = Proved { user: user.id, password, second_factor: None };
            login.after_password(&user, proved, source).await
        }
        Credentials::Bad { user, failure } => login.fail(user, failure, username).await,
    }
}

/// `GET` of the same address: shows the first form again.
pub(crate) async fn reopen(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let query = Params::of_query(request.uri().query())?;
    let headers = request.headers();
    let (ticket, browser) = admit(&app, &query, Browser::of(headers)).await?;
    let destination = ticket.destination;
    Login { app: &app, headers, correlation: &correlation, destination, browser }.ask_password("", None)
}

/// `GET /resources/login.css`.
pub(crate) async fn style() -> Response {
    resource("text/css; charset=utf-8", pages::STYLE)
}

/// `GET /resources/passkey.js`.
pub(crate) async fn script() -> Response {
    resource("text/javascript; charset=utf-8", pages::SCRIPT)
}

fn resource(content_type: &'static str, text: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "public, max-age=3600"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text).into_response()
}

/// Opens the ticket of a posted form, if it was shown to this browser and its client may still request logins.
async fn admit(app: &App, query: &Params, browser: Option<Browser>) -> Result<(Ticket, Browser), PageError> {
    let session_code = query.get("session_code").unwrap_or_default();
    let ticket =
        Ticket::open(&app.keys, session_code).ok_or_else(|| PageError::unfit(|texts| texts.invalid_form))?;
    let fits = query.get("client_id") == Some(ticket.destination.client_id())
        && query.get("tab_id") == Some(ticket.tab_id.as_str())
        && query.get("execution") == Some(ticket.execution());
    if !fits {
        return Err(PageError::unfit(|texts| texts.misplaced_form));
    }
    let browser = browser
        .filter(|browser| ticket.is_of(browser))
        .ok_or_else(|| PageError::unfit(|texts| texts.no_cookie))?;
    if let Destination::Client(request) = &ticket.destination {
        let client = clients::store::find(&app.core.pool, &request.client_id).await?;
        check_still_allowed(client.as_ref(), request)?;
    }
    Ok((ticket, browser))
}

/// Checks the client again, because it may have been changed while its form was open.
fn check_still_allowed(client: Option<&Client>, request: &LoginRequest) -> Result<(), Misaddressed> {
    let client = client.ok_or(Misaddressed::UnknownClient)?;
    if !client.enabled {
        return Err(Misaddressed::DisabledClient);
    }
    if client.allows_redirect(&request.target.redirect_uri) { Ok(()) } else { Err(Misaddressed::RedirectUri) }
}

pub(super) fn refuse(app: &App, target: &Target, refused: &Refused) -> Response {
    let outcome = [("error", refused.error), ("error_description", refused.description.as_str())];
    redirect(&target.answer(&app.realm.issuer, &outcome))
}

/// Redirects the browser.
pub(crate) fn redirect(location: &str) -> Response {
    let mut response = StatusCode::FOUND.into_response();
    pages::protect(&mut response);
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

/// Sets a header from encoded text. A text that is not a header value is a bug and turns the response into an error
/// page.
fn set_header(response: &mut Response, name: HeaderName, value: &str) {
    match HeaderValue::try_from(value) {
        Ok(value) => drop(response.headers_mut().insert(name, value)),
        Err(error) => *response = PageError::from(ApiError::internal(error)).into_response(),
    }
}
