//! Validates authorization requests and builds the address of the response. Pure. A request with an invalid client or
//! redirect URI is never redirected ([`Misaddressed`]); once both are valid, every refusal is ([`Refused`]).

use serde::{Deserialize, Serialize};

use crate::clients::rules::{Client, MAX_CLIENT_ID_BYTES, MAX_REDIRECT_URI_BYTES};
use crate::form::{Params, printable};
use crate::pages::lang::MAX_LOCALES_BYTES;
use crate::tokens::scope::Scope;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

/// Parameters that name the client and the redirect URI.
const ADDRESS: [&str; 2] = ["client_id", "redirect_uri"];
/// The other parameters read here, and the limits of their values in bytes.
const LIMITS: [(&str, usize); 14] = [
    ("response_type", 64),
    ("response_mode", 32),
    ("scope", 1_024),
    ("state", 2_048),
    ("nonce", 512),
    ("code_challenge", 128),
    ("code_challenge_method", 16),
    ("prompt", 64),
    ("max_age", 10),
    ("login_hint", 255),
    ("id_token_hint", MAX_HINT_BYTES),
    ("ui_locales", MAX_LOCALES_BYTES),
    ("request", 1),
    ("request_uri", 1),
];
/// Longest ID token that comes back; those of this provider have about 1 KiB.
const MAX_HINT_BYTES: usize = 8_192;
/// RFC 7636, section 4.1 and 4.2.
const PKCE_LENGTH: std::ops::RangeInclusive<usize> = 43..=128;

/// Why a request may not be answered by a redirect; the text is for the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Misaddressed {
    #[error("Missing parameters: client_id")]
    NoClient,
    #[error("Client not found.")]
    UnknownClient,
    #[error("Client disabled.")]
    DisabledClient,
    #[error("Invalid parameter: redirect_uri")]
    RedirectUri,
    #[error("Duplicated parameter: {0}")]
    Repeated(&'static str),
}

/// The client that sent the request.
pub(crate) fn client_id(params: &Params) -> Result<&str, Misaddressed> {
    if let Some(name) = ADDRESS.into_iter().find(|name| params.repeats_any(&[name])) {
        return Err(Misaddressed::Repeated(name));
    }
    if params.exceeds("client_id", MAX_CLIENT_ID_BYTES) {
        return Err(Misaddressed::UnknownClient);
    }
    params.get("client_id").ok_or(Misaddressed::NoClient)
}

/// Where the response goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) redirect_uri: String,
    mode: ResponseMode,
    state: Option<String>,
}

/// The part of the redirect URI that carries the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ResponseMode {
    Query,
    Fragment,
}

impl Target {
    /// Requires an enabled client and one of its registered redirect URIs.
    pub(crate) fn of(params: &Params, client: Option<&Client>) -> Result<Self, Misaddressed> {
        let client = client.ok_or(Misaddressed::UnknownClient)?;
        if !client.enabled {
            return Err(Misaddressed::DisabledClient);
        }
        let uri =
            params.get("redirect_uri").filter(|_| !params.exceeds("redirect_uri", MAX_REDIRECT_URI_BYTES));
        let uri = uri.filter(|uri| client.allows_redirect(uri)).ok_or(Misaddressed::RedirectUri)?;
        let mode = match params.get("response_mode") {
            Some("fragment") => ResponseMode::Fragment,
            _ => ResponseMode::Query,
        };
        // A state that `check_limits` refuses is not sent back.
        let state = params.get("state").filter(|state| is_state(state)).map(ToOwned::to_owned);
        Ok(Self { redirect_uri: uri.to_owned(), mode, state })
    }

    /// Builds the address that tells the client the outcome.
    pub(crate) fn answer(&self, issuer: &str, outcome: &[(&str, &str)]) -> String {
        let state = self.state.as_deref().map(|state| ("state", state));
        let pairs: Vec<_> = outcome.iter().copied().chain(state).chain([("iss", issuer)]).collect();
        let encoded = serde_urlencoded::to_string(pairs).unwrap_or_default();
        let mark = match self.mode {
            ResponseMode::Fragment => '#',
            ResponseMode::Query if self.redirect_uri.contains('?') => '&',
            ResponseMode::Query => '?',
        };
        format!("{}{mark}{encoded}", self.redirect_uri)
    }
}

