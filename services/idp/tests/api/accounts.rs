//! Users that operators create at run time: the first login, resets, and that a disabled user is signed out at once.

use serde_json::{Value, json};
use testkit::Reply;

use crate::browser::{Browser, action, problem};
use crate::provider::{ADMIN_SECRET, OPERATOR, Provider, claims_of, oauth_error};

const USERS: &str = "/admin/realms/platform/users";
pub(crate) const GIVEN: &str = "given-by-an-operator";
pub(crate) const CHOSEN: &str = "Kerze Zaun Bügel Möwe";

fn new_user(name: &str, email: Option<&str>) -> Value {
    json!({ "username": name, "email": email, "firstName": "Grace", "credentials": [credential()] })
}

pub(crate) fn credential() -> Value {
    json!({ "type": "password", "value": GIVEN, "temporary": true })
}

pub(crate) async fn ask(provider: &Provider, method: &str, path: &str, body: Value) -> Reply {
    let path = format!("{USERS}{path}?operator=root");
    provider.send(method, &path, |call| call.bearer(OPERATOR).json(body)).await
}

pub(crate) async fn id_of(provider: &Provider, name: &str) -> String {
    let path = format!("{USERS}?username={name}&exact=true");
    let found = provider.send("GET", &path, |call| call.bearer(OPERATOR)).await;
    found.body[0]["id"].as_str().unwrap_or_else(|| panic!("no user: {}", found.text)).to_owned()
}

pub(crate) async fn add(provider: &Provider, name: &str) -> String {
    let added = ask(provider, "POST", "", new_user(name, None)).await;
    assert_eq!(added.status, 201, "{}", added.text);
    let id = id_of(provider, name).await;
    assert_eq!(added.header("location"), format!("https://localhost:8443{USERS}/{id}"));
    id
}

#[tokio::test]
async fn a_user_chooses_a_password_at_the_first_login() {
    let provider = Provider::start().await;
    let id = add(&provider, "grace").await;
    let shown = provider.send("GET", &format!("{USERS}/{id}"), |call| call.bearer(OPERATOR)).await.body;
    assert_eq!(
        (&shown["requiredActions"], &shown["firstName"]),
        (&json!(["UPDATE_PASSWORD"]), &json!("Grace"))
    );

    let mut browser = Browser::new(&provider);
    let page = browser.sign_in("grace", GIVEN).await;
    let mut form = action(&page, "kc-passwd-update-form");
    assert!(form.contains("/login-actions/required-action?") && form.contains("execution=UPDATE_PASSWORD"));
    for (new, again, why) in [
        (CHOSEN, "another", "are not the same"),
        ("short", "short", "at least 10"),
        ("password12", "password12", "easy to guess"),
        (GIVEN, GIVEN, "must not be the current one"),
    ] {
        let page = browser.post(&form, &[("password-new", new), ("password-confirm", again)]).await;
        assert!(problem(&page).contains(why), "{}", page.text);
        form = action(&page, "kc-passwd-update-form");
    }
    let chosen = [("password-new", CHOSEN), ("password-confirm", CHOSEN)];
    assert_eq!(browser.post(&form, &chosen).await.status, 302, "signed in");
    assert_eq!(browser.post(&form, &chosen).await.status, 200, "the form is no longer valid");
    let mut other = Browser::new(&provider);
    assert!(problem(&other.sign_in("grace", GIVEN).await).contains("Invalid"));
    assert_eq!(other.sign_in("grace", CHOSEN).await.status, 302);

    let rows = provider.audit().await;
    let about_grace = rows.iter().filter(|(_, _, subject)| *subject == format!("user:{id}"));
    let about_grace: Vec<_> =
        about_grace.map(|(actor, action, _)| (actor.as_str(), action.as_str())).collect();
    assert_eq!(about_grace, [("operator:root", "user.created"), (id.as_str(), "user.password_changed"),]);
    assert!(!provider.everything_audited().await.contains("grace"), "audit rows contain no name");
}

#[tokio::test]
async fn a_form_of_the_first_login_needs_the_password_that_was_given() {
    let provider = Provider::start().await;
    let id = add(&provider, "grace").await;
    let mut browser = Browser::new(&provider);
    let page = browser.sign_in("grace", GIVEN).await;
    let reset = json!({ "type": "password", "value": "another-one-given", "temporary": true });
    assert_eq!(ask(&provider, "PUT", &format!("/{id}/reset-password"), reset).await.status, 204);
    let chosen = [("password-new", CHOSEN), ("password-confirm", CHOSEN)];
    let late = browser.post(&action(&page, "kc-passwd-update-form"), &chosen).await;
    assert!(late.text.contains("kc-form-login"), "{}", late.text);
    assert!(problem(&browser.sign_in("grace", CHOSEN).await).contains("Invalid"));
    let page = browser.sign_in("grace", "another-one-given").await;
    let page =
        browser.get(&action(&page, "kc-passwd-update-form").replace("required-action", "authenticate")).await;
    assert!(page.text.contains("kc-form-login"), "a reopened form starts from the beginning");
}

