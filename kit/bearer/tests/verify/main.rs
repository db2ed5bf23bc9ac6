//! Token verification from outside: valid and invalid tokens, and a provider whose key set appears, disappears, grows
//! and is wrong.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a broken premise fails the test that has it"
)]

mod keys;
mod provider;
mod tokens;
mod verified;

use bearer::{BearerConfig, Verifier};
use contract::{Clock, Settings};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::provider::Provider;

const ISSUER: &str = "https://localhost:8443/realms/platform";
/// The time of every test.
const NOW: i64 = 1_800_000_000;

/// A verifier on a standing clock; dropping the guard ends its background task.
fn verifier(provider: &Provider) -> (Verifier, DropGuard) {
    verifier_refreshing(provider, "10m")
}

fn verifier_refreshing(provider: &Provider, interval: &str) -> (Verifier, DropGuard) {
    verifier_at(&provider.url(), interval)
}

fn verifier_at(jwks_url: &str, interval: &str) -> (Verifier, DropGuard) {
    verifier_by(Clock::standing_at(NOW), jwks_url, interval)
}

fn verifier_by(clock: Clock, jwks_url: &str, interval: &str) -> (Verifier, DropGuard) {
    let settings = Settings::default()
        .with("IDP_JWKS_URL", jwks_url)
        .with("IDP_ISSUER_URL", ISSUER)
        .with("IDP_JWKS_REFRESH_INTERVAL", interval);
    let mut reader = settings.reader();
    let config = BearerConfig::read(&mut reader);
    let config = reader.finish(config).expect("good settings");
    let stop = CancellationToken::new();
    let verifier = Verifier::start(config, clock, stop.clone());
    (verifier, stop.drop_guard())
}
