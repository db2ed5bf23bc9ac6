//! Names that an operator wrote down.

use serde_json::{Value, json};

use crate::support::{Identity, fields};

const RESOLVE: &str = "/internal/identity/users/resolve";

#[tokio::test]
async fn a_user_name_or_a_subject_becomes_a_subject_with_a_record() {
    let identity = Identity::start().await;
    identity.provider.account("id-1", "admin", true);
    identity.provider.account("id-2", "bob", false);
    let reply = identity.post(RESOLVE, json!({ "names": ["Admin", "id-2", "nobody", "admin"] })).await;
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
    assert_eq!(identity.post(RESOLVE, json!({ "names": ["n"] })).await.status, 503);
    identity.provider.answer();
    identity.provider.fail_at("/users", 500);
    assert_eq!(identity.post(RESOLVE, json!({ "names": ["n"] })).await.status, 503);
}
