//! None of a subject's names remains at the provider once the account is removed.

use serde_json::{Value, json};
use testkit::Reply;

use crate::browser::{ACCOUNT, Browser, action, field};
use crate::provider::{OPERATOR, Provider};

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

/// Creates a user with rows in every table; returns the subject.
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
        assert!(!after.contains(&name.to_lowercase()), "{name} remains");
    }
    assert!(after.contains(&id), "audit rows remain, under the subject");
}