/// A refusal that goes to the client by redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) error: &'static str,
    pub(crate) description: String,
}

impl Refused {
    fn new(error: &'static str, description: impl Into<String>) -> Self {
        Self { error, description: printable(&description.into()) }
    }

    /// A form may not be shown, and the browser has no session that is fresh enough.
    pub(super) fn login_required() -> Self {
        Self::new("login_required", "User not logged in")
    }

    /// Refuses an ID token that is not this provider's.
    pub(super) fn foreign_hint() -> Self {
        Self::invalid("Invalid parameter: id_token_hint")
    }

    fn invalid(description: impl Into<String>) -> Self {
        Self::new("invalid_request", description)
    }
}

/// An accepted request: the data that the login needs until the code is redeemed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginRequest {
    pub(crate) client_id: String,
    pub(crate) target: Target,
    pub(crate) scope: Scope,
    pub(crate) nonce: Option<String>,
    pub(crate) code_challenge: String,
    pub(crate) login_hint: Option<String>,
    /// The only user for whom the client takes a code (`id_token_hint`).
    pub(crate) subject: Option<Uuid>,
    pub(crate) ui_locales: Option<String>,
}

impl LoginRequest {
    /// Whether the client takes a code for this user.
    pub(super) fn admits(&self, user: Uuid) -> bool {
        self.subject.is_none_or(|subject| subject == user)
    }

    /// Checks everything but client and redirect URI, in Keycloak's order.
    pub(crate) fn accept(params: &Params, client: &Client, target: Target) -> Result<Self, Refused> {
        check_limits(params)?;
        check_response_type(params)?;
        let scope = Scope::parse(params.get("scope").unwrap_or_default())
            .ok_or_else(|| Refused::new("invalid_scope", scope_problem(params)))?;
        let code_challenge = code_challenge(params)?;
        Ok(Self {
            client_id: client.id.clone(),
            target,
            scope,
            nonce: params.get("nonce").map(ToOwned::to_owned),
            code_challenge,
            login_hint: params.get("login_hint").map(ToOwned::to_owned),
            subject: None,
            ui_locales: params.get("ui_locales").map(ToOwned::to_owned),
        })
    }
}

fn check_limits(params: &Params) -> Result<(), Refused> {
    for (name, unsupported) in
        [("request", "request_not_supported"), ("request_uri", "request_uri_not_supported")]
    {
        if params.get(name).is_some() {
            return Err(Refused::new(unsupported, format!("Unsupported parameter: {name}")));
        }
    }
    for (name, max) in LIMITS {
        if params.repeats_any(&[name]) {
            return Err(Refused::invalid("duplicated parameter"));
        }
        let printable = params.get(name).is_none_or(|value| !value.chars().any(char::is_control));
        if params.exceeds(name, max) || !printable {
            return Err(Refused::invalid(format!("Invalid parameter: {name}")));
        }
    }
    if params.get("state").is_some_and(|state| !is_state(state)) {
        return Err(Refused::invalid("Invalid parameter: state"));
    }
    Ok(())
}

fn check_response_type(params: &Params) -> Result<(), Refused> {
    match params.get("response_type") {
        None => return Err(Refused::invalid("Missing parameter: response_type")),
        Some("code") => {}
        Some(_) => return Err(Refused::new("unsupported_response_type", "Unsupported response_type")),
    }
    match params.get("response_mode") {
        None | Some("query" | "fragment") => Ok(()),
        Some(_) => Err(Refused::invalid("Invalid parameter: response_mode")),
    }
}

fn scope_problem(params: &Params) -> String {
    format!("Invalid scopes: {}", params.get("scope").unwrap_or_default())
}

/// Requires PKCE with S256 (RFC 7636): a leaked code is useless without its verifier.
fn code_challenge(params: &Params) -> Result<String, Refused> {
    match params.get("code_challenge_method") {
        None => return Err(Refused::invalid("Missing parameter: code_challenge_method")),
        Some("S256") => {}
        Some(_) => {
            let description = "Invalid parameter: code challenge method is not configured one";
            return Err(Refused::invalid(description));
        }
    }
    let challenge =
        params.get("code_challenge").ok_or_else(|| Refused::invalid("Missing parameter: code_challenge"))?;
    if is_pkce_text(challenge) {
        Ok(challenge.to_owned())
    } else {
        Err(Refused::invalid("Invalid parameter: code_challenge"))
    }
}

