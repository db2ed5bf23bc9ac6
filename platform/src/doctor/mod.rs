//! `platform doctor`: diagnoses mismatched issuer, domain, audience, redirect URIs, clock and certificate. It sends the
//! running platform and its identity provider only requests that their users send (documents, login pages, tokens),
//! compares the responses with the settings and prints a verdict on each. `ask.rs` sends the requests, `judge.rs`
//! compares (pure), and this file connects them. The doctor changes nothing; with the built-in provider and no service
//! client it logs one development user in.

mod ask;
mod endpoint;
mod judge;

use contract::{Clock, Settings};

use crate::console;
use crate::stop::Stop;
use ask::Asking;
use endpoint::Endpoint;
use judge::Finding;

/// Runs every check and prints a line for each. Exit code 1 if one of them fails.
pub(crate) async fn examine(settings: &Settings) -> Result<(), Stop> {
    let endpoint = Endpoint::of(settings)?;
    let asking = Asking::of(settings, &endpoint)?;
    let mut findings = vec![judge::domain(&endpoint)];
    findings.push(certificate(&asking, &endpoint).await);
    findings.extend(issuer(&asking, &endpoint).await);
    findings.push(redirects(&asking, &endpoint).await);
    findings.extend(tokens(&asking, settings, &endpoint).await);
    let wrong = findings.iter().filter(|finding| !finding.fits).count();
    for finding in &findings {
        console::result(&finding.to_string());
    }
    if wrong == 0 {
        return Ok(());
    }
    Err(Stop::Failed(format!("{wrong} of {} checks failed", findings.len())))
}

async fn certificate(asking: &Asking, endpoint: &Endpoint) -> Finding {
    match asking.certificate().await {
        Ok(leaf) => judge::certificate(endpoint, &leaf, Clock::system().now()),
        Err(problem) => Finding::wrong("certificate", judge::tls_problem(endpoint, &problem)),
    }
}

/// Checks `iss` in the settings, through the gateway and at the provider's internal address.
async fn issuer(asking: &Asking, endpoint: &Endpoint) -> Vec<Finding> {
    let mut findings = vec![judge::configured_issuer(endpoint)];
    let through_edge = asking.discovery(&endpoint.public_realm()).await;
    findings.push(judge::discovery(endpoint, "issuer through the edge", &endpoint.base_url, &through_edge));
    let inside = asking.discovery(&endpoint.internal_realm()).await;
    findings.push(judge::discovery(endpoint, "issuer at the provider", &endpoint.idp_url, &inside));
    findings.push(judge::signing_keys(&endpoint.jwks_url, &asking.json(&endpoint.jwks_url).await));
    findings
}

/// Checks that the provider accepts every redirect URI that must be registered, and none of [`Endpoint::strangers`].
async fn redirects(asking: &Asking, endpoint: &Endpoint) -> Finding {
    let mut seen = Vec::new();
    for address in endpoint.registered.iter().chain(&endpoint.strangers) {
        seen.push((address.clone(), asking.login_page(&endpoint.public_realm(), address).await));
    }
    judge::redirects(endpoint, &seen)
}

async fn tokens(asking: &Asking, settings: &Settings, endpoint: &Endpoint) -> Vec<Finding> {
    let admin = asking.admin_token(settings, endpoint).await;
    let begun = Clock::system().unix_seconds();
    let mut findings = vec![judge::administration(&admin)];
    let audience = asking.platform_token(settings, endpoint).await;
    findings.push(judge::audience(endpoint, &audience));
    let fresh = audience.as_ref().ok().or_else(|| admin.as_ref().ok());
    findings.push(judge::clock(fresh.map(|token| token.issued_at), begun));
    findings
}
