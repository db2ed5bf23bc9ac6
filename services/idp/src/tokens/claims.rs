//! The claims of tokens, named as Keycloak names them. Pure.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::clients::rules::{Client, ClientKind};
use crate::keys::rules::sha256;
use crate::tokens::scope::Scope;
use crate::users::rules::User;

/// Lifetime of access and ID tokens (gateway document, "Authentication" 4).
pub(crate) const ACCESS_SECONDS: i64 = 300;
/// How long an unused refresh token stays valid.
pub(crate) const REFRESH_SECONDS: i64 = 30 * 60;

/// The data that tokens are made from.
#[derive(Clone, Copy)]
pub(crate) struct Grant<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) realm: &'a str,
    /// Audience of tokens for the platform.
    pub(crate) audience: &'a str,
    pub(crate) client: &'a Client,
    pub(crate) user: &'a User,
    /// `None` for a service account.
    pub(crate) login: Option<Login<'a>>,
    pub(crate) scope: Scope,
    /// Seed of the tokens' ids (`jti`); without it, ids are random.
    pub(crate) seed: Option<&'a [u8]>,
    pub(crate) now: i64,
}

/// The login behind a user's token.
#[derive(Clone, Copy)]
pub(crate) struct Login<'a> {
    pub(crate) session: Uuid,
    pub(crate) authenticated_at: i64,
    pub(crate) nonce: Option<&'a str>,
}

/// The claims of the access token.
pub(crate) fn access(grant: &Grant<'_>) -> Value {
    let mut claims = common(grant, "Bearer", ACCESS_SECONDS);
    claims.insert("aud".into(), audience(grant));
    if !grant.client.web_origins.is_empty() {
        claims.insert("allowed-origins".into(), json!(grant.client.web_origins));
    }
    claims.insert("realm_access".into(), json!({ "roles": realm_roles(grant.realm) }));
    claims.insert("resource_access".into(), resource_access(grant.client.kind));
    claims.insert("scope".into(), json!(grant.scope.as_str()));
    if grant.user.service_client.is_some() {
        claims.insert("clientId".into(), json!(grant.client.id));
        claims.insert("client_id".into(), json!(grant.client.id));
    }
    add_profile(&mut claims, grant.user);
    Value::Object(claims)
}

/// The claims of the ID token that belongs to an access token.
pub(crate) fn id(grant: &Grant<'_>, access_token: &str) -> Value {
    let mut claims = common(grant, "ID", ACCESS_SECONDS);
    claims.insert("aud".into(), json!(grant.client.id));
    claims.insert("at_hash".into(), json!(half_digest(access_token)));
    if let Some(nonce) = grant.login.and_then(|login| login.nonce) {
        claims.insert("nonce".into(), json!(nonce));
    }
    add_profile(&mut claims, grant.user);
    Value::Object(claims)
}

/// The claims of the refresh token, which only the provider reads.
pub(crate) fn refresh(grant: &Grant<'_>, lifetime: i64) -> Value {
    let mut claims = common(grant, "Refresh", lifetime);
    claims.insert("aud".into(), json!(grant.issuer));
    claims.insert("scope".into(), json!(grant.scope.as_str()));
    if let Some(nonce) = grant.login.and_then(|login| login.nonce) {
        claims.insert("nonce".into(), json!(nonce));
    }
    Value::Object(claims)
}

/// The claims that the provider reads in a refresh token.
#[derive(Debug, Deserialize)]
pub(crate) struct RefreshClaims {
    pub(crate) exp: i64,
    pub(crate) sub: Uuid,
    pub(crate) sid: Uuid,
    pub(crate) azp: String,
    pub(crate) scope: String,
    pub(crate) nonce: Option<String>,
}

/// The claims that the provider reads in its own access tokens.
#[derive(Debug, Deserialize)]
pub(crate) struct AccessClaims {
    pub(crate) iss: String,
    pub(crate) typ: String,
    pub(crate) exp: i64,
    pub(crate) sub: Uuid,
    pub(crate) azp: String,
    pub(crate) scope: String,
    /// `None` in a service account's token.
    pub(crate) sid: Option<Uuid>,
}

/// The claims that the userinfo route returns.
pub(crate) fn userinfo(user: &User) -> Value {
    let mut claims = Map::new();
    claims.insert("sub".into(), json!(user.id));
    add_profile(&mut claims, user);
    Value::Object(claims)
}

fn common(grant: &Grant<'_>, kind: &str, lifetime: i64) -> Map<String, Value> {
    let mut claims = Map::new();
    let mut put = |name: &str, value: Value| drop(claims.insert(name.to_owned(), value));
    put("exp", json!(grant.now.saturating_add(lifetime)));
    put("iat", json!(grant.now));
    put("jti", json!(token_id(grant.seed, kind)));
    put("iss", json!(grant.issuer));
    put("sub", json!(grant.user.id));
    put("typ", json!(kind));
    put("azp", json!(grant.client.id));
    put("acr", json!("1"));
    if let Some(login) = grant.login {
        put("auth_time", json!(login.authenticated_at));
        put("sid", json!(login.session));
    }
    claims
}

