//! Assignments: a position has one holder at a time.

use serde_json::{Value, json};

use crate::support::{ADMIN, Org, made};
use crate::units::futures;

async fn assign(org: &Org, position: &str, member: &str) -> testkit::Reply {
    org.post(&format!("/internal/org/admin/positions/{position}/assignments"), json!({ "memberId": member }))
        .await
}

#[tokio::test]
async fn a_successor_ends_the_term_before_in_the_same_step() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let position = org.position(&company, "P").await;
    let (mia, bob) = (org.member(&company, "mia").await, org.member(&company, "bob").await);
    org.link(&mia, "mia").await;
    org.link(&bob, "bob").await;
    let first = assign(&org, &position, &mia).await;
    let today: String = sqlx::query_scalar("SELECT (now() AT TIME ZONE 'UTC')::date::text")
        .fetch_one(&org.owner)
        .await
        .expect("a day");
    let id = made(&first);
    assert_eq!(
        first.data(),
        &json!({
            "id": id, "positionId": position, "memberId": mia, "validFrom": today, "validTo": null
        })
    );
    let rows = org.audit().await.len();
    assert_eq!(made(&assign(&org, &position, &mia).await), id, "the same member again");
    assert_eq!(org.audit().await.len(), rows);
    let second = made(&assign(&org, &position, &bob).await);
    assert_eq!(
        org.audit().await.split_off(rows),
        [
            format!("{ADMIN} assignment.ended assignment:{id}"),
            format!("{ADMIN} assignment.created assignment:{second}"),
        ]
    );
    let holder = format!("position:{position}#holder@user:bob");
    let holders: Vec<String> =
        org.tuples("org").await.into_iter().filter(|tuple| tuple.contains("#holder")).collect();
    assert_eq!(holders, [holder]);
}

#[tokio::test]
async fn a_term_ends_once() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let position = org.position(&company, "P").await;
    let member = org.member(&company, "mia").await;
    org.link(&member, "mia").await;
    let id = made(&assign(&org, &position, &member).await);
    let path = format!("/internal/org/admin/assignments/{id}/end");
    let calls = (0..5).map(|_| org.send(http::Method::POST, &path, None)).collect();
    let replies = futures(calls).await;
    assert_eq!(replies.iter().filter(|reply| reply.status == 200).count(), 1);
    assert_eq!(replies.iter().filter(|reply| reply.code() == "ASSIGNMENT_ALREADY_ENDED").count(), 4);
    let ended = replies.iter().find(|reply| reply.status == 200).expect("one");
    assert_ne!(ended.data()["validTo"], Value::Null);
    assert_eq!(org.audit().await.iter().filter(|row| row.contains("assignment.ended")).count(), 1);
    assert_eq!(org.tuples("org").await, [format!("company:{company}#member@user:mia")]);
    let unknown = format!("/internal/org/admin/assignments/{}/end", uuid::Uuid::now_v7());
    assert_eq!(org.send(http::Method::POST, &unknown, None).await.code(), "NOT_FOUND");
}

#[tokio::test]
async fn only_an_active_member_of_the_company_gets_a_position() {
    let org = Org::start().await;
    let (acme, other) = (org.company("ACME").await, org.company("OTHER").await);
    let position = org.position(&acme, "P").await;
    let inactive = org.member(&acme, "inactive").await;
    org.put(&format!("/internal/org/admin/members/{inactive}"), json!({ "isActive": false })).await;
    let nobody = uuid::Uuid::now_v7().to_string();
    for member in [&inactive, &org.member(&other, "m").await, &nobody] {
        assert_eq!(assign(&org, &position, member).await.code(), "NOT_FOUND");
    }
    let member = org.member(&acme, "m").await;
    assert_eq!(assign(&org, &nobody, &member).await.code(), "NOT_FOUND");
    let path = format!("/internal/org/admin/positions/{position}/assignments");
    assert_eq!(org.post(&path, json!({ "memberId": "x" })).await.code(), "VALIDATION_ERROR");
}

#[tokio::test]
async fn of_members_assigned_at_once_one_holds_the_position() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let position = org.position(&company, "P").await;
    let mut members = Vec::new();
    for number in 0..5 {
        let member = org.member(&company, &format!("m{number}")).await;
        org.link(&member, &format!("s{number}")).await;
        members.push(member);
    }
    let replies = futures(members.iter().map(|member| assign(&org, &position, member)).collect()).await;
    assert!(replies.iter().all(|reply| reply.status == 201));
    let open: i64 = sqlx::query_scalar("SELECT count(*) FROM org.assignments WHERE valid_to IS NULL")
        .fetch_one(&org.owner)
        .await
        .expect("a count");
    assert_eq!(open, 1);
    let holders = org.tuples("org").await.iter().filter(|tuple| tuple.contains("#holder")).count();
    assert_eq!(holders, 1);
}