#[tokio::test]
async fn a_disabled_user_loses_every_session_and_gets_none_back() {
    let provider = Provider::start().await;
    let tokens = provider.tokens("alice").await;
    let mut browser = Browser::new(&provider);
    browser.enter("alice", "alice").await;
    let id = claims_of(&tokens["access_token"])["sub"].as_str().expect("a subject").to_owned();
    let enabled = async |enabled: bool| {
        let reply = ask(&provider, "PUT", &format!("/{id}"), json!({ "enabled": enabled })).await;
        assert_eq!(reply.status, 204, "{}", reply.text);
    };
    enabled(false).await;
    let page = browser.get(crate::browser::ACCOUNT).await;
    assert!(page.text.contains("kc-form-login"), "{}", page.text);
    enabled(true).await;
    assert!(browser.get(crate::browser::ACCOUNT).await.text.contains("kc-form-login"));
    assert_eq!(oauth_error(&provider.refresh(&tokens).await).2, "Session not active");
    assert_eq!(browser.sign_in("alice", "alice").await.status, 302);
}

#[tokio::test]
async fn a_reset_ends_the_sessions() {
    let provider = Provider::start().await;
    let tokens = provider.tokens("alice").await;
    let id = id_of(&provider, "alice").await;
    assert_eq!(ask(&provider, "PUT", &format!("/{id}/reset-password"), credential()).await.status, 204);
    assert_eq!(oauth_error(&provider.refresh(&tokens).await).2, "Session not active");
    let mut browser = Browser::new(&provider);
    assert!(problem(&browser.sign_in("alice", "alice").await).contains("Invalid"));
    assert!(browser.sign_in("alice", GIVEN).await.text.contains("kc-passwd-update-form"));
}

#[tokio::test]
async fn names_and_addresses_are_taken_once_and_errors_name_the_member() {
    let provider = Provider::start().await;
    add(&provider, "grace").await;
    for (user, status, field) in [
        (new_user("grace", None), 409, "username"),
        (new_user("eve", Some("Alice@Example.test")), 409, "email"),
        (new_user("Grace", None), 400, "username"),
        (new_user("eve", Some("eve")), 400, "email"),
        (json!({ "username": "eve" }), 400, "credentials"),
    ] {
        let reply = ask(&provider, "POST", "", user).await;
        assert_eq!((reply.status, reply.body["field"].as_str()), (status, Some(field)), "{}", reply.text);
    }
    let id = id_of(&provider, "grace").await;
    let weak = json!({ "type": "password", "value": "x", "temporary": true });
    assert_eq!(ask(&provider, "PUT", &format!("/{id}/reset-password"), weak).await.status, 400);
    let lasting = json!({ "type": "password", "value": GIVEN, "temporary": false });
    assert_eq!(ask(&provider, "PUT", &format!("/{id}/reset-password"), lasting).await.status, 400);
    let nobody = uuid::Uuid::new_v4();
    assert_eq!(ask(&provider, "PUT", &format!("/{nobody}/reset-password"), credential()).await.status, 404);
    let account = provider
        .send("GET", &format!("{USERS}?username=service-account-crm-backend&exact=true"), |call| {
            call.bearer(OPERATOR)
        })
        .await
        .body[0]["id"]
        .clone();
    let path = format!("/{}/reset-password", account.as_str().expect("an id"));
    assert_eq!(
        ask(&provider, "PUT", &path, credential()).await.status,
        404,
        "a service account has no password"
    );
}

#[tokio::test]
async fn only_an_operator_makes_users_and_gives_passwords() {
    let provider = Provider::start().await;
    let id = id_of(&provider, "alice").await;
    let administrator = provider.client_token("platform-admin", ADMIN_SECRET).await;
    let alice = provider.tokens("alice").await["access_token"].as_str().expect("a token").to_owned();
    for (method, path, body) in [
        ("POST", USERS.to_owned(), new_user("eve", None)),
        ("PUT", format!("{USERS}/{id}/reset-password"), credential()),
        ("PUT", format!("{USERS}/{id}/disable-credential-types"), json!(["otp"])),
    ] {
        for (token, status) in
            [(administrator.as_str(), 403), (&alice, 403), ("x", 401), (&OPERATOR[1..], 401)]
        {
            let reply = provider.send(method, &path, |call| call.bearer(token).json(body.clone())).await;
            assert_eq!(reply.status, status, "{method} {path} {}", reply.text);
        }
        let without = provider.send(method, &path, |call| call.json(body.clone())).await;
        assert_eq!(without.status, 401);
    }
    for (length, status) in [(200, 204), (201, 400)] {
        let path = format!("{USERS}/{id}?operator={}", "x".repeat(length));
        let body = json!({ "enabled": true });
        let reply = provider.send("PUT", &path, |call| call.bearer(OPERATOR).json(body)).await;
        assert_eq!(reply.status, status, "{}", reply.text);
    }
    let keys = provider.send("GET", "/admin/realms/platform/keys", |call| call.bearer(OPERATOR)).await;
    assert_eq!(keys.status, 401, "accounts alone");
}

#[tokio::test]
async fn an_account_made_again_under_the_same_name_is_another_subject() {
    let provider = Provider::start().await;
    let id = add(&provider, "grace").await;
    let path = format!("{USERS}/{id}?operator=root");
    assert_eq!(provider.send("DELETE", &path, |call| call.bearer(OPERATOR)).await.status, 204);
    assert_ne!(add(&provider, "grace").await, id);
}