/// The token's id; the same for the same seed and kind.
fn token_id(seed: Option<&[u8]>, kind: &str) -> Uuid {
    let Some(seed) = seed else { return Uuid::new_v4() };
    let digest = sha256(&[seed, kind.as_bytes()].concat());
    let mut id = [0; 16];
    id.copy_from_slice(digest.get(..16).unwrap_or(&[0; 16]));
    uuid::Builder::from_random_bytes(id).into_uuid()
}

/// The audience; the administration client's token is not for the platform.
fn audience(grant: &Grant<'_>) -> Value {
    match grant.client.kind {
        ClientKind::Frontend | ClientKind::Service => json!([grant.audience, "account"]),
        ClientKind::Administration => json!(["realm-management", "account"]),
    }
}

fn realm_roles(realm: &str) -> [String; 3] {
    [format!("default-roles-{realm}"), "offline_access".to_owned(), "uma_authorization".to_owned()]
}

fn resource_access(kind: ClientKind) -> Value {
    let account = json!({ "roles": ["manage-account", "manage-account-links", "view-profile"] });
    match kind {
        ClientKind::Frontend | ClientKind::Service => json!({ "account": account }),
        ClientKind::Administration => json!({
            "realm-management": { "roles": ["manage-users", "query-users", "view-events", "view-users"] },
            "account": account,
        }),
    }
}

fn add_profile(claims: &mut Map<String, Value>, user: &User) {
    claims.insert("email_verified".into(), json!(user.email.is_some()));
    claims.insert("preferred_username".into(), json!(user.username));
    let texts = [
        ("name", user.full_name()),
        ("given_name", user.first_name.clone()),
        ("family_name", user.last_name.clone()),
        ("email", user.email.clone()),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            claims.insert(name.to_owned(), json!(text));
        }
    }
}

/// OpenID Connect Core, section 3.1.3.6: the left half of the SHA-256 of the token.
fn half_digest(token: &str) -> String {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let digest = sha256(token.as_bytes());
    let half = digest.get(..digest.len() / 2).unwrap_or_default();
    URL_SAFE_NO_PAD.encode(half)
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;

    fn client(kind: ClientKind) -> Client {
        Client {
            id: "the-client".to_owned(),
            kind,
            secret_tag: None,
            redirect_uris: Vec::new(),
            web_origins: vec!["https://app.test".to_owned()],
            enabled: true,
        }
    }

    fn user(service_client: Option<&str>) -> User {
        User {
            id: Uuid::nil(),
            username: "alice".to_owned(),
            enabled: true,
            email: Some("alice@example.test".to_owned()),
            first_name: Some("Alice".to_owned()),
            last_name: None,
            service_client: service_client.map(ToOwned::to_owned),
            created_at: OffsetDateTime::UNIX_EPOCH,
            must_change_password: false,
            has_totp: false,
            has_passkey: false,
        }
    }

    fn grant<'a>(client: &'a Client, user: &'a User, login: Option<Login<'a>>) -> Grant<'a> {
        let scope = Scope { openid: true };
        Grant {
            issuer: "https://i",
            realm: "r",
            audience: "platform-api",
            client,
            user,
            login,
            scope,
            seed: None,
            now: 1_000,
        }
    }

    #[test]
    fn a_persons_token_says_who_for_whom_and_how_long() {
        let (client, user) = (client(ClientKind::Frontend), user(None));
        let login = Login { session: Uuid::nil(), authenticated_at: 900, nonce: Some("n") };
        let grant = grant(&client, &user, Some(login));
        let token = access(&grant);
        for (name, value) in [
            ("exp", json!(1_300)),
            ("iat", json!(1_000)),
            ("auth_time", json!(900)),
            ("iss", json!("https://i")),
            ("aud", json!(["platform-api", "account"])),
            ("sub", json!(Uuid::nil())),
            ("typ", json!("Bearer")),
            ("azp", json!("the-client")),
            ("sid", json!(Uuid::nil())),
            ("scope", json!("openid email profile")),
            ("name", json!("Alice")),
            ("preferred_username", json!("alice")),
            ("email", json!("alice@example.test")),
            ("allowed-origins", json!(["https://app.test"])),
        ] {
            assert_eq!(token[name], value, "{name}");
        }
        assert!(token.get("nonce").is_none() && token.get("family_name").is_none());
        let id = id(&grant, "token");
        assert_eq!((&id["aud"], &id["nonce"], &id["typ"]), (&json!("the-client"), &json!("n"), &json!("ID")));
        let refresh = refresh(&grant, REFRESH_SECONDS);
        assert_eq!((&refresh["aud"], &refresh["exp"]), (&json!("https://i"), &json!(2_800)));
    }

    #[test]
    fn only_tokens_for_the_platform_have_its_audience() {
        let user = user(Some("the-client"));
        let service = client(ClientKind::Service);
        let token = access(&grant(&service, &user, None));
        assert_eq!(token["aud"], json!(["platform-api", "account"]));
        assert_eq!(token["clientId"], json!("the-client"));
        assert!(token.get("sid").is_none() && token.get("auth_time").is_none());
        let administration = client(ClientKind::Administration);
        let token = access(&grant(&administration, &user, None));
        assert_eq!(token["aud"], json!(["realm-management", "account"]));
    }
}