/// Whether the text is a well-formed verifier or challenge.
pub(crate) fn is_pkce_text(text: &str) -> bool {
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    PKCE_LENGTH.contains(&text.len()) && text.bytes().all(unreserved)
}

/// RFC 6749, appendix A.5: printable ASCII.
fn is_state(state: &str) -> bool {
    state.len() <= 2_048 && state.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
}

/// How recent the login must be, and whether a form may be shown: `prompt` and `max_age` of OpenID Connect Core,
/// section 3.1.2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Freshness {
    prompt: Prompt,
    max_age: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prompt {
    /// Show a form if needed.
    IfNeeded,
    /// Show no form: `none`.
    Never,
    /// Always show a form: `login` or `select_account`. `consent` has no effect, because there is nothing to consent
    /// to.
    Always,
}

impl Freshness {
    pub(super) fn of(params: &Params) -> Result<Self, Refused> {
        let words: Vec<&str> = params.get("prompt").unwrap_or_default().split_ascii_whitespace().collect();
        let prompt = match words.as_slice() {
            ["none"] => Prompt::Never,
            words if words.contains(&"none") => return Err(Refused::invalid("Invalid parameter: prompt")),
            words if words.contains(&"login") || words.contains(&"select_account") => Prompt::Always,
            _ => Prompt::IfNeeded,
        };
        let max_age = params.get("max_age").map(|seconds| {
            let seconds = seconds.parse::<u32>().map_err(|_| Refused::invalid("Invalid parameter: max_age"));
            seconds.map(|seconds| Duration::seconds(seconds.into()))
        });
        Ok(Self { prompt, max_age: max_age.transpose()? })
    }

    /// Whether a login at `authenticated_at` is recent enough.
    pub(super) fn admits(self, authenticated_at: OffsetDateTime, now: OffsetDateTime) -> bool {
        let young = |max: Duration| max.is_positive() && now - authenticated_at <= max;
        self.prompt != Prompt::Always && self.max_age.is_none_or(young)
    }

