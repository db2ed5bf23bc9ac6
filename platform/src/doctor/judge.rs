//! Judges the responses: what is right, what is wrong and what to do about it. Pure.

use std::fmt;

use serde_json::Value;
use service::origins;
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::ask::Token;
use super::endpoint::Endpoint;

/// The leeway of every verifier. With clocks further apart, good tokens are refused or expired ones accepted.
const CLOCK_LEEWAY_SECONDS: i64 = 30;
/// A certificate that expires sooner has missed its renewal, which usually comes 30 days before expiry.
const CERTIFICATE_MARGIN: Duration = Duration::days(14);
/// Lifetime of access tokens (gateway document, "Authentication" 4); decisions rest on it.
const ACCESS_SECONDS: i64 = 300;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) fits: bool,
    what: &'static str,
    words: String,
}

impl Finding {
    pub(super) fn good(what: &'static str, words: impl Into<String>) -> Self {
        Self { fits: true, what, words: words.into() }
    }

    pub(super) fn wrong(what: &'static str, words: impl Into<String>) -> Self {
        Self { fits: false, what, words: words.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.fits { "fits " } else { "WRONG" };
        write!(f, "{verdict}  {}: {}", self.what, self.words)
    }
}

/// Whether the public address suits the provider.
pub(super) fn domain(endpoint: &Endpoint) -> Finding {
    const WHAT: &str = "domain";
    let public = origins::is_public(&endpoint.base_url);
    if public && endpoint.is_built_in && !endpoint.allows_built_in {
        return Finding::wrong(
            WHAT,
            format!(
                "{} is public and the identity provider is the built-in one: set PLATFORM_IDP_URL to a Keycloak",
                endpoint.base_url
            ),
        );
    }
    if !public && !endpoint.is_built_in {
        return Finding::good(
            WHAT,
            format!("{} (only this machine reaches it: PLATFORM_DOMAIN is not public)", endpoint.base_url),
        );
    }
    Finding::good(WHAT, &endpoint.base_url)
}

/// Whether separate services accept the issuer that follows from the public address.
pub(super) fn configured_issuer(endpoint: &Endpoint) -> Finding {
    const WHAT: &str = "IDP_ISSUER_URL";
    match &endpoint.configured_issuer {
        None => Finding::good(WHAT, format!("not set; `up` uses {}", endpoint.issuer)),
        Some(found) if *found == endpoint.issuer => Finding::good(WHAT, found),
        Some(found) => Finding::wrong(
            WHAT,
            format!(
                "is {found}, but PLATFORM_DOMAIN and PLATFORM_REALM make it {}: services refuse every token",
                endpoint.issuer
            ),
        ),
    }
}

/// Whether the discovery document at `asked` names the right issuer and sends browsers through the gateway.
pub(super) fn discovery(
    endpoint: &Endpoint,
    what: &'static str,
    asked: &str,
    document: &Result<Value, String>,
) -> Finding {
    let document = match document {
        Ok(document) => document,
        Err(problem) => {
            return Finding::wrong(what, format!("{asked} does not answer for the realm: {problem}"));
        }
    };
    let issuer = document.get("issuer").and_then(Value::as_str).unwrap_or_default();
    if issuer != endpoint.issuer {
        return Finding::wrong(
            what,
            format!(
                "the provider calls itself \"{issuer}\", but the platform expects {}: set the provider's public \
                 address (Keycloak: --hostname={}) or PLATFORM_DOMAIN",
                endpoint.issuer, endpoint.base_url
            ),
        );
    }
    let page = document.get("authorization_endpoint").and_then(Value::as_str).unwrap_or_default();
    if !page.starts_with(&format!("{}/", endpoint.base_url)) {
        return Finding::wrong(what, format!("sends browsers to {page}, not through {}", endpoint.base_url));
    }
    Finding::good(what, issuer)
}

/// Whether there is a key that tokens can be verified with.
pub(super) fn signing_keys(address: &str, document: &Result<Value, String>) -> Finding {
    const WHAT: &str = "signing keys";
    let document = match document {
        Ok(document) => document,
        Err(problem) => return Finding::wrong(WHAT, problem),
    };
    let text = |key: &Value, name: &str| key.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let usable = |key: &&Value| {
        text(key, "use") != "enc" && ["RS256", "PS256", "ES256"].contains(&text(key, "alg").as_str())
    };
    let keys = document.get("keys").and_then(Value::as_array);
    let count = keys.map(|keys| keys.iter().filter(usable).count()).unwrap_or_default();
    if count == 0 {
        return Finding::wrong(WHAT, format!("{address} has no key for RS256, PS256 or ES256"));
    }
    Finding::good(WHAT, format!("{count} at {address}"))
}

/// Whether exactly the login pages of registered redirect URIs answered 200.
pub(super) fn redirects(endpoint: &Endpoint, seen: &[(String, Result<u16, String>)]) -> Finding {
    const WHAT: &str = "redirect list";
    let mut wrong = Vec::new();
    for (address, answer) in seen {
        let wanted = endpoint.registered.contains(address);
        match answer {
            Err(problem) => return Finding::wrong(WHAT, format!("no login page: {problem}")),
            Ok(200) if wanted => {}
            Ok(200) => wrong.push(format!("{address} is accepted and must not be (a wildcard on platform-frontend?)")),
            Ok(status) if wanted => wrong.push(format!(
                "{address} is refused ({status}): was platform-frontend reconciled with this PLATFORM_DOMAIN and \
                 PLATFORM_EXTRA_ORIGINS?"
            )),
            Ok(_) => {}
        }
    }
    if wrong.is_empty() {
        return Finding::good(WHAT, format!("{}, and nothing else", endpoint.registered.join(", ")));
    }
    Finding::wrong(WHAT, wrong.join("; "))
}

/// Whether identity can ask the provider for account state.
pub(super) fn administration(token: &Result<Token, String>) -> Finding {
    const WHAT: &str = "administration client";
    match token {
        Ok(_) => Finding::good(WHAT, "the provider gives it a token"),
        Err(problem) => {
            Finding::wrong(WHAT, format!("{problem}; decisions stop after five minutes without it"))
        }
    }
}

/// Whether services accept a token that the provider issues for the platform.
pub(super) fn audience(endpoint: &Endpoint, token: &Result<Token, String>) -> Finding {
    const WHAT: &str = "audience";
    let token = match token {
        Ok(token) => token,
        Err(problem) => return Finding::wrong(WHAT, problem),
    };
    let is_ours = |one: &Value| *one == endpoint.audience.as_str();
    let holds =
        is_ours(&token.audience) || token.audience.as_array().is_some_and(|all| all.iter().any(is_ours));
    if !holds {
        return Finding::wrong(
            WHAT,
            format!(
                "tokens are for {}, and the platform wants {} among them: the client lacks the audience mapper, or \
                 IDP_AUDIENCE is not the provider's",
                token.audience, endpoint.audience
            ),
        );
    }
    if token.issuer != endpoint.issuer {
        return Finding::wrong(
            WHAT,
            format!("tokens are issued by {}, not by {}", token.issuer, endpoint.issuer),
        );
    }
    let lifetime = token.expires_at.saturating_sub(token.issued_at);
    if lifetime != ACCESS_SECONDS {
        return Finding::wrong(WHAT, format!("tokens live {lifetime} s and should live {ACCESS_SECONDS} s"));
    }
    Finding::good(WHAT, format!("tokens are for {} and live {lifetime} s", token.audience))
}

/// Whether this machine and the provider agree on the time, by the `iat` of a token fetched just now.
pub(super) fn clock(issued_at: Option<i64>, now: i64) -> Finding {
    const WHAT: &str = "clock";
    let Some(issued_at) = issued_at else {
        return Finding::wrong(WHAT, "cannot be compared without a token from the provider");
    };
    let ahead = issued_at.saturating_sub(now);
    if ahead.saturating_abs() <= CLOCK_LEEWAY_SECONDS {
        return Finding::good(
            WHAT,
            format!("the provider's is within {} s of this machine's", ahead.abs().max(1)),
        );
    }
    let (which, seconds) = if ahead > 0 { ("ahead of", ahead) } else { ("behind", -ahead) };
    Finding::wrong(
        WHAT,
        format!(
            "the provider's is {seconds} s {which} this machine's: good tokens are refused; run NTP on both"
        ),
    )
}

/// Whether a verified certificate stays valid long enough.
pub(super) fn certificate(endpoint: &Endpoint, leaf: &[u8], now: OffsetDateTime) -> Finding {
    const WHAT: &str = "certificate";
    let Ok((_, leaf)) = X509Certificate::from_der(leaf) else {
        return Finding::wrong(WHAT, "the gateway presents something that is not a certificate");
    };
    let end = leaf.validity().not_after.to_datetime();
    let days = (end - now).whole_days();
    if end - now < CERTIFICATE_MARGIN {
        return Finding::wrong(
            WHAT,
            format!("ends in {days} days ({}): renew PLATFORM_TLS_CERT", end.date()),
        );
    }
    Finding::good(WHAT, format!("trusted for {}, ends in {days} days", endpoint.base_url))
}

/// Explains why there is no trusted connection to the gateway.
pub(super) fn tls_problem(endpoint: &Endpoint, problem: &str) -> String {
    let known = [
        (
            "UnknownIssuer",
            "is signed by nobody whom this machine trusts: use the chain with its intermediate certificates, or trust the CA",
        ),
        (
            "BadSignature",
            "is signed by a CA other than certs/ca.pem of the data directory: run this in the folder that the platform was started in, or set PLATFORM_DATA_DIR",
        ),
        ("NotValidForName", "is not for this name: get one for PLATFORM_DOMAIN"),
        ("not valid for name", "is not for this name: get one for PLATFORM_DOMAIN"),
        ("Expired", "has expired: renew PLATFORM_TLS_CERT"),
        ("expired", "has expired: renew PLATFORM_TLS_CERT"),
        ("NotValidYet", "is not valid yet: is this machine's clock right?"),
        ("not valid yet", "is not valid yet: is this machine's clock right?"),
    ];
    match known.iter().find(|(sign, _)| problem.contains(sign)) {
        Some((_, words)) => format!("that of {} {words} ({problem})", endpoint.base_url),
        None => format!("{} cannot be reached: {problem}", endpoint.base_url),
    }
}
