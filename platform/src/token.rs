//! `platform token`: a real login through the gateway, for curl and load generators. Prints only the access token.

use std::io::BufRead;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use contract::Settings;
use contract::settings::split_list;
use reqwest::{Certificate, Client, Response, Url, redirect};
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use service::config::env_name;

use crate::cli::TokenRequest;
use crate::console;
use crate::plan::UpConfig;
use crate::secrets::{Secrets, random};
use crate::stop::Stop;
use crate::variables::all;

/// The public client for users' logins.
const FRONTEND: &str = "platform-frontend";
/// Advice for a service client that the provider refuses.
const UNKNOWN_CLIENT: &str = ". PLATFORM_SERVICE_CLIENTS must have named the client when the platform was started, and \
                              its secret here must be the one that was kept or set there";

/// The identity provider, reached through the gateway.
pub(crate) struct Provider {
    /// Keeps no cookies, unlike a browser.
    pub(crate) client: Client,
    authorities: Vec<Certificate>,
    /// Public address of the platform.
    pub(crate) base: String,
    realm_url: String,
    redirect: String,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
}

/// Logs in and prints the access token.
pub(crate) async fn print(request: &TokenRequest, settings: &Settings) -> Result<(), Stop> {
    let config = UpConfig::read(settings)?;
    let provider = Provider::behind_edge(&config)?;
    let token = match (&request.user, &request.client) {
        (Some(user), _) => provider.log_in(user, settings).await?,
        (None, Some(client)) => provider.client_token(client, &secret(client, settings, &config)?).await?,
        (None, None) => return Err(Stop::Unfit("name a --user or a --client".to_owned())),
    };
    console::result(&token);
    Ok(())
}

impl Provider {
    /// The provider of a platform that runs with this configuration.
    pub(crate) fn behind_edge(config: &UpConfig) -> Result<Self, Stop> {
        let base = format!("https://{}", config.domain);
        let authorities = development_ca(config)?;
        Ok(Self {
            client: client(&authorities, false)?,
            authorities,
            realm_url: format!("{base}/realms/{}/protocol/openid-connect", config.realm),
            redirect: format!("{base}/callback"),
            base,
        })
    }

    /// Fetches an access token for a user whose password is configured or typed.
    pub(crate) async fn log_in(&self, user: &str, settings: &Settings) -> Result<String, Stop> {
        self.user_token(user, &password(user, settings)?).await
    }

    /// Authorization code with PKCE, through the login form.
    pub(crate) async fn user_token(&self, user: &str, password: &str) -> Result<String, Stop> {
        let (verifier, state) = (format!("{}{}", random()?, random()?), random()?);
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
        // Each login uses its own client, so that logins do not share a session.
        let browser = client(&self.authorities, true)?;
        let form = self.login_form(&browser, &challenge, &state).await?;
        let answer = browser.post(form).form(&[("username", user), ("password", password)]).send().await;
        let code = code_of(&answer.map_err(|error| unanswered(&error))?, &state, user)?;
        self.redeem(&[
            ("grant_type", "authorization_code"),
            ("client_id", FRONTEND),
            ("code", &code),
            ("redirect_uri", &self.redirect),
            ("code_verifier", &verifier),
        ])
        .await
    }

    /// The client credentials flow.
    pub(crate) async fn client_token(&self, client: &str, secret: &str) -> Result<String, Stop> {
        self.redeem(&[("grant_type", "client_credentials"), ("client_id", client), ("client_secret", secret)])
            .await
    }

    async fn login_form(&self, browser: &Client, challenge: &str, state: &str) -> Result<Url, Stop> {
        let address = format!("{}/auth", self.realm_url);
        let query = [
            ("response_type", "code"),
            ("client_id", FRONTEND),
            ("redirect_uri", &self.redirect),
            ("scope", "openid"),
            ("state", state),
            ("code_challenge", challenge),
            ("code_challenge_method", "S256"),
        ];
        let page = browser.get(&address).query(&query).send().await.map_err(|error| unanswered(&error))?;
        let (at, status) = (page.url().clone(), page.status());
        let html = page.text().await.map_err(|error| unanswered(&error))?;
        let action = form_action(&html)
            .ok_or_else(|| refused(&format!("{address} shows no login form ({status})")))?;
        at.join(&action).map_err(|error| refused(&format!("the login form's address is wrong: {error}")))
    }

    async fn redeem(&self, fields: &[(&str, &str)]) -> Result<String, Stop> {
        let answer = self
            .client
            .post(format!("{}/token", self.realm_url))
            .form(fields)
            .send()
            .await
            .map_err(|error| unanswered(&error))?;
        let status = answer.status();
        let text = answer.text().await.map_err(|error| unanswered(&error))?;
        if !status.is_success() {
            let hint = if text.contains("\"invalid_client\"") { UNKNOWN_CLIENT } else { "" };
            return Err(refused(&format!("no token ({status}): {text}{hint}")));
        }
        let token: TokenAnswer = serde_json::from_str(&text).map_err(|error| refused(&error.to_string()))?;
        Ok(token.access_token)
    }
}