    /// Whether to refuse instead of showing a form if no login is recent enough.
    pub(super) fn forbids_a_form(self) -> bool {
        self.prompt == Prompt::Never
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::rules::ClientKind;

    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

    fn client() -> Client {
        Client {
            id: "platform-frontend".to_owned(),
            kind: ClientKind::Frontend,
            secret_tag: None,
            redirect_uris: vec!["https://app.test/callback".to_owned()],
            web_origins: Vec::new(),
            enabled: true,
        }
    }

    fn good() -> String {
        format!(
            "client_id=platform-frontend&redirect_uri=https://app.test/callback&response_type=code&\
             scope=openid&state=s&nonce=n&code_challenge={CHALLENGE}&code_challenge_method=S256"
        )
    }

    fn accept(query: &str) -> Result<LoginRequest, Refused> {
        let params = Params::of_query(Some(query)).expect("a query");
        let target = Target::of(&params, Some(&client())).expect("well addressed");
        LoginRequest::accept(&params, &client(), target)
    }

    #[test]
    fn a_whole_request_is_accepted() {
        let request = accept(&good()).expect("accepted");
        assert_eq!(request.code_challenge, CHALLENGE);
        assert_eq!(
            request.target.answer("https://i", &[("code", "c")]),
            "https://app.test/callback?code=c&state=s&iss=https%3A%2F%2Fi"
        );
        let fragment = accept(&format!("{}&response_mode=fragment", good())).expect("accepted");
        assert!(
            fragment.target.answer("i", &[("code", "c")]).starts_with("https://app.test/callback#code=c")
        );
    }

    #[test]
    fn each_refusal_is_told_with_its_name() {
        let without = |name: &str| {
            good()
                .split('&')
                .filter(|pair| !pair.starts_with(&format!("{name}=")))
                .collect::<Vec<_>>()
                .join("&")
        };
        let with = |name: &str, value: &str| format!("{}&{name}={value}", without(name));
        let cases = [
            (without("response_type"), "invalid_request", "Missing parameter: response_type"),
            (with("response_type", "token"), "unsupported_response_type", "Unsupported response_type"),
            (with("response_mode", "form_post"), "invalid_request", "Invalid parameter: response_mode"),
            (with("scope", "openid+x"), "invalid_scope", "Invalid scopes: openid x"),
            (with("scope", "%22x%5C%C3%A4"), "invalid_scope", "Invalid scopes: ?x??"),
            (without("code_challenge_method"), "invalid_request", "Missing parameter: code_challenge_method"),
            (
                with("code_challenge_method", "plain"),
                "invalid_request",
                "Invalid parameter: code challenge method is not configured one",
            ),
            (without("code_challenge"), "invalid_request", "Missing parameter: code_challenge"),
            (with("code_challenge", "short"), "invalid_request", "Invalid parameter: code_challenge"),
            (
                with("code_challenge", &"%2F".repeat(43)),
                "invalid_request",
                "Invalid parameter: code_challenge",
            ),
            (with("max_age", "12345678901"), "invalid_request", "Invalid parameter: max_age"),
            (format!("{}&nonce=again", good()), "invalid_request", "duplicated parameter"),
            (with("state", &"x".repeat(2_049)), "invalid_request", "Invalid parameter: state"),
            (with("state", "%C3%A4"), "invalid_request", "Invalid parameter: state"),
            (with("nonce", &"x".repeat(513)), "invalid_request", "Invalid parameter: nonce"),
            (with("nonce", "%0a"), "invalid_request", "Invalid parameter: nonce"),
            (with("request", "x"), "request_not_supported", "Unsupported parameter: request"),
        ];
        for (query, error, description) in cases {
            let refused = accept(&query).expect_err(&query);
            assert_eq!((refused.error, refused.description.as_str()), (error, description), "{query}");
        }
    }

    #[test]
    fn prompt_and_max_age_say_how_fresh_a_login_must_be() {
        let freshness = |query: &str| Freshness::of(&Params::of_query(Some(query)).expect("a query"));
        let now = OffsetDateTime::UNIX_EPOCH + Duration::hours(1);
        for (query, seconds_ago, admits, forbids_a_form) in [
            ("", 3_600, true, false),
            ("prompt=none", 3_600, true, true),
            ("prompt=login", 0, false, false),
            ("prompt=select_account+consent", 0, false, false),
            ("prompt=consent", 3_600, true, false),
            ("prompt=unknown", 3_600, true, false),
            ("max_age=60", 60, true, false),
            ("max_age=60", 61, false, false),
            ("max_age=60&prompt=none", 61, false, true),
            ("max_age=0", 0, false, false),
            ("max_age=4294967295", 3_600, true, false),
        ] {
            let freshness = freshness(query).expect(query);
            let found = freshness.admits(now - Duration::seconds(seconds_ago), now);
            assert_eq!(
                (found, freshness.forbids_a_form()),
                (admits, forbids_a_form),
                "{query} {seconds_ago}"
            );
        }
        for bad in ["prompt=none+login", "max_age=-1", "max_age=x", "max_age=1.5", "max_age=4294967296"] {
            assert_eq!(freshness(bad).expect_err(bad).error, "invalid_request", "{bad}");
        }
    }

    #[test]
    fn a_request_in_doubt_of_its_address_never_gets_a_target() {
        let of = |query: &str, client: Option<&Client>| {
            let params = Params::of_query(Some(query)).expect("a query");
            client_id(&params)?;
            Target::of(&params, client)
        };
        let disabled = Client { enabled: false, ..client() };
        for (query, client, expect) in [
            ("", None, Misaddressed::NoClient),
            ("client_id=a&client_id=b", None, Misaddressed::Repeated("client_id")),
            ("client_id=a&redirect_uri=x&redirect_uri=y", None, Misaddressed::Repeated("redirect_uri")),
            ("client_id=a", None, Misaddressed::UnknownClient),
            ("client_id=a", Some(&disabled), Misaddressed::DisabledClient),
            ("client_id=a", Some(&client()), Misaddressed::RedirectUri),
            ("client_id=a&redirect_uri=https://evil.test/", Some(&client()), Misaddressed::RedirectUri),
        ] {
            assert_eq!(of(query, client), Err(expect), "{query}");
        }
    }
}
