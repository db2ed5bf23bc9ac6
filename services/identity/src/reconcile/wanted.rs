//! The target state of the realm, the clients and their mappers, in Keycloak's representation. Pure.

#![expect(clippy::indexing_slicing, reason = "only JSON is indexed, where a missing member is null")]

use serde_json::{Value, json};

use super::config::{Reconcile, ServiceClient};

/// Lifetimes (gateway document, "Authentication" 4).
const ACCESS_SECONDS: u32 = 300;
const REFRESH_IDLE_SECONDS: u32 = 30 * 60;
/// The public client of all front ends.
pub(super) const FRONTEND_CLIENT: &str = "platform-frontend";
/// Attribute of the clients that this code created.
const MADE: &str = "platform.made";
/// The mapper that puts the platform's audience into access tokens.
const AUDIENCE_MAPPER: &str = "platform-audience";

/// Token lifetimes, single-use refresh tokens, and the admin events that tell a quick look about deletions.
pub(super) fn realm() -> Value {
    json!({
        "accessTokenLifespan": ACCESS_SECONDS,
        "ssoSessionIdleTimeout": REFRESH_IDLE_SECONDS,
        "revokeRefreshToken": true,
        "refreshTokenMaxReuse": 0,
        "adminEventsEnabled": true,
    })
}

/// The front-end client: logins with PKCE, and exact redirect URIs only.
pub(super) fn frontend(target: &Reconcile) -> Value {
    json!({
        "clientId": FRONTEND_CLIENT,
        "protocol": "openid-connect",
        "enabled": true,
        "publicClient": true,
        "standardFlowEnabled": true,
        "implicitFlowEnabled": false,
        "directAccessGrantsEnabled": false,
        "serviceAccountsEnabled": false,
        "redirectUris": target.frontend.redirect_uris,
        "webOrigins": target.frontend.web_origins,
        // A plus stands for the redirect URIs.
        "attributes": { "pkce.code.challenge.method": "S256", "post.logout.redirect.uris": "+" },
    })
}

/// A service client: a secret and a service account, no logins.
pub(super) fn service(client: &ServiceClient) -> Value {
    let mut wanted = json!({
        "clientId": client.client_id,
        "protocol": "openid-connect",
        "enabled": true,
        "publicClient": false,
        "clientAuthenticatorType": "client-secret",
        "standardFlowEnabled": false,
        "implicitFlowEnabled": false,
        "directAccessGrantsEnabled": false,
        "serviceAccountsEnabled": true,
    });
    // Without a secret here, the provider generates one and keeps it.
    if let Some(secret) = &client.secret {
        wanted["secret"] = json!(secret);
    }
    wanted
}

/// The complete representation of a client to create.
pub(super) fn new_client(wanted: &Value, mapper: &Value) -> Value {
    let mut client = wanted.clone();
    client["protocolMappers"] = json!([mapper]);
    client["attributes"][MADE] = json!("true");
    client
}

pub(super) fn audience_mapper(audience: &str) -> Value {
    json!({
        "name": AUDIENCE_MAPPER,
        "protocol": "openid-connect",
        "protocolMapper": "oidc-audience-mapper",
        "config": {
            "included.custom.audience": audience,
            "access.token.claim": "true",
            "id.token.claim": "false",
        },
    })
}

/// Whether this code created the client, it is no longer declared, and it is still enabled.
pub(super) fn is_orphan(found: &Value, target: &Reconcile) -> bool {
    let client_id = found["clientId"].as_str().unwrap_or_default();
    let declared = client_id == FRONTEND_CLIENT
        || target.service_clients.iter().any(|declared| declared.client_id == client_id);
    !declared && found["attributes"][MADE] == json!("true") && found["enabled"] == json!(true)
}
