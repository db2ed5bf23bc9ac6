//! Resolving names that an operator configured.

use serde_json::{Value, json};

use crate::support::{Identity, fields};

const RESOLVE: &str = "/internal/identity/users/resolve";

#[tokio::test]
async fn a_user_name_or_a_subject_becomes_a_subject_with_a_record() {
    let identity = Identity::start().await;
    identity.provider.account("id-1", "admin", true);
    identity.provider.account("id-2", "bob", false);
    let reply = identity
        .post(RESOLVE, json!({ "names": ["Admin", "id-2", "nobody", "admin"], "existedAt": 1_000 }))
        .await;
    assert_eq!(
        reply.data(),
        &json!([
            { "name": "Admin", "kcSub": "id-1" },
            { "name": "id-2", "kcSub": "id-2" },
            { "name": "nobody", "kcSub": Value::Null },
            { "name": "admin", "kcSub": "id-1" }
        ])
    );
    let record = identity.get("/internal/identity/users/id-1").await;
    assert_eq!(
        (&record.data()["displayName"], &record.data()["preferredUsername"]),
        (&json!("admin Example"), &json!("admin"))
    );
    assert!(!identity.is_enabled("id-2").await);
    assert_eq!(
        identity.audit().await,
        ["system:resolve user.provisioned user:id-1", "system:resolve user.provisioned user:id-2",]
    );
}

#[tokio::test]
async fn a_user_name_that_is_another_ones_subject_is_not_found_by_it() {
    let identity = Identity::start().await;
    identity.provider.account("id-1", "admin", true);
    identity.provider.account("id-2", "id-1", true);
    let reply = identity.post(RESOLVE, json!({ "names": ["id-1"] })).await;
    assert_eq!(reply.data()[0]["kcSub"], "id-1");
}

#[tokio::test]
async fn names_are_limited_and_need_the_provider() {
    let identity = Identity::start().await;
    assert_eq!(identity.post(RESOLVE, json!({ "names": vec!["n"; 100] })).await.status, 200);
    assert_eq!(fields(&identity.post(RESOLVE, json!({ "names": vec!["n"; 101] })).await), ["names length"]);
    assert_eq!(fields(&identity.post(RESOLVE, json!({ "names": [""] })).await), ["names[0] length"]);
    identity.provider.fail(500);
    assert_eq!(identity.post(RESOLVE, json!({ "names": ["n"], "existedAt": 1 })).await.status, 503);
    identity.provider.answer();
    identity.provider.fail_at("/users", 500);
    assert_eq!(identity.post(RESOLVE, json!({ "names": ["n"], "existedAt": 1 })).await.status, 503);
}

/// Resolves one name.
async fn resolved(identity: &Identity, name: &str, existed_at: Option<i64>) -> Value {
    let body = existed_at.map_or_else(
        || json!({ "names": [name] }),
        |existed_at| json!({ "names": [name], "existedAt": existed_at }),
    );
    identity.post(RESOLVE, body).await.data()[0]["kcSub"].clone()
}

#[tokio::test]
async fn a_name_counts_for_an_account_that_was_there_and_a_subject_always() {
    let identity = Identity::start().await;
    identity.provider.account("id-1", "admin", true);
    for (made, existed_at, found) in [
        (Some(5_000), Some(5_000), true),
        (Some(5_001), Some(5_000), false),
        (None, Some(5_000), false),
        (Some(1), None, false),
    ] {
        identity.provider.made_at("id-1", made);
        let by_name = resolved(&identity, "admin", existed_at).await;
        assert_eq!(by_name, if found { json!("id-1") } else { Value::Null }, "{made:?} {existed_at:?}");
        assert_eq!(resolved(&identity, "id-1", existed_at).await, "id-1", "{made:?} {existed_at:?}");
    }
    identity.provider.made_at("id-1", Some(5_001));
    identity.provider.made_by_operator("id-1");
    assert_eq!(resolved(&identity, "admin", Some(5_000)).await, "id-1", "there is no self-registration");
    assert_eq!(
        fields(&identity.post(RESOLVE, json!({ "names": [], "existedAt": -1 })).await),
        ["existedAt range"]
    );
}

#[tokio::test]
async fn the_name_of_a_service_account_is_found_by_its_client() {
    let identity = Identity::start().await;
    identity.provider.account("a-user", "service-account-ops", true);
    assert_eq!(resolved(&identity, "service-account-ops", Some(9_000)).await, Value::Null);
    identity.provider.account("an-account", "service-account-ops-2", true);
    identity.provider.made_at("an-account", Some(9_999));
    identity.provider.client("client-1", "ops", Some("an-account"));
    assert_eq!(resolved(&identity, "service-account-ops", Some(9_000)).await, "an-account");
}
