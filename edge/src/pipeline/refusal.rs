//! Every reason for which the gateway rejects a request, and the only place that renders one: status, code, message,
//! details.

use std::borrow::Cow;

use bearer::Refused as BearerRefused;
use bytes::Bytes;
use contract::ErrorBody;
use contract::catalog::ModuleState;
use contract::envelope::code;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, UPGRADE, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::body::upload::ClientFault;
use crate::config::Service;
use crate::http::h1::{Fault, HeadError};
use crate::pipeline::path::BadPath;
use crate::response::body::EdgeBody;
use crate::upstream::client::TUNNELS_FULL;

/// Scope of the limit on one client's requests in progress.
pub(crate) const CONCURRENCY: &str = "concurrency";
/// Scope of the limit on one client's tunnels.
pub(crate) const TUNNELS: &str = "tunnels";

/// Why the gateway answers instead of an upstream.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The head is malformed or did not arrive in full.
    Head(HeadError),
    /// The header block, or the number of headers, exceeds its limit.
    HeadersTooLarge,
    /// Path and query exceed their limit.
    UriTooLong,
    /// Missing, duplicate or malformed `Host`.
    Host(&'static str),
    /// The host is not one of the platform's own.
    Misdirected,
    /// A header claims an identity.
    IdentityHeader(String),
    /// A header that would act as framing, or that `Connection` removes, in a way no honest client writes.
    Misleading(&'static str),
    /// The client expects something other than a 100.
    Expectation,
    /// Extended CONNECT to a protocol that is not allowed.
    Protocol,
    /// Extended CONNECT to an upstream, or to a route of the gateway itself, that does not speak the protocol.
    NoTunnel,
    /// More requests than the rate allows.
    RateLimited { scope: &'static str, retry_after: u64 },
    /// The path is malformed, ambiguous, or nested too deep.
    Path(BadPath),
    /// No route matches the path.
    NotFound,
    /// A route matches the path, but not the method.
    MethodNotAllowed { label: Option<&'static str>, allow: String },
    /// The bearer is missing or invalid.
    Bearer(BearerRefused),
    /// A service whose consent is needed cannot answer.
    Unavailable { dependency: Service, reason: &'static str },
    /// A guard or the catalog denied the request.
    Denied(Denial),
    /// No catalog snapshot has arrived yet.
    NoCatalog,
    /// The client's body is too large, malformed, stalled or too slow.
    Body { fault: ClientFault, limit: Option<usize> },
    /// The module cannot be reached or does not answer.
    ModuleUnavailable { key: String, reason: &'static str },
    /// The gateway broke one of its own rules.
    Internal(&'static str),
}

/// Which guard or catalog rule denied the request.
#[derive(Debug)]
pub(crate) enum Denial {
    /// The platform role is not held, or an earlier step of that decision failed.
    NotSuperadmin { reason: String, evidence: Value },
    /// Another guard of the gateway denied it.
    Forbidden { reason: String },
    /// The module's catalog state does not allow requests.
    Gate { key: String, state: ModuleState, missing: Vec<String> },
    /// Apps are registered, not proxied.
    AppIsNotProxied { key: String },
}

/// The message when no more tunnels can be opened.
const ALL_TUNNELS: &str = "All tunnels of the gateway are in use.";

/// The parts of an error answer.
struct ErrorParts {
    status: StatusCode,
    code: &'static str,
    message: &'static str,
    details: Value,
}

impl Refusal {
    /// The pattern that matched before the refusal, if any.
    pub(crate) const fn label(&self) -> Option<&'static str> {
        if let Self::MethodNotAllowed { label, .. } = self { *label } else { None }
    }

    /// A stable word for the access log; for a denial, the decision's own reason.
    pub(crate) fn reason(&self) -> Cow<'static, str> {
        if let Self::Denied(Denial::NotSuperadmin { reason, .. } | Denial::Forbidden { reason }) = self {
            Cow::Owned(reason.clone())
        } else {
            Cow::Borrowed(self.kind())
        }
    }

    /// A stable word for the metrics, from a fixed set so that clients cannot create series.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::HeadersTooLarge | Self::Head(HeadError::Fault(Fault::HeadTooLarge)) => "headers_too_large",
            Self::UriTooLong | Self::Head(HeadError::Fault(Fault::UriTooLong)) => "uri_too_long",
            Self::Head(HeadError::Fault(Fault::Malformed(_))) => "malformed_request",
            Self::Head(HeadError::Fault(Fault::Version)) => "http_version",
            Self::Head(HeadError::Late) => "head_timeout",
            Self::Host(_) => "bad_host",
            Self::Misdirected => "misdirected",
            Self::IdentityHeader(_) => "identity_header",
            Self::Misleading(_) => "misleading_header",
            Self::Expectation => "unknown_expectation",
            Self::Protocol => "unknown_protocol",
            Self::NoTunnel => "no_tunnel",
            Self::RateLimited { .. } => "rate_limited",
            Self::Path(_) => "bad_path",
            Self::NotFound => "no_route",
            Self::MethodNotAllowed { .. } => "no_method",
            Self::Bearer(BearerRefused::Missing) => "token_missing",
            Self::Bearer(BearerRefused::Invalid(_)) => "token_invalid",
            Self::Bearer(BearerRefused::Ambiguous) => "token_ambiguous",
            Self::Bearer(BearerRefused::KeysUnavailable) => "no_signing_keys",
            Self::Unavailable { reason, .. }
            | Self::ModuleUnavailable { reason, .. }
            | Self::Internal(reason) => reason,
            Self::Denied(Denial::NotSuperadmin { .. }) => "not_superadmin",
            Self::Denied(Denial::Forbidden { .. }) => "forbidden",
            Self::Denied(Denial::Gate { .. }) => "catalog_gate",
            Self::Denied(Denial::AppIsNotProxied { .. }) => "app_is_not_proxied",
            Self::NoCatalog => "no_catalog",
            Self::Body { .. } => "client_body",
        }
    }

    /// Renders the answer.
    pub(crate) fn render(self) -> Response<EdgeBody> {
        let header = self.header();
        let ErrorParts { status, code, message, details } = self.parts();
        let body = ErrorBody::new(code, message, details).to_bytes();
        let mut response = Response::new(EdgeBody::full(Bytes::from(body)));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some((name, value)) = header {
            if name == UPGRADE {
                // A sender of `Upgrade` also lists it in `Connection` (RFC 9110, 7.8).
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
            }
            response.headers_mut().insert(name, value);
        }
        response
    }

    fn header(&self) -> Option<(http::HeaderName, HeaderValue)> {
        if let Self::MethodNotAllowed { allow, .. } = self {
            return Some((ALLOW, HeaderValue::from_str(allow).ok()?));
        }
        if let Self::RateLimited { retry_after, .. } = self {
            return Some((RETRY_AFTER, HeaderValue::from(*retry_after)));
        }
        if matches!(self, Self::Head(HeadError::Fault(Fault::Version))) {
            return Some((UPGRADE, HeaderValue::from_static("HTTP/1.1")));
        }
        let challenge = matches!(self, Self::Bearer(BearerRefused::Missing | BearerRefused::Invalid(_)));
        challenge.then(|| (WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")))
    }

    fn parts(self) -> ErrorParts {
        match self {
            Self::Head(error) => ErrorParts::of_head(error),
            Self::HeadersTooLarge => ErrorParts::of_head(HeadError::Fault(Fault::HeadTooLarge)),
            Self::UriTooLong => ErrorParts::of_head(HeadError::Fault(Fault::UriTooLong)),
            Self::Host(message) => ErrorParts::bad_request(message, json!({"header": "host"})),
            Self::Misdirected => ErrorParts::bare(
                StatusCode::MISDIRECTED_REQUEST,
                code::MISDIRECTED_REQUEST,
                "The host is not one of the platform's own.",
            ),
            Self::IdentityHeader(name) => ErrorParts::bad_request(
                "Headers that claim an identity are refused.",
                json!({ "header": name }),
            ),
            Self::Misleading(message) => ErrorParts::bad_request(message, Value::Null),
            Self::Expectation => ErrorParts::bare(
                StatusCode::EXPECTATION_FAILED,
                code::EXPECTATION_FAILED,
                "The only supported expectation is 100-continue.",
            ),
            Self::Protocol => ErrorParts::not_implemented("The protocol cannot be tunnelled."),
            Self::NoTunnel => ErrorParts::not_implemented("The protocol is not supported here."),
            Self::RateLimited { scope, retry_after } => ErrorParts {
                status: StatusCode::TOO_MANY_REQUESTS,
                code: code::RATE_LIMITED,
                message: too_many(scope),
                details: json!({"scope": scope, "retryAfterSeconds": retry_after}),
            },
            Self::Path(bad) => ErrorParts::of_path(bad),
            Self::NotFound => {
                ErrorParts::bare(StatusCode::NOT_FOUND, code::NOT_FOUND, "There is nothing here.")
            }
            Self::MethodNotAllowed { allow, .. } => ErrorParts {
                status: StatusCode::METHOD_NOT_ALLOWED,
                code: code::METHOD_NOT_ALLOWED,
                message: "The method is not allowed here.",
                details: json!({ "allow": allow }),
            },
            Self::Bearer(refused) => ErrorParts::of_bearer(&refused),
            Self::Unavailable { dependency, reason } => ErrorParts::unavailable(dependency, reason),
            Self::Body { fault, limit } => ErrorParts::of_body(fault, limit),
            Self::ModuleUnavailable { key, reason } => {
                let details = json!({"moduleKey": key, "reason": reason});
                let message = if reason == TUNNELS_FULL { ALL_TUNNELS } else { "The module cannot answer." };
                ErrorParts::module_unavailable(message, details)
            }
            Self::NoCatalog => {
                let details = json!({"reason": "no_catalog"});
                ErrorParts::module_unavailable("The catalog of modules is not known yet.", details)
            }
            Self::Internal(_) => ErrorParts::bare(
                StatusCode::INTERNAL_SERVER_ERROR,
                code::INTERNAL_ERROR,
                "The request could not be handled.",
            ),
            Self::Denied(denial) => denial.parts(),
        }
    }
}

impl Denial {
    fn parts(self) -> ErrorParts {
        match self {
            Self::NotSuperadmin { reason, evidence } => {
                let role = reason == code::PLATFORM_ROLE_REQUIRED;
                let code = if role { code::PLATFORM_ROLE_REQUIRED } else { code::AUTHORIZATION_DENIED };
                let details = json!({"reason": reason, "evidence": evidence});
                ErrorParts::forbidden(code, "The platform superadmin role is required.", details)
            }
            Self::Forbidden { reason } => ErrorParts::forbidden(
                code::FORBIDDEN,
                "The caller may not do this.",
                json!({ "reason": reason }),
            ),
            Self::Gate { key, state, missing } => {
                let code = gate_code(state);
                let details = json!({"reason": code, "moduleKey": key, "missingDependencies": missing});
                ErrorParts::forbidden(code, "The module cannot be used.", details)
            }
            Self::AppIsNotProxied { key } => ErrorParts {
                status: StatusCode::NOT_FOUND,
                code: code::NOT_FOUND,
                message: "Apps are not reached through the platform.",
                details: json!({"reason": "APP_IS_NOT_PROXIED", "moduleKey": key}),
            },
        }
    }
}

/// The message for an exceeded limit.
fn too_many(scope: &str) -> &'static str {
    match scope {
        CONCURRENCY => "This client has as many requests in progress as it may have.",
        TUNNELS => "This client has as many tunnels open as it may have.",
        _ => "There were too many requests.",
    }
}

const fn gate_code(state: ModuleState) -> &'static str {
    match state {
        ModuleState::ModuleDisabled => code::MODULE_DISABLED,
        ModuleState::ModuleDependencyMissing => code::MODULE_DEPENDENCY_MISSING,
        // `Ok` never refuses; should it get here, "not installed" is the strictest answer.
        ModuleState::ModuleNotInstalled | ModuleState::Ok => code::MODULE_NOT_INSTALLED,
    }
}

impl ErrorParts {
    const fn bare(status: StatusCode, code: &'static str, message: &'static str) -> Self {
        Self { status, code, message, details: Value::Null }
    }

    const fn bad_request(message: &'static str, details: Value) -> Self {
        Self { status: StatusCode::BAD_REQUEST, code: code::BAD_REQUEST, message, details }
    }

    const fn late(message: &'static str) -> Self {
        Self::bare(StatusCode::REQUEST_TIMEOUT, code::REQUEST_TIMEOUT, message)
    }

    const fn not_implemented(message: &'static str) -> Self {
        Self::bare(StatusCode::NOT_IMPLEMENTED, code::NOT_IMPLEMENTED, message)
    }

    const fn forbidden(code: &'static str, message: &'static str, details: Value) -> Self {
        Self { status: StatusCode::FORBIDDEN, code, message, details }
    }

    fn of_bearer(refused: &BearerRefused) -> Self {
        match refused {
            BearerRefused::Missing => {
                Self::bare(StatusCode::UNAUTHORIZED, code::AUTH_TOKEN_MISSING, "A bearer token is required.")
            }
            // The one reason that the token's holder can fix, and that an attacker can read in the token itself.
            BearerRefused::Invalid(bearer::EXPIRED) => Self::bare(
                StatusCode::UNAUTHORIZED,
                code::AUTH_TOKEN_INVALID,
                "The bearer token has expired: get a new one and send the request again.",
            ),
            BearerRefused::Invalid(_) => Self::bare(
                StatusCode::UNAUTHORIZED,
                code::AUTH_TOKEN_INVALID,
                "The bearer token is not valid.",
            ),
            BearerRefused::Ambiguous => Self::bad_request(
                "There is more than one Authorization header.",
                json!({"header": "authorization"}),
            ),
            BearerRefused::KeysUnavailable => Self::unavailable(Service::Idp, "no_signing_keys"),
        }
    }

    fn of_head(error: HeadError) -> Self {
        match error {
            HeadError::Fault(Fault::HeadTooLarge) => Self::bare(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                code::HEADERS_TOO_LARGE,
                "The headers are too large.",
            ),
            HeadError::Fault(Fault::UriTooLong) => {
                Self::bare(StatusCode::URI_TOO_LONG, code::URI_TOO_LONG, "The path and query are too long.")
            }
            HeadError::Fault(Fault::Version) => Self::bare(
                StatusCode::UPGRADE_REQUIRED,
                code::UPGRADE_REQUIRED,
                "HTTP/1.1 or HTTP/2 is required.",
            ),
            HeadError::Fault(Fault::Malformed(message)) => Self::bad_request(message, Value::Null),
            HeadError::Late => Self::late("The request's head did not arrive in time."),
        }
    }

    const fn of_path(bad: BadPath) -> Self {
        let message = match bad {
            BadPath::Malformed => "The path is not well formed.",
            BadPath::TwoReadings => "The path can be read in two ways.",
            BadPath::TooNested => "The path's escapes are nested too deeply.",
        };
        Self::bad_request(message, Value::Null)
    }

    fn unavailable(dependency: Service, reason: &'static str) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            code: code::AUTHORIZATION_UNAVAILABLE,
            message: if reason == TUNNELS_FULL {
                ALL_TUNNELS
            } else {
                "A part of the platform cannot answer."
            },
            details: json!({"dependency": dependency.name(), "reason": reason}),
        }
    }

    const fn module_unavailable(message: &'static str, details: Value) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, code: code::MODULE_UNAVAILABLE, message, details }
    }

    fn of_body(fault: ClientFault, limit: Option<usize>) -> Self {
        match fault {
            ClientFault::TooLarge => Self {
                status: StatusCode::PAYLOAD_TOO_LARGE,
                code: code::PAYLOAD_TOO_LARGE,
                message: "The body is too large.",
                details: json!({ "limitBytes": limit }),
            },
            ClientFault::TrailersTooLarge => Self::of_head(HeadError::Fault(Fault::HeadTooLarge)),
            ClientFault::IdentityTrailer => {
                Self::bad_request("Trailers that claim an identity are refused.", Value::Null)
            }
            ClientFault::Broken => Self::bad_request("The body broke off or is malformed.", Value::Null),
            ClientFault::Stalled => Self::late("The body stopped arriving."),
            ClientFault::TooSlow { least } => Self {
                details: json!({ "leastBytesPerSecond": least }),
                ..Self::late("The body arrived below the minimum rate.")
            },
        }
    }
}
