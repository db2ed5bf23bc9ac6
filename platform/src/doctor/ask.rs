//! The doctor's requests. The error of a failed request is a text that says why.

use std::error::Error;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use contract::Settings;
use contract::settings::split_list;
use reqwest::{Client, redirect};
use serde::Deserialize;
use serde_json::Value;

use super::endpoint::Endpoint;
use crate::secrets::Secrets;
use crate::stop::Stop;
use crate::token::{Provider, development_ca, secret};

/// Longest wait for one response.
const PATIENCE: Duration = Duration::from_secs(10);
/// A well-formed PKCE challenge; no code is ever redeemed with it.
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// The claims of a token. Its signature is not verified here.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Token {
    #[serde(rename = "iss")]
    pub(super) issuer: String,
    #[serde(rename = "aud", default)]
    pub(super) audience: Value,
    #[serde(rename = "iat")]
    pub(super) issued_at: i64,
    #[serde(rename = "exp")]
    pub(super) expires_at: i64,
}

/// An HTTP client that trusts the certificates that this platform's browsers trust.
pub(super) struct Asking {
    client: Client,
    base_url: String,
}

impl Asking {
    pub(super) fn of(settings: &Settings, endpoint: &Endpoint) -> Result<Self, Stop> {
        let mut builder =
            Client::builder().timeout(PATIENCE).redirect(redirect::Policy::none()).tls_info(true);
        // A configured certificate must be trusted without the development CA.
        if !settings.is_set("PLATFORM_TLS_CERT") {
            for root in development_ca(&endpoint.up)? {
                builder = builder.add_root_certificate(root);
            }
        }
        let client = builder.build().map_err(|error| Stop::Unfit(format!("no HTTP client: {error}")))?;
        Ok(Self { client, base_url: endpoint.base_url.clone() })
    }

    /// Returns the gateway's certificate in DER, verified for the public name.
    pub(super) async fn certificate(&self) -> Result<Vec<u8>, String> {
        let answer = self.client.get(format!("{}/healthz", self.base_url)).send().await.map_err(causes)?;
        if !answer.status().is_success() {
            return Err(format!(
                "{}/healthz answers {}: is that the platform?",
                self.base_url,
                answer.status()
            ));
        }
        let shown = answer.extensions().get::<reqwest::tls::TlsInfo>();
        let leaf = shown.and_then(reqwest::tls::TlsInfo::peer_certificate).map(<[u8]>::to_vec);
        leaf.ok_or_else(|| format!("{} presented no certificate", self.base_url))
    }

    /// Fetches a realm's discovery document.
    pub(super) async fn discovery(&self, realm: &str) -> Result<Value, String> {
        self.json(&format!("{realm}/.well-known/openid-configuration")).await
    }

    /// Fetches a JSON document.
    pub(super) async fn json(&self, address: &str) -> Result<Value, String> {
        let answer = self.client.get(address).send().await.map_err(causes)?;
        let status = answer.status();
        if !status.is_success() {
            return Err(format!("{address} answers {status}"));
        }
        answer.json().await.map_err(|error| format!("{address} does not answer with JSON: {}", causes(error)))
    }

    /// Returns the status of the login page for the redirect URI `redirect`.
    pub(super) async fn login_page(&self, realm: &str, redirect: &str) -> Result<u16, String> {
        let query = [
            ("response_type", "code"),
            ("client_id", "platform-frontend"),
            ("redirect_uri", redirect),
            ("scope", "openid"),
            ("state", "doctor"),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
        ];
        let page = self.client.get(format!("{realm}/protocol/openid-connect/auth")).query(&query);
        page.send().await.map(|page| page.status().as_u16()).map_err(causes)
    }

    /// Fetches a token for the administration client, at the provider's internal address.
    pub(super) async fn admin_token(
        &self,
        settings: &Settings,
        endpoint: &Endpoint,
    ) -> Result<Token, String> {
        let id = settings.raw("PLATFORM_IDP_ADMIN_CLIENT_ID");
        let id = id
            .or_else(|| endpoint.is_built_in.then_some("platform-admin"))
            .ok_or("PLATFORM_IDP_ADMIN_CLIENT_ID is not set")?;
        let given = settings.raw("PLATFORM_IDP_ADMIN_CLIENT_SECRET").map(ToOwned::to_owned);
        let kept = || {
            Secrets::in_dir(&endpoint.up.data_dir)
                .find("idp-admin")
                .ok()
                .flatten()
                .filter(|_| endpoint.is_built_in)
        };
        let secret = given.or_else(kept).ok_or("PLATFORM_IDP_ADMIN_CLIENT_SECRET is not set")?;
        let form = [("grant_type", "client_credentials"), ("client_id", id), ("client_secret", &secret)];
        let address = format!("{}/protocol/openid-connect/token", endpoint.internal_realm());
        let answer = self.client.post(&address).form(&form).send().await.map_err(causes)?;
        let status = answer.status();
        let body: Value =
            answer.json().await.map_err(|_| format!("{address} answers {status} without JSON"))?;
        let token = body.get("access_token").and_then(Value::as_str);
        let why = body.get("error").and_then(Value::as_str).unwrap_or_default();
        read(token.ok_or_else(|| format!("the provider gives {id} no token: {status} {why}"))?)
    }

    /// Fetches a token for the platform: the first service client's, else a development user's.
    pub(super) async fn platform_token(
        &self,
        settings: &Settings,
        endpoint: &Endpoint,
    ) -> Result<Token, String> {
        let provider = Provider::behind_edge(&endpoint.up).map_err(|stop| stop.to_string())?;
        let clients = split_list(settings.raw("PLATFORM_SERVICE_CLIENTS").unwrap_or_default());
        let token = if let Some(client) = clients.first() {
            let secret = secret(client, settings, &endpoint.up).map_err(|stop| stop.to_string())?;
            provider.client_token(client, &secret).await
        } else if endpoint.is_built_in {
            let users = split_list(settings.raw("PLATFORM_DEV_USERS").unwrap_or("admin:admin"));
            let (user, password) =
                users.first().and_then(|entry| entry.split_once(':')).ok_or("PLATFORM_DEV_USERS is empty")?;
            provider.user_token(user, password).await
        } else {
            return Err("no token to check: name a service client in PLATFORM_SERVICE_CLIENTS".to_owned());
        };
        read(&token.map_err(|stop| stop.to_string())?)
    }
}

fn read(token: &str) -> Result<Token, String> {
    let payload = token.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let claims = payload.and_then(|payload| serde_json::from_slice(&payload).ok());
    claims.ok_or_else(|| "the provider's token is not a JWT with iss, iat and exp".to_owned())
}

/// An error with all its causes.
fn causes(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
