//! `platform doctor`: whether what has to fit together fits. It asks the running platform and its identity provider only
//! what their users ask (documents, login pages, tokens), compares the answers with the settings, and says of each thing
//! in words whether it fits. `ask.rs` asks, `judge.rs` compares (pure), this file goes from one to the other. It changes
//! nothing; with the built-in provider and no service client it logs one development user in.

mod ask;
mod judge;
mod place;

use contract::{Clock, Settings};

use crate::console;
use crate::stop::Stop;
use ask::Asking;
use judge::Finding;
use place::Place;

/// Looks at everything and prints a line for each. Exit code 1 when something does not fit.
pub(crate) async fn examine(settings: &Settings) -> Result<(), Stop> {
    let place = Place::of(settings)?;
    let asking = Asking::of(settings, &place)?;
    let mut findings = vec![judge::domain(&place)];
    findings.push(certificate(&asking, &place).await);
    findings.extend(issuer(&asking, &place).await);
    findings.push(redirects(&asking, &place).await);
    findings.extend(tokens(&asking, settings, &place).await);
    let wrong = findings.iter().filter(|finding| !finding.fits).count();
    for finding in &findings {
        console::result(&finding.to_string());
    }
    if wrong == 0 {
        return Ok(());
    }
    Err(Stop::Failed(format!("{wrong} of {} things do not fit", findings.len())))
}

async fn certificate(asking: &Asking, place: &Place) -> Finding {
    match asking.certificate().await {
        Ok(leaf) => judge::certificate(place, &leaf, Clock::system().now()),
        Err(problem) => Finding::wrong("certificate", judge::tls_problem(place, &problem)),
    }
}

/// `iss` as the settings have it, as the edge shows it, and as the provider says it at its internal address.
async fn issuer(asking: &Asking, place: &Place) -> Vec<Finding> {
    let mut findings = vec![judge::configured_issuer(place)];
    let through_edge = asking.discovery(&place.public_realm()).await;
    findings.push(judge::discovery(place, "issuer through the edge", &place.base_url, &through_edge));
    let inside = asking.discovery(&place.internal_realm()).await;
    findings.push(judge::discovery(place, "issuer at the provider", &place.idp_url, &inside));
    findings.push(judge::signing_keys(&place.jwks_url, &asking.json(&place.jwks_url).await));
    findings
}

/// Every address that must be registered is, and none that must not be.
async fn redirects(asking: &Asking, place: &Place) -> Finding {
    let mut seen = Vec::new();
    for address in place.registered.iter().chain(&place.strangers) {
        seen.push((address.clone(), asking.login_page(&place.public_realm(), address).await));
    }
    judge::redirects(place, &seen)
}

async fn tokens(asking: &Asking, settings: &Settings, place: &Place) -> Vec<Finding> {
    let admin = asking.admin_token(settings, place).await;
    let begun = Clock::system().unix_seconds();
    let mut findings = vec![judge::administration(&admin)];
    let audience = asking.platform_token(settings, place).await;
    findings.push(judge::audience(place, &audience));
    let fresh = audience.as_ref().ok().or(admin.as_ref().ok());
    findings.push(judge::clock(fresh.map(|token| token.issued_at), begun));
    findings
}
