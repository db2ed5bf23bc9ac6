//! The production requirements on an identity provider: tested with the built-in provider under `cargo test`, and with
//! a real Keycloak when `tests/keycloak/run` provides one (`E2E_PROVIDER=keycloak`). The scenes and their order are the
//! same; only an administrator's changes of accounts and keys differ by provider (`operator.rs`).

mod accounts;
mod browser;
mod keys;
mod logins;
mod operator;
mod reconcile;
mod services;

use std::future::Future;
use std::time::Instant;

use serde_json::Value;

use crate::harness::client::Version;
use crate::harness::login::{claims, subject};
use crate::harness::process::port_offset;
use crate::harness::{Api, Together, eventually};
use crate::tour::{create_company, create_member, link};
use browser::Browser;
use operator::Operator;

/// The service client of the suite, and its secret.
const SERVICE_CLIENT: &str = "crm-backend";
const SERVICE_SECRET: &str = "a secret of the suite";
/// A client that is declared after its app is registered, and its secret.
const LATE_CLIENT: &str = "late-backend";
const LATE_SECRET: &str = "another secret of the suite";
/// Longest time between issuing a token and its response.
const SLOWEST_ANSWER_S: i64 = 5;
/// The first reconcile runs concurrently with the start; afterwards logins work.
const RECONCILED: std::time::Duration = std::time::Duration::from_mins(1);

/// A platform with the provider under test.
struct Suite {
    platform: Together,
    operator: Operator,
    company: String,
}

#[tokio::test]
async fn every_rule_of_authentication_holds_at_this_provider() {
    let begun = Instant::now();
    let mut suite = Suite::start().await;
    println!("provider suite at {}: started in {:?}", suite.operator.version(), begun.elapsed());
    scene("discovery and signing keys", logins::documents(&suite)).await;
    scene("login form", logins::form(&suite)).await;
    scene("PKCE with S256 is required", logins::pkce(&suite)).await;
    scene("unregistered redirects are refused", logins::redirects(&suite)).await;
    scene("refresh, and reuse refused", logins::refresh(&suite)).await;
    scene("a browser stays signed in", logins::sessions(&suite)).await;
    scene("logout", logins::logout(&suite)).await;
    scene("client credentials", services::client_credentials(&suite)).await;
    scene("only a service account is an app's backend", services::impostors(&suite)).await;
    scene("administration is unreachable", services::administration(&suite)).await;
    scene("keys rotate while serving", keys::rotation(&suite)).await;
    scene("a disabled account", accounts::disabled(&suite)).await;
    scene("a deleted account", accounts::deleted(&suite)).await;
    scene("reconcile at every start", reconcile::at_every_start(&mut suite)).await;
    println!("provider suite: all scenes in {:?}", begun.elapsed());
}

async fn scene(name: &str, running: impl Future<Output = ()>) {
    let begun = Instant::now();
    running.await;
    println!("  {name}: {:.1} s", begun.elapsed().as_secs_f64());
}

impl Suite {
    /// The platform at the provider, a company, and alice as its member.
    async fn start() -> Self {
        let (offset, variables) = operator::environment();
        let mut all = vec![
            ("PLATFORM_SERVICE_CLIENTS", SERVICE_CLIENT),
            ("PLATFORM_SERVICE_CLIENT_SECRET_CRM_BACKEND", SERVICE_SECRET),
            ("PLATFORM_SERVICE_CLIENT_SECRET_LATE_BACKEND", LATE_SECRET),
            ("PLATFORM_SUPERADMINS", "admin"),
        ];
        all.extend(variables.iter().map(|(name, value)| (*name, value.as_str())));
        let platform = Together::start_with("provider", offset.unwrap_or_else(port_offset), &all);
        let operator = Operator::of(&platform);
        let mut suite = Self { platform, operator, company: String::new() };
        suite.logins_work().await;
        let admin = suite.admin().await;
        suite.company = create_company(&admin, "ACME").await;
        suite.member("alice").await;
        suite
    }

    /// Waits until the front end's client exists and the provider, which may just have started, is warm.
    async fn logins_work(&self) {
        eventually("a login works", RECONCILED, || async {
            let browser = self.browser();
            let page = browser.authorize(&[]).await;
            if page.status != 200 {
                return Err(format!("{} {}", page.status, page.text));
            }
            let sent = browser.submit(&page, "bob", "bob").await;
            if sent.status == 302 { Ok(()) } else { Err(format!("{} {}", sent.status, sent.text)) }
        })
        .await;
    }

    fn browser(&self) -> Browser {
        Browser::at(&self.platform)
    }

    fn api(&self) -> Api {
        self.platform.api(Version::Http2)
    }

    async fn admin(&self) -> Api {
        self.api().with_token(&access(&self.browser().login("admin").await))
    }

    /// Makes a user a member of the company; returns the user's API client and subject.
    async fn member(&self, user: &str) -> (Api, String) {
        let token = access(&self.browser().login(user).await);
        let api = self.api().with_token(&token);
        api.get("/api/org/me/companies").await.data(200);
        let subject = subject(&token);
        let admin = self.admin().await;
        let member = create_member(&admin, &self.company, user).await;
        link(&admin, &member, &subject).await;
        (api, subject)
    }
}

/// The access token in a token response.
fn access(tokens: &Value) -> String {
    tokens["access_token"].as_str().expect("an access token").to_owned()
}

/// Whether the audience contains the platform; it is a text or a list.
fn is_for_the_platform(claims: &Value) -> bool {
    let audience = &claims["aud"];
    audience == "platform-api"
        || audience.as_array().is_some_and(|all| all.iter().any(|one| one == "platform-api"))
}

/// Checks that an access token lasts `seconds`. The response holds the remaining lifetime, which a provider may compute
/// anew from its clock when it responds.
fn lasts(tokens: &Value, seconds: i64) {
    let said = claims(&access(tokens));
    assert_eq!(said["exp"].as_i64(), said["iat"].as_i64().map(|at| at + seconds));
    let left = tokens["expires_in"].as_i64().expect("a number");
    assert!((seconds - SLOWEST_ANSWER_S..=seconds).contains(&left), "{left} of {seconds}");
}
