//! Links of members to subjects.

use serde_json::{Value, json};

use crate::support::{ADMIN, Org, fields};
use crate::units::futures;

fn link_path(member: &str) -> String {
    format!("/internal/org/admin/members/{member}/link-user")
}

#[tokio::test]
async fn a_link_makes_the_member_tuple_and_unlinking_takes_it_away() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let member = org.member(&company, "m").await;
    assert_eq!(org.link(&member, "alice").await.data()["userId"], "alice");
    assert_eq!(org.tuples("org").await, [format!("company:{company}#member@user:alice")]);
    assert_eq!(org.audit().await.last(), Some(&format!("{ADMIN} member.linked member:{member}")));
    let rows = org.audit().await.len();
    assert_eq!(org.link(&member, "alice").await.status, 200, "the same subject again");
    assert_eq!(org.audit().await.len(), rows);
    assert_eq!(org.delete(&link_path(&member)).await.data()["userId"], Value::Null);
    assert!(org.tuples("org").await.is_empty());
    assert_eq!(org.delete(&link_path(&member)).await.status, 200, "an unlinked member");
    assert_eq!(org.audit().await.len(), rows + 1);
}

#[tokio::test]
async fn a_subject_has_one_member_of_a_company_and_a_member_one_subject() {
    let org = Org::start().await;
    let (acme, other) = (org.company("ACME").await, org.company("OTHER").await);
    let (first, second) = (org.member(&acme, "1").await, org.member(&acme, "2").await);
    let elsewhere = org.member(&other, "1").await;
    assert_eq!(org.link(&first, "alice").await.status, 200);
    assert_eq!(org.link(&second, "alice").await.code(), "CONFLICT");
    assert_eq!(org.link(&first, "bob").await.code(), "CONFLICT");
    assert_eq!(org.link(&elsewhere, "alice").await.status, 200, "another company");
    assert_eq!(org.tuples("org").await.len(), 2);
}

#[tokio::test]
async fn only_what_is_known_can_be_linked() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let member = org.member(&company, "m").await;
    let reply = org.link(&member, "stranger").await;
    assert_eq!((reply.status, reply.code()), (404, "NOT_FOUND"));
    let nobody = uuid::Uuid::now_v7().to_string();
    assert_eq!(org.link(&nobody, "alice").await.code(), "NOT_FOUND");
    assert_eq!(org.delete(&link_path(&nobody)).await.code(), "NOT_FOUND");
    assert_eq!(org.link(&member, &"a".repeat(255)).await.status, 200);
    org.delete(&link_path(&member)).await;
    for bad in [json!({}), json!({ "kcSub": "" }), json!({ "kcSub": "a".repeat(256) }), json!({ "kcSub": 7 })]
    {
        let reply = org.post(&link_path(&member), bad.clone()).await;
        assert_eq!((reply.status, reply.code(), fields(&reply).len()), (400, "VALIDATION_ERROR", 1), "{bad}");
    }
    // A subject is always one segment of identity's path.
    org.link(&member, "a/../b?c").await;
    let asked = org.identity.requests().pop().expect("a request");
    assert_eq!(asked.path, "/internal/identity/users/a%2F..%2Fb%3Fc");
}

#[tokio::test]
async fn without_an_answer_of_identity_nothing_is_linked() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let member = org.member(&company, "m").await;
    let any = "/internal/identity/users/*";
    org.identity.answer("GET", any, 500, json!({}));
    let broken = org.link(&member, "alice").await;
    assert_eq!((broken.status, broken.code()), (503, "AUTHORIZATION_UNAVAILABLE"));
    assert_eq!(broken.body["error"]["details"]["dependency"], "identity");
    org.identity.answer("GET", any, 204, json!({}));
    assert_eq!(org.link(&member, "alice").await.status, 503);
    org.identity.close("GET", any);
    assert_eq!(org.link(&member, "alice").await.status, 503);
    org.identity.hang("GET", any);
    assert_eq!(org.link(&member, "alice").await.status, 503);
    assert!(org.tuples("org").await.is_empty());
}

#[tokio::test]
async fn a_subject_linked_to_two_members_at_once_gets_one() {
    let org = Org::start().await;
    for round in 0..20 {
        let company = org.company(&format!("C{round}")).await;
        let (first, second) = (org.member(&company, "1").await, org.member(&company, "2").await);
        let replies = futures(vec![org.link(&first, "alice"), org.link(&second, "alice")]).await;
        let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409]);
        let tuple = format!("company:{company}#member@user:alice");
        assert!(org.tuples("org").await.contains(&tuple));
    }
    let linked = org.audit().await.iter().filter(|row| row.contains("member.linked")).count();
    assert_eq!(linked, 20);
}