fn client(authorities: &[Certificate], keeps_cookies: bool) -> Result<Client, Stop> {
    let mut client = Client::builder().cookie_store(keeps_cookies).redirect(redirect::Policy::none());
    for root in authorities {
        client = client.add_root_certificate(root.clone());
    }
    client.build().map_err(|error| Stop::Unfit(format!("no HTTP client: {error}")))
}

/// Reads the development CA. Without one, returns no certificates, and the system's roots apply.
pub(crate) fn development_ca(config: &UpConfig) -> Result<Vec<Certificate>, Stop> {
    let path: PathBuf = config.data_dir.join("certs/ca.pem");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let wrong = |error: &dyn std::fmt::Display| Stop::Unfit(format!("{}: {error}", path.display()));
    let text = std::fs::read(&path).map_err(|error| wrong(&error))?;
    Certificate::from_pem_bundle(&text).map_err(|error| wrong(&error))
}

/// Returns a development user's configured password, else a line of standard input.
fn password(user: &str, settings: &Settings) -> Result<String, Stop> {
    let variables = all();
    let listed = variables.get("PLATFORM_DEV_USERS").map(|variable| settings.reader().text(variable));
    let entries = split_list(&listed.unwrap_or_default());
    let known = entries.iter().filter_map(|entry| entry.split_once(':')).find(|(name, _)| *name == user);
    if let Some((_, password)) = known {
        return Ok(password.to_owned());
    }
    console::say(&format!("password of {user}:"));
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Stop::Unfit(format!("no password on standard input: {error}")))?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Returns a service client's secret from its variable, else from the data directory.
pub(crate) fn secret(client: &str, settings: &Settings, config: &UpConfig) -> Result<String, Stop> {
    let variable = format!("PLATFORM_SERVICE_CLIENT_SECRET_{}", env_name(client));
    if let Some(secret) = settings.raw(&variable) {
        return Ok(secret.to_owned());
    }
    let kept = Secrets::in_dir(&config.data_dir).find(&format!("client-{client}"))?;
    kept.ok_or_else(|| {
        Stop::Unfit(format!(
            "{variable}: is required, because no secret of {client} is kept in the data directory; `up` keeps one for \
             each name in PLATFORM_SERVICE_CLIENTS"
        ))
    })
}

/// `action` of the form whose id is `kc-form-login`.
fn form_action(html: &str) -> Option<String> {
    let forms = html.split("<form").skip(1).filter_map(|rest| rest.split('>').next());
    let form = forms.into_iter().find(|tag| tag.contains("id=\"kc-form-login\""))?;
    let action = form.split("action=\"").nth(1)?.split('"').next()?;
    Some(action.replace("&amp;", "&"))
}

/// Returns the code in the redirect after a login. A page instead of a redirect means that the login was refused.
fn code_of(answer: &Response, state: &str, user: &str) -> Result<String, Stop> {
    let location = answer.headers().get("location").and_then(|value| value.to_str().ok());
    let Some(location) = location.and_then(|text| Url::parse(text).ok()) else {
        return Err(refused(&format!(
            "the login of {user} was refused: wrong name or password, an account that is disabled, or one that needs \
             more than a password, as after `identity user add` or with a second factor (the login page says which). \
             PLATFORM_DEV_USERS (name:password,…) must be here as it was when the platform was started; its default is \
             admin, alice, bob, carol and dave, each with its name as password. After several wrong ones wait a minute"
        )));
    };
    let parameter =
        |name: &str| location.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    if parameter("state").as_deref() != Some(state) {
        return Err(refused("the response to the login has another login's state"));
    }
    parameter("code").ok_or_else(|| {
        refused(&format!("the login gave no code: {}", parameter("error").unwrap_or_default()))
    })
}

/// Builds the error for a missing response, with advice: start the platform, or trust its certificate.
pub(crate) fn unanswered(error: &reqwest::Error) -> Stop {
    let address =
        error.url().map(|url| format!("{}://{}", url.scheme(), url.authority())).unwrap_or_default();
    let cause = cause(error);
    let says = if cause.contains("certificate") {
        format!(
            "the certificate of {address} is not trusted ({cause}). Its CA is certs/ca.pem of the data directory that \
             the platform was started with: run this in the same folder, or set PLATFORM_DATA_DIR to that directory; \
             curl takes the file with --cacert"
        )
    } else {
        format!(
            "the platform does not answer at {address} ({cause}). Start it with `platform up`; if it runs, \
             PLATFORM_PORT_OFFSET, PLATFORM_EDGE_ADDR and PLATFORM_DOMAIN must be here what they are there"
        )
    };
    Stop::Failed(says)
}

/// The innermost cause; the outer ones only repeat the address.
fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

fn refused(why: &str) -> Stop {
    Stop::Failed(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_form_is_found_among_others() {
        let html = r#"<form action="/x"></form><form id="kc-form-login" method="post" action="/a?b=1&amp;c=2"><input>"#;
        assert_eq!(form_action(html).as_deref(), Some("/a?b=1&c=2"));
        assert_eq!(form_action("<form action=\"/x\">"), None);
    }
}
