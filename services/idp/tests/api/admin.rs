//! Administration: who may use it, what it shows, and that a disabled or deleted account is signed out.

use serde_json::{Value, json};
use testkit::Reply;

use crate::provider::{ADMIN_SECRET, CRM_SECRET, NOW, Provider, claims_of, expected, oauth_error};

const USERS: &str = "/admin/realms/platform/users";
const CLIENTS: &str = "/admin/realms/platform/clients";
const EVENTS: &str = "/admin/realms/platform/admin-events";

async fn ask(provider: &Provider, method: &str, path: &str, token: &str, body: Option<Value>) -> Reply {
    provider
        .send(method, path, |call| {
            let call = call.bearer(token);
            match body {
                Some(body) => call.json(body),
                None => call,
            }
        })
        .await
}

async fn admin(provider: &Provider) -> String {
    provider.client_token("platform-admin", ADMIN_SECRET).await
}

fn names(reply: &Reply) -> Vec<&str> {
    let users = reply.body.as_array().expect("a list");
    users.iter().map(|user| user["username"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn only_the_administration_client_may() {
    let provider = Provider::start().await;
    let alice = provider.tokens("alice").await;
    let text = |name: &str| alice[name].as_str().expect("a token").to_owned();
    let crm = provider.client_token("crm-backend", CRM_SECRET).await;
    let id = claims_of(&alice["access_token"])["sub"].as_str().expect("a subject").to_owned();
    let calls = [
        ("GET", USERS.to_owned()),
        ("GET", format!("{USERS}/{id}")),
        ("PUT", format!("{USERS}/{id}")),
        ("DELETE", format!("{USERS}/{id}")),
        ("GET", EVENTS.to_owned()),
        ("GET", "/admin/realms/platform/clients?clientId=crm-backend".to_owned()),
        ("GET", "/admin/realms/platform/clients/crm-backend/service-account-user".to_owned()),
        ("GET", "/admin/realms/platform/keys".to_owned()),
        ("POST", "/admin/realms/platform/keys/rotate".to_owned()),
    ];
    for (method, path) in calls {
        let without = provider.send(method, &path, |call| call).await;
        assert_eq!((without.status, &without.body), (401, &json!({ "error": "HTTP 401 Unauthorized" })));
        for (token, status) in [
            (text("access_token"), 403),
            (crm.clone(), 403),
            (text("id_token"), 401),
            (text("refresh_token"), 401),
            ("x.y.z".to_owned(), 401),
        ] {
            let body = (method == "PUT").then(|| json!({ "enabled": false }));
            let reply = ask(&provider, method, &path, &token, body).await;
            assert_eq!(reply.status, status, "{method} {path}: {}", reply.text);
        }
    }
    let token = admin(&provider).await;
    provider.clock.advance(std::time::Duration::from_mins(5));
    assert_eq!(ask(&provider, "GET", USERS, &token, None).await.status, 401, "expired");
}

#[tokio::test]
async fn users_are_listed_and_found() {
    let provider = Provider::start().await;
    let token = admin(&provider).await;
    let list = async |query: &str| ask(&provider, "GET", &format!("{USERS}{query}"), &token, None).await;
    assert_eq!(names(&list("").await), ["alice", "bob"]);
    assert_eq!(names(&list("?first=1&max=2").await), ["bob"]);
    assert_eq!(names(&list("?username=a&max=1000").await).len(), 3, "part of the name, service accounts too");
    assert_eq!(names(&list("?username=AL").await), ["alice"]);
    assert_eq!(list("?username=al&exact=true").await.body, json!([]));
    let account = list("?username=service-account-crm-backend&exact=true").await;
    assert_eq!(account.body[0]["serviceAccountClientId"], "crm-backend");
    let alice = list("?username=alice&exact=true").await.body[0].clone();
    let id = alice["id"].as_str().expect("an id");
    assert_eq!(
        alice,
        json!({
            "id": id, "username": "alice", "firstName": "Alice", "email": "alice@example.test",
            "emailVerified": true, "createdTimestamp": NOW * 1_000, "enabled": true, "totp": false,
            "disableableCredentialTypes": [], "requiredActions": [], "notBefore": 0, "madeByOperator": true,
        })
    );
    assert_eq!(ask(&provider, "GET", &format!("{USERS}/{id}"), &token, None).await.body, alice);
    for query in ["?max=1001", "?first=-1", "?enabled=yes", "?exact=1", "?username=%00"] {
        assert_eq!(list(query).await.status, 400, "{query}");
    }
    for id in ["x", "018f0000-0000-7000-8000-000000000000"] {
        let reply = ask(&provider, "GET", &format!("{USERS}/{id}"), &token, None).await;
        assert_eq!((reply.status, reply.body), (404, json!({ "error": "User not found" })));
    }
}

#[tokio::test]
async fn a_disabled_account_neither_logs_in_nor_refreshes_nor_redeems() {
    let provider = Provider::start().await;
    let (token, tokens) = (admin(&provider).await, provider.tokens("alice").await);
    let code = provider.login("alice", "alice").await["code"].clone();
    let path = format!("{USERS}/{}", claims_of(&tokens["access_token"])["sub"].as_str().expect("a subject"));
    let put = async |enabled: Value| {
        ask(&provider, "PUT", &path, &token, Some(json!({ "enabled": enabled }))).await
    };
    for wrong in [json!(null), json!("no")] {
        assert_eq!(put(wrong).await.status, 400);
    }
    assert_eq!(put(json!(false)).await.status, 204);
    assert_eq!(put(json!(false)).await.status, 204, "repeating it changes nothing");
    assert_eq!(provider.audited("user.enabled_changed").await, 1);

    let disabled = ask(&provider, "GET", &format!("{USERS}?enabled=false"), &token, None).await;
    assert_eq!(names(&disabled), ["alice"]);
    let ended = expected(400, "invalid_grant", "Session not active");
    assert_eq!(oauth_error(&provider.refresh(&tokens).await), ended);
    let gone = expected(400, "invalid_grant", "Code not valid");
    assert_eq!(oauth_error(&provider.redeem(&code, &[]).await), gone);
    let page = provider.open(&[]).await;
    let told = provider.submit(&page, "alice", "alice").await;
    assert!(told.text.contains("This account is disabled"), "{}", told.text);
    let not_told = provider.submit(&told, "alice", "wrong").await;
    assert!(not_told.text.contains("Invalid username or password."), "only the right password reveals it");

    assert_eq!(put(json!(true)).await.status, 204);
    assert_eq!(oauth_error(&provider.refresh(&tokens).await), ended, "for good");
    provider.login("alice", "alice").await;
}

#[tokio::test]
async fn a_disabled_service_account_gets_no_token() {
    let provider = Provider::start().await;
    let token = admin(&provider).await;
    let path = format!("{USERS}?username=service-account-crm-backend&exact=true");
    let found = ask(&provider, "GET", &path, &token, None).await;
    let path = format!("{USERS}/{}", found.body[0]["id"].as_str().expect("an id"));
    ask(&provider, "PUT", &path, &token, Some(json!({ "enabled": false }))).await;
    let form =
        [("grant_type", "client_credentials"), ("client_id", "crm-backend"), ("client_secret", CRM_SECRET)];
    let description = "User 'service-account-crm-backend' disabled";
    assert_eq!(oauth_error(&provider.token(&form).await), expected(401, "invalid_request", description));
}

#[tokio::test]
async fn a_deleted_account_is_gone_with_its_sessions_and_leaves_an_event() {
    let provider = Provider::start().await;
    let (token, tokens) = (admin(&provider).await, provider.tokens("alice").await);
    let id = claims_of(&tokens["access_token"])["sub"].as_str().expect("a subject").to_owned();
    let path = format!("{USERS}/{id}");
    assert_eq!(ask(&provider, "DELETE", &path, &token, None).await.status, 204);
    assert_eq!(ask(&provider, "DELETE", &path, &token, None).await.status, 404);
    assert_eq!(provider.audited("user.deleted").await, 1);
    let refused = provider.refresh(&tokens).await;
    assert_eq!(oauth_error(&refused), expected(400, "invalid_grant", "Session not active"));
    let page = provider.open(&[]).await;
    assert_eq!(provider.submit(&page, "alice", "alice").await.status, 200);

    let list = async |query: &str| ask(&provider, "GET", &format!("{EVENTS}{query}"), &token, None).await;
    let events =
        list("?operationTypes=DELETE&resourceTypes=USER&dateFrom=2026-01-01&first=0&max=10").await.body;
    assert_eq!(events.as_array().map(Vec::len), Some(1));
    let event = &events[0];
    assert_eq!(event["resourcePath"], format!("users/{id}"));
    assert_eq!((&event["operationType"], &event["resourceType"]), (&json!("DELETE"), &json!("USER")));
    assert_eq!(event["time"], NOW * 1_000);
    assert_eq!(event["authDetails"]["clientId"], "platform-admin");
    for nothing in [
        "?operationTypes=UPDATE",
        "?resourceTypes=CLIENT",
        &format!("?dateFrom={}", NOW * 1_000 + 1),
        "?first=1",
        "?max=0",
    ] {
        assert_eq!(list(nothing).await.body, json!([]), "{nothing}");
    }
    assert_eq!(list(&format!("?dateFrom={}", NOW * 1_000)).await.body, events);
    for bad in ["?dateFrom=yesterday", "?max=x"] {
        assert_eq!(list(bad).await.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn a_clients_own_account_is_found_by_the_client() {
    let provider = Provider::start().await;
    let token = admin(&provider).await;
    let crm = provider.client_token("crm-backend", CRM_SECRET).await;
    let subject = claims_of(&json!(crm))["sub"].clone();
    let get = async |path: String| ask(&provider, "GET", &path, &token, None).await;
    let listed = get(format!("{CLIENTS}?clientId=crm-backend")).await;
    let client = &listed.body[0];
    assert_eq!(
        (&client["clientId"], &client["serviceAccountsEnabled"]),
        (&json!("crm-backend"), &json!(true))
    );
    let id = client["id"].as_str().expect("an id");
    let account = get(format!("{CLIENTS}/{id}/service-account-user")).await;
    assert_eq!((account.status, &account.body["id"]), (200, &subject), "{}", account.text);
    assert_eq!(account.body["username"], "service-account-crm-backend");
    assert_eq!(get(format!("{CLIENTS}?clientId=crm")).await.body, json!([]), "all of it, or nothing");
    let frontend = get(format!("{CLIENTS}?clientId=platform-frontend")).await;
    assert_eq!(frontend.body[0]["serviceAccountsEnabled"], false);
    for (path, status) in [
        (format!("{CLIENTS}/platform-frontend/service-account-user"), 400),
        (format!("{CLIENTS}/nobody/service-account-user"), 404),
        (CLIENTS.to_owned(), 400),
        (format!("{CLIENTS}?clientId={}", "x".repeat(255)), 200),
        (format!("{CLIENTS}?clientId={}", "x".repeat(256)), 400),
    ] {
        assert_eq!(get(path.clone()).await.status, status, "{path}");
    }
}
