//! Service clients, and what of the provider nobody reaches through the edge.

use reqwest::Method;
use serde_json::json;

use super::{SERVICE_CLIENT, SERVICE_SECRET, Suite, access};
use crate::harness::login::{claims, subject};

/// A declared client gets tokens for the platform whose `azp` says whose backend it is.
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
    let alice = subject(&access(&suite.browser().login("alice").await));
    let membership = format!("/api/org/companies/{}/members/by-subject/{alice}", suite.company);
    backend.get(&membership).await.refused(403, "FORBIDDEN");
    let manifest = json!({
        "key": "crm", "displayName": "CRM", "version": "1.0.0", "serviceClientId": SERVICE_CLIENT,
        "features": ["crm.deals.read"],
        "authzFragment": { "crm_deal": { "company_module": {"this": true}, "viewer": {"this": true} } },
    });
    suite.admin().await.post("/api/platform/admin/apps", manifest).await.data(200);
    assert_eq!(backend.get(&membership).await.data(200)["isMember"], true);
}

/// Whatever the spelling, and for a token of the administration's own realm too.
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
