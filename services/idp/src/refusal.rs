//! All refusals of the provider and their rendering, in Keycloak's three formats: OAuth errors on the token route, HTML
//! for pages, and one `error` member for administration.

use std::borrow::Cow;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, PRAGMA, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde_json::json;
use service::ApiError;

use crate::form::FormProblem;
use crate::keys::rules::KeyError;
use crate::pages::texts::Texts;
use crate::users::passwords::HashingError;

/// `{"error": …, "error_description": …}`.
#[derive(Debug)]
pub(crate) struct OauthError {
    status: StatusCode,
    error: &'static str,
    description: Cow<'static, str>,
    /// `WWW-Authenticate`.
    challenge: Option<String>,
}

impl OauthError {
    pub(crate) fn new(
        status: StatusCode,
        error: &'static str,
        description: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, error, description: description.into(), challenge: None }
    }

    /// 400 `invalid_request`.
    pub(crate) fn invalid_request(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", description)
    }

    /// 400 `invalid_grant`.
    pub(crate) fn invalid_grant(description: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_grant", description)
    }

    /// Adds the challenge for a client that used `Authorization: Basic`.
    pub(crate) fn challenged(mut self, realm: &str) -> Self {
        self.challenge = Some(format!("Basic realm=\"{realm}\""));
        self
    }

    /// Adds the challenge for a missing or refused bearer token, to 400, 401 and 403 only.
    pub(crate) fn bearer_challenged(mut self, realm: &str) -> Self {
        if matches!(self.status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let (error, description) = (self.error, &self.description);
            let challenge =
                format!("Bearer realm=\"{realm}\", error=\"{error}\", error_description=\"{description}\"");
            self.challenge = Some(challenge);
        }
        self
    }
}

impl IntoResponse for OauthError {
    fn into_response(self) -> Response {
        let body = json!({ "error": self.error, "error_description": self.description });
        let mut response = (self.status, Json(body)).into_response();
        never_stored(&mut response);
        let challenge = self.challenge.map(HeaderValue::try_from);
        if let Some(Ok(challenge)) = challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl From<ApiError> for OauthError {
    fn from(error: ApiError) -> Self {
        if is_outage(&error) {
            let description = "the provider cannot answer now";
            return Self::new(StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable", description);
        }
        tracing::error!(cause = %cause_of(&error), "a token request failed with an internal error");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "unknown_error", "an internal error")
    }
}

impl From<sqlx::Error> for OauthError {
    fn from(error: sqlx::Error) -> Self {
        ApiError::from(error).into()
    }
}

impl From<FormProblem> for OauthError {
    fn from(problem: FormProblem) -> Self {
        Self::new(form_status(problem), "invalid_request", problem.to_string())
    }
}

/// An error page that says why a login cannot continue. It never redirects.
#[derive(Debug)]
pub(crate) struct PageError {
    status: StatusCode,
    message: PageMessage,
}

/// The message of an error page; [`errors`](crate::pages::errors) writes it in the language of the request.
#[derive(Clone, Debug)]
pub(crate) enum PageMessage {
    /// One of the pages' own texts.
    Known(fn(&Texts) -> &'static str),
    /// A fault in the client's request, in Keycloak's words.
    Technical(Cow<'static, str>),
}

impl PageMessage {
    /// The message in a language.
    pub(crate) fn text(&self, texts: &Texts) -> Cow<'static, str> {
        match self {
            Self::Known(text) => Cow::Borrowed(text(texts)),
            Self::Technical(text) => text.clone(),
        }
    }
}

impl PageError {
    /// 400, in Keycloak's words.
    pub(crate) fn bad(message: impl Into<Cow<'static, str>>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, message: PageMessage::Technical(message.into()) }
    }

    /// 400, in the words of the pages.
    pub(crate) fn unfit(text: fn(&Texts) -> &'static str) -> Self {
        Self::known(StatusCode::BAD_REQUEST, text)
    }

    /// 403: a form that did not come from the account's own page.
    pub(crate) fn foreign_form() -> Self {
        Self::known(StatusCode::FORBIDDEN, |texts| texts.foreign_form)
    }

    /// 503: too many logins at once.
    pub(crate) fn busy() -> Self {
        Self::known(StatusCode::SERVICE_UNAVAILABLE, |texts| texts.busy)
    }

    fn known(status: StatusCode, text: fn(&Texts) -> &'static str) -> Self {
        Self { status, message: PageMessage::Known(text) }
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self.message);
        response
    }
}

impl From<ApiError> for PageError {
    fn from(error: ApiError) -> Self {
        if is_outage(&error) {
            return Self::known(StatusCode::SERVICE_UNAVAILABLE, |texts| texts.outage);
        }
        tracing::error!(cause = %cause_of(&error), "a login failed with an internal error");
        Self::known(StatusCode::INTERNAL_SERVER_ERROR, |texts| texts.internal)
    }
}

impl From<sqlx::Error> for PageError {
    fn from(error: sqlx::Error) -> Self {
        ApiError::from(error).into()
    }
}

impl From<KeyError> for PageError {
    fn from(error: KeyError) -> Self {
        ApiError::from(error).into()
    }
}

impl From<HashingError> for PageError {
    fn from(error: HashingError) -> Self {
        if matches!(error, HashingError::Busy) { Self::busy() } else { ApiError::internal(error).into() }
    }
}

impl From<FormProblem> for PageError {
    fn from(problem: FormProblem) -> Self {
        let message = PageMessage::Technical(format!("Invalid request: {problem}.").into());
        Self { status: form_status(problem), message }
    }
}

/// `{"error": …}` of the realm's documents and of administration.
#[derive(Debug)]
pub(crate) struct AdminError {
    status: StatusCode,
    error: Cow<'static, str>,
    /// The wrong member of the body; such errors have Keycloak's other format, `errorMessage`.
    field: Option<&'static str>,
}

impl AdminError {
    pub(crate) fn new(status: StatusCode, error: impl Into<Cow<'static, str>>) -> Self {
        Self { status, error: error.into(), field: None }
    }

    /// 400.
    pub(crate) fn bad(error: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// An error about a member of the body.
    pub(crate) fn of_field(
        status: StatusCode,
        field: &'static str,
        error: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, error: error.into(), field: Some(field) }
    }

    /// 401: no valid token of this provider.
    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "HTTP 401 Unauthorized")
    }

