//! The service account of a client.

use serde_json::Value;

use crate::support::Identity;

async fn account_of(identity: &Identity, client: &str) -> Value {
    let reply = identity.get(&format!("/internal/identity/service-accounts/{client}")).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(reply.data()["clientId"], client);
    reply.data()["kcSub"].clone()
}

#[tokio::test]
async fn a_clients_account_is_found_by_the_client_and_never_by_a_name() {
    let identity = Identity::start().await;
    assert_eq!(account_of(&identity, "crm-backend").await, Value::Null, "no such client");
    // Someone has registered under the name of the future service account.
    identity.provider.account("a-user", "service-account-crm-backend", true);
    assert_eq!(account_of(&identity, "crm-backend").await, Value::Null);
    identity.provider.account("an-account", "service-account-crm", true);
    identity.provider.client("client-1", "crm-backend", Some("an-account"));
    assert_eq!(account_of(&identity, "crm-backend").await, "an-account");
    assert_eq!(account_of(&identity, "crm-backen").await, Value::Null);
    identity.provider.client("client-2", "web", None);
    assert_eq!(account_of(&identity, "web").await, Value::Null, "a client without an account");
}

#[tokio::test]
async fn without_the_provider_there_is_no_answer_and_a_client_id_has_a_limit() {
    let identity = Identity::start().await;
    let path = |length: usize| format!("/internal/identity/service-accounts/{}", "c".repeat(length));
    assert_eq!(identity.get(&path(255)).await.status, 200);
    assert_eq!(identity.get(&path(256)).await.status, 400);
    identity.provider.client("client-1", "crm-backend", Some("an-account"));
    identity.provider.fail(500);
    assert_eq!(identity.get("/internal/identity/service-accounts/crm-backend").await.status, 503);
    identity.provider.answer();
    identity.provider.fail_at("/clients/*", 500);
    assert_eq!(identity.get("/internal/identity/service-accounts/crm-backend").await.status, 503);
    assert_eq!(identity.audit().await, [""; 0], "a lookup creates no record");
}
