//! Reading records.

use serde_json::{Value, json};

use crate::support::{Identity, fields};

const USERS: &str = "/internal/identity/users";

#[tokio::test]
async fn an_unknown_subject_has_no_record() {
    let identity = Identity::start().await;
    for subject in ["nobody", "a%00b", &"a".repeat(256)] {
        let reply = identity.get(&format!("{USERS}/{subject}")).await;
        assert_eq!((reply.status, reply.code()), (404, "NOT_FOUND"));
    }
    identity.known("a/b?c d").await;
    assert_eq!(identity.get(&format!("{USERS}/a%2Fb%3Fc%20d")).await.data()["kcSub"], "a/b?c d");
}

#[tokio::test]
async fn a_state_needs_a_look_of_the_last_five_minutes() {
    let identity = Identity::start().await;
    identity.known("alice").await;
    let state = identity.get(&format!("{USERS}/alice/state")).await;
    assert_eq!(
        (&state.data()["exists"], &state.data()["idpEnabled"], &state.data()["lifecycle"]),
        (&json!(true), &json!(true), &json!("active"))
    );
    let unknown = identity.get(&format!("{USERS}/nobody/state")).await;
    assert_eq!(
        (&unknown.data()["exists"], &unknown.data()["idpEnabled"], &unknown.data()["lifecycle"]),
        (&json!(false), &json!(false), &Value::Null)
    );
    identity.age_look(295.0).await;
    assert_eq!(identity.get(&format!("{USERS}/alice/state")).await.status, 200);
    identity.age_look(301.0).await;
    let refused = identity.get(&format!("{USERS}/alice/state")).await;
    assert_eq!((refused.status, refused.code()), (503, "AUTHORIZATION_UNAVAILABLE"));
    assert_eq!(refused.body["error"]["details"]["dependency"], "idp");
}

#[tokio::test]
async fn a_lookup_shows_display_data_of_those_that_are_known() {
    let identity = Identity::start().await;
    identity.known("bob").await;
    identity.known("alice").await;
    let path = format!("{USERS}/lookup");
    let reply = identity.post(&path, json!({ "kcSubs": ["bob", "nobody", "alice", "bob"] })).await;
    assert_eq!(
        reply.data(),
        &json!([
            { "kcSub": "alice", "displayName": "alice", "email": null },
            { "kcSub": "bob", "displayName": "bob", "email": null }
        ])
    );
    assert_eq!(identity.post(&path, json!({ "kcSubs": [] })).await.data(), &json!([]));
    assert_eq!(identity.post(&path, json!({ "kcSubs": vec!["s"; 200] })).await.status, 200);
    for (body, field) in [
        (json!({}), "kcSubs required"),
        (json!({ "kcSubs": "alice" }), "kcSubs type"),
        (json!({ "kcSubs": vec!["s"; 201] }), "kcSubs length"),
        (json!({ "kcSubs": ["a", ""] }), "kcSubs[1] length"),
        (json!({ "kcSubs": [7] }), "kcSubs[0] type"),
    ] {
        let reply = identity.post(&path, body).await;
        assert_eq!((reply.status, fields(&reply)), (400, vec![field.to_owned()]));
    }
}
