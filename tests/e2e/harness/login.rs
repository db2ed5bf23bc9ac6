//! A browser login: authorization code with PKCE through the gateway, with the provider's real form.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::header::LOCATION;
use serde_json::Value;

use super::client::{Version, http};

/// The platform at which to log in.
pub(crate) struct Provider<'a> {
    pub(crate) base_url: &'a str,
    pub(crate) ca: &'a std::path::Path,
}

impl Provider<'_> {
    /// Logs a user in and returns the token response.
    pub(crate) async fn login(&self, user: &str, password: &str) -> Value {
        let verifier = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        let challenge =
            URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, verifier.as_bytes()));
        let redirect = format!("{}/callback", self.base_url);
        let browser = http(self.ca, Version::Http2).cookie_store(true).build().expect("a browser");
        let realm = format!("{}/auth/realms/platform/protocol/openid-connect", self.base_url);

        let page = browser
            .get(format!("{realm}/auth"))
            .query(&[
                ("client_id", "platform-frontend"),
                ("response_type", "code"),
                ("scope", "openid"),
                ("state", "the-state"),
                ("redirect_uri", &redirect),
                ("code_challenge", &challenge),
                ("code_challenge_method", "S256"),
            ])
            .send()
            .await
            .expect("the login page");
        assert_eq!(page.status(), 200, "the login page");
        let action = form_action(&page.text().await.expect("a page"), self.base_url);

        let form = [("username", user), ("password", password)];
        let answer = browser.post(action).form(&form).send().await.expect("the form is taken");
        assert_eq!(answer.status(), 302, "{user} logs in");
        let location = answer.headers()[LOCATION].to_str().expect("an address").to_owned();
        assert!(location.starts_with(&redirect), "back to the application, not to {location}");
        let code = parameter(&location, "code");
        assert_eq!(parameter(&location, "state"), "the-state");

        let exchange = [
            ("grant_type", "authorization_code"),
            ("client_id", "platform-frontend"),
            ("redirect_uri", redirect.as_str()),
            ("code_verifier", verifier.as_str()),
            ("code", code.as_str()),
        ];
        let tokens =
            browser.post(format!("{realm}/token")).form(&exchange).send().await.expect("the token endpoint");
        assert_eq!(tokens.status(), 200, "the code is exchanged");
        tokens.json().await.expect("tokens")
    }

    /// The access token of a user whose password is the name.
    pub(crate) async fn token(&self, user: &str) -> String {
        let tokens = self.login(user, user).await;
        tokens["access_token"].as_str().expect("an access token").to_owned()
    }
}

impl Provider<'_> {
    /// The access token of a service client's own account (client credentials).
    pub(crate) async fn client_token(&self, client: &str, secret: &str) -> String {
        let form = [("grant_type", "client_credentials"), ("client_id", client), ("client_secret", secret)];
        let address = format!("{}/realms/platform/protocol/openid-connect/token", self.base_url);
        let http = http(self.ca, Version::Http2).build().expect("a client");
        let answer = http.post(address).form(&form).send().await.expect("the token endpoint");
        assert_eq!(answer.status(), 200, "{client} gets a token");
        let tokens: Value = answer.json().await.expect("tokens");
        tokens["access_token"].as_str().expect("an access token").to_owned()
    }
}

/// The `sub` of a token.
pub(crate) fn subject(token: &str) -> String {
    claims(token)["sub"].as_str().expect("a subject").to_owned()
}

/// The id of the key that signed a token.
pub(crate) fn kid(token: &str) -> String {
    let head = token.split('.').next().expect("a JWT has a head");
    let head = URL_SAFE_NO_PAD.decode(head).expect("base64url");
    let head: Value = serde_json::from_slice(&head).expect("JSON");
    head["kid"].as_str().expect("a key id").to_owned()
}

/// The claims of a token.
pub(crate) fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).expect("a JWT has three parts");
    let payload = URL_SAFE_NO_PAD.decode(payload).expect("base64url");
    serde_json::from_slice(&payload).expect("claims")
}

/// The URL to which the login form of a page is posted.
pub(crate) fn form_action(page: &str, base_url: &str) -> String {
    let form = page.find("id=\"kc-form-login\"").map(|at| &page[at..]).expect("form#kc-form-login");
    let action = form.split("action=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("its action");
    let action = action.replace("&amp;", "&");
    if action.starts_with("http") { action } else { format!("{base_url}{action}") }
}

/// A parameter of an address.
pub(crate) fn parameter(url: &str, name: &str) -> String {
    let url = reqwest::Url::parse(url).expect("an address");
    let found = url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned());
    found.unwrap_or_else(|| panic!("{name} in {url}"))
}
