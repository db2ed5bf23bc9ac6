//! Service clients, and the parts of the provider that must not be reachable through the gateway.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::operator::Kind;
use super::{LATE_CLIENT, SERVICE_CLIENT, SERVICE_SECRET, Suite, access};
use crate::harness::login::{claims, subject};
use crate::harness::{Api, eventually};

/// Registry asks every two seconds for an account that it does not know.
const LEARNED: Duration = Duration::from_secs(30);

/// A declared client gets tokens for the platform, whose `azp` identifies the backend's client.
pub(super) async fn client_credentials(suite: &Suite) {
    let browser = suite.browser();
    let ask = |secret: &'static str| {
        let browser = &browser;
        async move {
            let form = [
                ("grant_type", "client_credentials"),
                ("client_id", SERVICE_CLIENT),
                ("client_secret", secret),
            ];
            browser.token(&form).await
        }
    };
    ask("wrong secret").await.refused(&[401], "unauthorized_client");
    let answer = ask(SERVICE_SECRET).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let tokens = answer.json();
    super::lasts(&tokens, 300);
    assert!(tokens.get("refresh_token").is_none(), "a service has its secret instead: {tokens}");
    let token = access(&tokens);
    let said = claims(&token);
    assert_eq!(said["azp"], SERVICE_CLIENT);
    assert!(super::is_for_the_platform(&said), "{said}");
    as_an_apps_backend(suite, &token).await;
}

async fn as_an_apps_backend(suite: &Suite, token: &str) {
    let backend = suite.api().with_token(token);
    backend.get("/api/platform/catalog").await.data(200);
    let membership = membership(suite).await;
    backend.get(&membership).await.refused(403, "FORBIDDEN");
    suite.admin().await.post("/api/platform/admin/apps", manifest("crm", SERVICE_CLIENT)).await.data(200);
    becomes_backend(&backend, &membership).await;
    // Its client is declared later.
    suite.admin().await.post("/api/platform/admin/apps", manifest("late", LATE_CLIENT)).await.data(200);
}

fn manifest(key: &str, client: &str) -> Value {
    json!({
        "key": key, "displayName": key, "version": "1.0.0", "serviceClientId": client,
        "features": [format!("{key}.deals.read")],
        "authzFragment": { format!("{key}_deal"): { "company_module": {"this": true}, "viewer": {"this": true} } },
    })
}

/// A request about alice that only an app's backend may make.
pub(super) async fn membership(suite: &Suite) -> String {
    let alice = subject(&access(&suite.browser().login("alice").await));
    format!("/api/org/companies/{}/members/by-subject/{alice}", suite.company)
}

/// The account of a client is known once the provider has reported it.
pub(super) async fn becomes_backend(backend: &Api, membership: &str) {
    eventually("the account is known as the app's backend", LEARNED, || async {
        let reply = backend.get(membership).await;
        reply.expect_status(200)?;
        if reply.body["data"]["isMember"] == true { Ok(()) } else { Err(reply.body.to_string()) }
    })
    .await;
}

/// A user who logged in through the app's own client is a user: the token's `azp` is the app's, its `sub` is not.
pub(super) async fn impostors(suite: &Suite) {
    let (browser, membership) = (suite.browser(), membership(suite).await);
    let form = [
        ("grant_type", "password"),
        ("client_id", SERVICE_CLIENT),
        ("client_secret", SERVICE_SECRET),
        ("username", "alice"),
        ("password", "alice"),
        ("scope", "openid"),
    ];
    let refused = browser.token(&form).await;
    assert!([400, 401].contains(&refused.status), "no service client logs users in: {}", refused.text);
    let page = browser.authorize(&[("client_id", SERVICE_CLIENT)]).await;
    assert!(page.status >= 400, "nor shows it a login form: {} {}", page.status, page.text);
    if suite.operator.kind == Kind::BuiltIn {
        // With the built-in provider, only the front end's client can log users in.
        return;
    }
    suite.operator.let_log_in(SERVICE_CLIENT, true).await;
    let answer = browser.token(&form).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let token = access(&answer.json());
    let said = claims(&token);
    assert_eq!(said["azp"], SERVICE_CLIENT);
    assert!(super::is_for_the_platform(&said), "{said}");
    let user = suite.api().with_token(&token);
    user.get(&membership).await.refused(403, "FORBIDDEN");
    user.post("/api/auth/grants", json!({})).await.refused(403, "FORBIDDEN");
    user.get("/api/org/me/companies").await.data(200);
    let credentials = [
        ("grant_type", "client_credentials"),
        ("client_id", SERVICE_CLIENT),
        ("client_secret", SERVICE_SECRET),
    ];
    let backend = suite.api().with_token(&access(&browser.token(&credentials).await.json()));
    assert_eq!(backend.get(&membership).await.data(200)["isMember"], true, "its account still is");
    suite.operator.let_log_in(SERVICE_CLIENT, false).await;
}

/// In any spelling, and for a token of the administration's own realm too.
pub(super) async fn administration(suite: &Suite) {
    let browser = suite.browser();
    for path in [
        "/admin/realms/platform/users",
        "/auth/admin/realms/platform/users",
        "/auth/admin/master/console/",
        "/auth/%61dmin/realms/platform/users",
        "/auth/ADMIN/realms/platform/users",
        "/auth//admin/realms/platform",
        "/auth/realms/..%2fadmin/realms/platform/users",
        "/auth/realms/platform/..;/..;/admin/realms/platform",
        "/auth/realms/master/protocol/openid-connect/token",
        "/realms/master",
        "/realms/master/.well-known/openid-configuration",
        "/auth/metrics",
        "/auth/health/ready",
        "/metrics",
        "/health",
    ] {
        for method in [Method::GET, Method::POST] {
            let answer = browser.raw(method.clone(), path).await;
            assert!(matches!(answer.status, 400 | 404), "{method} {path}: {} {}", answer.status, answer.text);
            let code = answer.json()["error"]["code"].clone();
            assert!(code == "NOT_FOUND" || code == "BAD_REQUEST", "the edge answers {path}: {}", answer.text);
        }
    }
}
