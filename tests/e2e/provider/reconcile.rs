//! The provider's settings follow the configuration at every start.

use super::operator::Kind;
use super::{LATE_CLIENT, LATE_SECRET, RECONCILED, SERVICE_CLIENT, SERVICE_SECRET, Suite, access, services};
use crate::harness::eventually;

/// An origin that exists only while it is configured.
const EXTRA: &str = "https://app.example.test";

/// Adds origins and removes service clients, then reverts both; a start without changes changes nothing at the
/// provider.
pub(super) async fn at_every_start(suite: &mut Suite) {
    let extra = format!("{EXTRA}/callback");
    assert_eq!(opens(suite, &extra).await, 400);
    assert_eq!(service_token(suite).await, 200);
    restart(suite, EXTRA, LATE_CLIENT);
    becomes(suite, "the extra address is registered", &extra, 200).await;
    let own = suite.browser().callback();
    assert_eq!(opens(suite, &own).await, 200, "the platform's own stays");
    eventually("a client that nobody declares is disabled", RECONCILED, || async {
        if service_token(suite).await == 200 { Err("a token".to_owned()) } else { Ok(()) }
    })
    .await;
    let membership = services::membership(suite).await;
    services::becomes_backend(&suite.api().with_token(&late_token(suite).await), &membership).await;

    restart(suite, "", SERVICE_CLIENT);
    becomes(suite, "the extra address is gone", &extra, 400).await;
    eventually("the client is back", RECONCILED, || async {
        if service_token(suite).await == 200 { Ok(()) } else { Err("no token".to_owned()) }
    })
    .await;

    // Changes are logged after all of them have been made.
    have_run(suite, 3).await;
    let before = told(suite);
    restart(suite, "", SERVICE_CLIENT);
    have_run(suite, 4).await;
    assert_eq!(told(suite), before, "changes without a difference:\n{}", suite.platform.log());
    suite.browser().login("alice").await;
}

fn restart(suite: &mut Suite, origins: &str, clients: &str) {
    suite.platform.stop();
    suite.platform.set("PLATFORM_EXTRA_ORIGINS", origins);
    suite.platform.set("PLATFORM_SERVICE_CLIENTS", clients);
    suite.platform.up();
}

/// Waits until Keycloak has been reconciled at this many starts; the built-in provider is ready after it.
async fn have_run(suite: &Suite, starts: usize) {
    if suite.operator.kind == Kind::Keycloak {
        eventually("the reconcile has run", RECONCILED, || async {
            let done = suite.platform.log().matches("the identity provider is as it should be").count();
            if done == starts { Ok(()) } else { Err(format!("{done} runs")) }
        })
        .await;
    }
}

async fn becomes(suite: &Suite, what: &str, address: &str, status: u16) {
    eventually(what, RECONCILED, || async {
        let found = opens(suite, address).await;
        if found == status { Ok(()) } else { Err(format!("{found}")) }
    })
    .await;
}

async fn opens(suite: &Suite, redirect: &str) -> u16 {
    suite.browser().authorize(&[("redirect_uri", redirect)]).await.status
}

/// The token of the client that was declared after its app was registered.
async fn late_token(suite: &Suite) -> String {
    let form =
        [("grant_type", "client_credentials"), ("client_id", LATE_CLIENT), ("client_secret", LATE_SECRET)];
    eventually("the late client is there", RECONCILED, || async {
        let answer = suite.browser().token(&form).await;
        if answer.status == 200 { Ok(()) } else { Err(answer.text) }
    })
    .await;
    access(&suite.browser().token(&form).await.json())
}

async fn service_token(suite: &Suite) -> u16 {
    let form = [
        ("grant_type", "client_credentials"),
        ("client_id", SERVICE_CLIENT),
        ("client_secret", SERVICE_SECRET),
    ];
    suite.browser().token(&form).await.status
}

/// Number of changes in the log.
fn told(suite: &Suite) -> usize {
    let log = suite.platform.log();
    log.lines()
        .filter(|line| {
            line.contains("reconciled the identity provider") || line.contains("client.reconciled")
        })
        .count()
}
