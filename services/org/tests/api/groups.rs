//! Groups and their members.

use serde_json::json;

use crate::support::{ADMIN, Org, fields, made};
use crate::units::futures;

fn members_path(group: &str) -> String {
    format!("/internal/org/admin/groups/{group}/members")
}

#[tokio::test]
async fn a_group_made_here_is_the_platforms() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let path = format!("/internal/org/admin/companies/{company}/groups");
    let reply = org.post(&path, json!({ "code": "g", "name": "Group", "source": "ldap" })).await;
    let id = made(&reply);
    let group = json!({
        "id": id, "companyId": company, "code": "g", "name": "Group", "source": "platform", "externalRef": null,
        "isActive": true, "isPlatformManaged": true
    });
    assert_eq!(reply.data(), &group);
    assert_eq!(org.audit().await.last(), Some(&format!("{ADMIN} group.created group:{id}")));
    let again = org.post(&path, json!({ "code": "G", "name": "Group" })).await;
    assert_eq!(
        (again.status, again.code(), fields(&again)),
        (400, "VALIDATION_ERROR", vec!["code unique".to_owned()])
    );
    let nowhere = format!("/internal/org/admin/companies/{}/groups", uuid::Uuid::now_v7());
    let reply = org.post(&nowhere, json!({ "code": "g", "name": "n" })).await;
    assert_eq!((reply.status, fields(&reply)), (400, vec!["companyId unknown".to_owned()]));
    assert_eq!(org.post(&path, json!({ "code": "c".repeat(64), "name": "n".repeat(200) })).await.status, 201);
    let past = json!({ "code": "c".repeat(65), "name": "n".repeat(201) });
    assert_eq!(fields(&org.post(&path, past).await), ["code length", "name length"]);
    assert_eq!(org.get(&nowhere).await.data()["total"], 0);
    assert_eq!(fields(&org.get(&format!("{path}?page=x")).await), ["page range"]);
}

#[tokio::test]
async fn members_come_and_go_and_active_ones_are_counted() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let group = org.group(&company, "G").await;
    let (mia, bob) = (org.member(&company, "mia").await, org.member(&company, "bob").await);
    org.link(&mia, "mia").await;
    let added = org.post(&members_path(&group), json!({ "memberId": mia })).await;
    assert_eq!(added.status, 201, "{}", added.text);
    assert_eq!(
        (&added.data()["addedBy"], &added.data()["memberDisplayName"]),
        (&json!(ADMIN), &json!("mia"))
    );
    org.post(&members_path(&group), json!({ "memberId": bob })).await;
    let again = org.post(&members_path(&group), json!({ "memberId": mia })).await;
    assert_eq!((again.status, again.code()), (409, "CONFLICT"));
    assert_eq!(
        org.tuples("org").await,
        [format!("company:{company}#member@user:mia"), format!("group:{group}#member@user:mia")]
    );
    org.put(&format!("/internal/org/admin/members/{bob}"), json!({ "isActive": false })).await;
    let list = org.get(&format!("/internal/org/admin/companies/{company}/groups")).await;
    assert_eq!(list.data()["items"][0]["memberCount"], 1);
    assert_eq!(org.get(&members_path(&group)).await.data().as_array().map(Vec::len), Some(2));
    let removed = org.delete(&format!("{}/{mia}", members_path(&group))).await;
    assert_eq!(removed.data(), &json!({ "groupId": group, "memberId": mia }));
    assert_eq!(org.tuples("org").await, [format!("company:{company}#member@user:mia")]);
    assert_eq!(org.delete(&format!("{}/{mia}", members_path(&group))).await.code(), "NOT_FOUND");
    let rows = org.audit().await;
    assert_eq!(rows.iter().filter(|row| row.contains("group.member_added")).count(), 2);
    assert_eq!(rows.last(), Some(&format!("{ADMIN} group.member_removed group:{group}")));
}

#[tokio::test]
async fn unknown_groups_and_members_are_404_and_an_unknown_groups_list_is_empty() {
    let org = Org::start().await;
    let (acme, other) = (org.company("ACME").await, org.company("OTHER").await);
    let group = org.group(&acme, "G").await;
    let (here, elsewhere) = (org.member(&acme, "m").await, org.member(&other, "m").await);
    let nobody = uuid::Uuid::now_v7().to_string();
    for (group, member) in [(&group, &elsewhere), (&group, &nobody), (&nobody, &here)] {
        assert_eq!(org.post(&members_path(group), json!({ "memberId": member })).await.code(), "NOT_FOUND");
        assert_eq!(org.delete(&format!("{}/{member}", members_path(group))).await.code(), "NOT_FOUND");
    }
    assert_eq!(org.get(&members_path(&nobody)).await.data(), &json!([]));
    assert_eq!(org.post(&members_path(&group), json!({})).await.code(), "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_group_of_another_source_is_left_alone() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let (group, member) = (org.group(&company, "G").await, org.member(&company, "m").await);
    sqlx::query("UPDATE org.groups SET source = 'ldap'").execute(&org.owner).await.expect("updated");
    for reply in [
        org.post(&members_path(&group), json!({ "memberId": member })).await,
        org.delete(&format!("{}/{member}", members_path(&group))).await,
    ] {
        assert_eq!((reply.status, reply.code()), (409, "GROUP_NOT_PLATFORM_MANAGED"));
        assert_eq!(reply.body["error"]["details"], json!({ "groupId": group, "source": "ldap" }));
    }
}

#[tokio::test]
async fn a_member_added_twice_at_once_is_in_once() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let (group, member) = (org.group(&company, "G").await, org.member(&company, "m").await);
    let path = members_path(&group);
    let calls = (0..5).map(|_| org.post(&path, json!({ "memberId": member }))).collect();
    let mut statuses: Vec<u16> = futures(calls).await.iter().map(|reply| reply.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409]);
}