    /// 403: not the administration client's token.
    pub(crate) fn forbidden() -> Self {
        Self::new(StatusCode::FORBIDDEN, "HTTP 403 Forbidden")
    }

    /// Whether it is a 403.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.status == StatusCode::FORBIDDEN
    }

    /// 404.
    pub(crate) fn user_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "User not found")
    }

    /// 404: the path names another realm.
    pub(crate) fn no_such_realm() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Realm does not exist")
    }
}

impl IntoResponse for AdminError {
    fn into_response(self) -> Response {
        let body = match self.field {
            None => json!({ "error": self.error }),
            Some(field) => json!({ "field": field, "errorMessage": self.error, "params": [field] }),
        };
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<ApiError> for AdminError {
    fn from(error: ApiError) -> Self {
        if is_outage(&error) {
            return Self::new(StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable");
        }
        tracing::error!(cause = %cause_of(&error), "an administration request failed with an internal error");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "unknown_error")
    }
}

impl From<HashingError> for AdminError {
    fn from(error: HashingError) -> Self {
        if matches!(error, HashingError::Busy) {
            return Self::new(StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable");
        }
        ApiError::internal(error).into()
    }
}

impl From<sqlx::Error> for AdminError {
    fn from(error: sqlx::Error) -> Self {
        ApiError::from(error).into()
    }
}

impl From<FormProblem> for AdminError {
    fn from(problem: FormProblem) -> Self {
        Self::new(form_status(problem), problem.to_string())
    }
}

/// Keeps tokens and token errors out of caches (RFC 6749, section 5.1).
pub(crate) fn never_stored(response: &mut Response) {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(PRAGMA, HeaderValue::from_static("no-cache"));
}

const fn form_status(problem: FormProblem) -> StatusCode {
    match problem {
        FormProblem::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        FormProblem::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        FormProblem::Broken | FormProblem::Malformed | FormProblem::TooMany => StatusCode::BAD_REQUEST,
    }
}

const fn is_outage(error: &ApiError) -> bool {
    matches!(error, ApiError::Unavailable { .. })
}

fn cause_of(error: &ApiError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}
