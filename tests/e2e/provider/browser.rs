//! A browser at the provider, through the gateway: the single steps of a login, each with its response.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Client;
use reqwest::header::LOCATION;
use serde_json::Value;

use crate::harness::Together;
use crate::harness::client::{Version, http};
use crate::harness::login::{form_action, parameter};

/// Forty-three characters, the minimum for a verifier.
pub(super) const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

/// A browser with its cookies.
pub(super) struct Browser {
    client: Client,
    base_url: String,
    realm: String,
}

/// A page, a redirect or a document.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) location: Option<String>,
    pub(super) text: String,
}

impl Answer {
    /// The body as JSON; null when it is not JSON.
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// The redirect's target.
    #[track_caller]
    pub(super) fn redirect(&self) -> &str {
        assert_eq!(self.status, 302, "{}", self.text);
        self.location.as_deref().expect("an address")
    }

    /// Asserts an OAuth error.
    #[track_caller]
    pub(super) fn refused(&self, statuses: &[u16], error: &str) {
        assert!(statuses.contains(&self.status), "{} {}", self.status, self.text);
        assert_eq!(self.json()["error"], error, "{}", self.text);
    }
}

impl Browser {
    pub(super) fn at(platform: &Together) -> Self {
        let client = http(&platform.ca(), Version::Http2).cookie_store(true).build().expect("a browser");
        let realm = format!("{}/auth/realms/platform", platform.base_url);
        Self { client, base_url: platform.base_url.clone(), realm }
    }

    /// A browser at the public addresses in the documents, to which a provider's cookies belong.
    pub(super) fn at_documents(self) -> Self {
        Self { realm: format!("{}/realms/platform", self.base_url), ..self }
    }

    /// The redirect URI of the suite.
    pub(super) fn callback(&self) -> String {
        format!("{}/callback", self.base_url)
    }

    /// Sends a valid authorization request with `changes`; an empty value omits the parameter.
    pub(super) async fn authorize(&self, changes: &[(&str, &str)]) -> Answer {
        let challenge =
            URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, VERIFIER.as_bytes()));
        let callback = self.callback();
        let mut query = vec![
            ("client_id", "platform-frontend"),
            ("response_type", "code"),
            ("scope", "openid"),
            ("state", "the-state"),
            ("redirect_uri", callback.as_str()),
            ("code_challenge", challenge.as_str()),
            ("code_challenge_method", "S256"),
        ];
        for (name, value) in changes {
            query.retain(|(known, _)| known != name);
            query.push((name, value));
        }
        query.retain(|(_, value)| !value.is_empty());
        let address = format!("{}/protocol/openid-connect/auth", self.realm);
        answer(self.client.get(address).query(&query)).await
    }

    /// Submits the form of a page.
    pub(super) async fn submit(&self, page: &Answer, user: &str, password: &str) -> Answer {
        let action = form_action(&page.text, &self.base_url);
        let form = [("username", user), ("password", password)];
        answer(self.client.post(action).form(&form)).await
    }

    /// Exchanges the code of a redirect, with this verifier.
    pub(super) async fn exchange(&self, redirect: &str, verifier: &str) -> Answer {
        let code = parameter(redirect, "code");
        let callback = self.callback();
        self.token(&[
            ("grant_type", "authorization_code"),
            ("client_id", "platform-frontend"),
            ("redirect_uri", &callback),
            ("code_verifier", verifier),
            ("code", &code),
        ])
        .await
    }

    /// Calls the token endpoint.
    pub(super) async fn token(&self, form: &[(&str, &str)]) -> Answer {
        self.post("/protocol/openid-connect/token", form).await
    }

    /// Exchanges a refresh token for new tokens.
    pub(super) async fn refresh(&self, tokens: &Value) -> Answer {
        let token = tokens["refresh_token"].as_str().expect("a refresh token");
        let form =
            [("grant_type", "refresh_token"), ("client_id", "platform-frontend"), ("refresh_token", token)];
        self.token(&form).await
    }

    /// Posts a form to a path below the realm.
    pub(super) async fn post(&self, path: &str, form: &[(&str, &str)]) -> Answer {
        answer(self.client.post(format!("{}{path}", self.realm)).form(form)).await
    }

    /// Reads a path below the realm.
    pub(super) async fn get(&self, path: &str, query: &[(&str, &str)]) -> Answer {
        answer(self.client.get(format!("{}{path}", self.realm)).query(query)).await
    }

    /// Reads a path below the realm with a bearer.
    pub(super) async fn get_as(&self, token: &str, path: &str) -> Answer {
        answer(self.client.get(format!("{}{path}", self.realm)).bearer_auth(token)).await
    }

    /// Reads a path of the gateway verbatim.
    pub(super) async fn raw(&self, method: reqwest::Method, path: &str) -> Answer {
        answer(self.client.request(method, format!("{}{path}", self.base_url))).await
    }

    /// Tokens of a user whose password is the name, in a separate browser.
    pub(super) async fn login(&self, user: &str) -> Value {
        let page = self.authorize(&[]).await;
        assert_eq!(page.status, 200, "{}", page.text);
        let sent = self.submit(&page, user, user).await;
        let tokens = self.exchange(sent.redirect(), VERIFIER).await;
        assert_eq!(tokens.status, 200, "{}", tokens.text);
        tokens.json()
    }
}

async fn answer(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.expect("the edge answers");
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let (status, location) = (response.status().as_u16(), location.map(ToOwned::to_owned));
    Answer { status, location, text: response.text().await.expect("a body") }
}
