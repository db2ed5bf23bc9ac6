//! What the provider holds about a subject: all of it is exported, and none of the names is left once the account is removed.

use serde_json::{Value, json};
use testkit::Reply;

use crate::browser::{ACCOUNT, Browser, action, field};
use crate::provider::{ADMIN_SECRET, OPERATOR, Provider};

const USERS: &str = "/admin/realms/platform/users";
const NAME: &str = "rosalind";
const EMAIL: &str = "rosalind.f@example.test";
const LAST_NAME: &str = "Featherstonehaugh";
const GIVEN: &str = "given-by-an-operator";
const CHOSEN: &str = "Kerze Zaun Bügel Möwe";

async fn operate(provider: &Provider, method: &str, path: &str, body: Option<Value>) -> Reply {
    let path = format!("{USERS}{path}");
    provider
        .send(method, &path, |call| match body {
            Some(body) => call.bearer(OPERATOR).json(body),
            None => call.bearer(OPERATOR),
        })
        .await
}

/// A user of whom every table knows something; its subject.
async fn somebody(provider: &Provider) -> String {
    let credential = json!({ "type": "password", "value": GIVEN, "temporary": true });
    let user =
        json!({ "username": NAME, "email": EMAIL, "lastName": LAST_NAME, "credentials": [credential] });
    assert_eq!(operate(provider, "POST", "?operator=root", Some(user)).await.status, 201);
    let found = operate(provider, "GET", &format!("?username={NAME}&exact=true"), None).await;
    let mut browser = Browser::new(provider).with("sec-fetch-site", "same-origin");
    let page = browser.sign_in(EMAIL, GIVEN).await;
    let chosen = [("password-new", CHOSEN), ("password-confirm", CHOSEN)];
    assert_eq!(browser.post(&action(&page, "kc-passwd-update-form"), &chosen).await.status, 302);
    let page = browser.get(&format!("{ACCOUNT}/totp")).await;
    let key = page.text.split("id=\"kc-totp-secret-key\">").nth(1).and_then(|rest| rest.split('<').next());
    let code = crate::second_factor::code_of(key.expect("a key"));
    let sealed = field(&page, "totpSecret");
    let done = browser.change(&page, "totp", &[("totpSecret", &sealed), ("totp", &code)]).await;
    assert!(done.text.contains("<ol class=\"codes\">"), "{}", done.text);
    browser.sign_in(NAME, "wrong").await;
    found.body[0]["id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn everything_that_is_held_is_exported_without_secrets() {
    let provider = Provider::start().await;
    let id = somebody(&provider).await;
    let export = operate(&provider, "GET", &format!("/{id}/export"), None).await;
    assert_eq!(export.status, 200, "{}", export.text);
    let held = export.body.as_object().expect("an object");
    let account = &held["account"][0];
    let texts =
        ["username", "email", "last_name"].map(|name| account[name].as_str().expect("a text").to_owned());
    assert_eq!(texts, [NAME, EMAIL, LAST_NAME]);
    for (part, rows) in held.iter().filter(|(part, _)| *part != "auditNext") {
        assert!(!rows.as_array().expect("rows").is_empty(), "{part} is empty: {}", export.text);
    }
    assert_eq!(held["recoveryCodes"].as_array().map(Vec::len), Some(10));
    assert_eq!(held["auditNext"], Value::Null);
    let actions: Vec<&str> =
        held["audit"].as_array().expect("rows").iter().filter_map(|row| row["action"].as_str()).collect();
    for action in ["user.created", "user.password_changed", "login.succeeded", "second_factor.added"] {
        assert!(actions.contains(&action), "{action}: {actions:?}");
    }
    for secret in ["hash", "salt", "secret", "tag", "argon2"] {
        assert!(
            !export.text.contains(&format!("{secret}\":")) && !export.text.contains("$argon2"),
            "{secret}"
        );
    }

    let last =
        held["audit"].as_array().and_then(|rows| rows.last()).map(|row| row["seq"].clone()).expect("a row");
    let rest = operate(&provider, "GET", &format!("/{id}/export?auditAfter={last}"), None).await;
    assert_eq!(rest.body["audit"], json!([]));
    assert_eq!(operate(&provider, "GET", &format!("/{id}/export?auditAfter=-1"), None).await.status, 400);
    let nobody = uuid::Uuid::new_v4();
    assert_eq!(operate(&provider, "GET", &format!("/{nobody}/export"), None).await.status, 404);
    let administrator = provider.client_token("platform-admin", ADMIN_SECRET).await;
    let path = format!("{USERS}/{id}/export");
    assert_eq!(provider.send("GET", &path, |call| call.bearer(&administrator)).await.status, 403);
}

/// A new table must be exported, or be named here as one that knows no subject.
#[tokio::test]
async fn every_table_is_exported_or_knows_no_subject() {
    let provider = Provider::start().await;
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'idp' ORDER BY 1",
    )
    .fetch_all(&provider.database.owner_pool())
    .await
    .expect("the tables");
    let without_subject = ["clients", "schema_version", "secrets", "signing_keys"];
    let exported = [
        "admin_events",
        "browser_sessions",
        "codes",
        "failed_logins",
        "recovery_codes",
        "sessions",
        "totp",
        "users",
    ];
    let mut known: Vec<&str> = without_subject.into_iter().chain(exported).collect();
    known.sort_unstable();
    assert_eq!(tables, known);
}

#[tokio::test]
async fn a_removed_account_leaves_no_name_anywhere() {
    let provider = Provider::start().await;
    let id = somebody(&provider).await;
    let before = provider.everything().await;
    for name in [NAME, EMAIL, LAST_NAME] {
        assert!(before.contains(name), "the search finds {name} before");
    }
    assert_eq!(operate(&provider, "DELETE", &format!("/{id}?operator=root"), None).await.status, 204);
    let after = provider.everything().await.to_lowercase();
    for name in [NAME, EMAIL, LAST_NAME] {
        assert!(!after.contains(&name.to_lowercase()), "{name} is left");
    }
    assert!(after.contains(&id), "audit rows stay, under the subject");
    assert_eq!(operate(&provider, "GET", &format!("/{id}/export"), None).await.status, 404);
}
