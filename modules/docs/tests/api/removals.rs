//! Removals of shares that break off: they are finished, never undone, and what may still be open is listed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::properties::{sweep, sweep_after};
use crate::world::{Fault, World, id};

const LISTED: &str = "view=shared";

async fn states(world: &World) -> i64 {
    world.count("SELECT count(*) FROM docs.shares WHERE state = 'revoking'").await
}

/// Who gave and who removed what, by the audit rows about a document.
async fn removed(world: &World) -> Vec<(Value, Value)> {
    let rows = world.module.audit().await;
    let removed = rows.iter().filter(|row| row["action"] == "share.deleted");
    removed.map(|row| (row["actor"].clone(), row["payload"]["principalKind"].clone())).collect()
}

#[tokio::test]
async fn the_sweep_finishes_the_removal_of_a_members_share() {
    let world = World::of(6).await;
    let (document, folder) = (world.document(1, "Plan").await, world.folder(1, "Team", None).await);
    let kept = world.document(1, "Kept").await;
    id(&world.share(1, &kept, 2, "viewer").await);
    let share = id(&world.share(1, &document, 2, "viewer").await);
    let body = json!({ "memberId": world.people[3].member, "role": "editor" });
    let within = id(&world.ask(1, "POST", &format!("/folders/{folder}/shares"), Some(body)).await);
    world.fail(&[Fault::LostBefore, Fault::LostBefore]);
    assert_eq!(world.on(1, "DELETE", &document, &format!("/shares/{share}"), None).await.status, 503);
    let tail = format!("/folders/{folder}/shares/{within}");
    assert_eq!(world.ask(1, "DELETE", &tail, None).await.status, 503);
    assert!(world.may_read(2, &document).await, "control: its tuple still exists");
    assert_eq!(world.listed(2, LISTED).await, ["Kept: viewer", "Plan: viewer"], "what is open is listed");
    let folders = world.ask(3, "GET", "/folders", None).await;
    assert_eq!(folders.data()["items"][0]["myRole"], "editor", "{}", folders.text);
    sweep_after(&world, Duration::from_secs(20)).await;
    assert_eq!(states(&world).await, 2, "control: a request may still be working on it");
    sweep(&world).await;
    assert!(!world.may_read(2, &document).await);
    assert_eq!(world.listed(2, LISTED).await, ["Kept: viewer"]);
    assert_eq!(world.ask(3, "GET", "/folders", None).await.data()["total"], 0);
    assert_eq!(world.count("SELECT count(*) FROM docs.shares").await, 1);
    let member = || (json!("subject-1"), json!("member"));
    assert_eq!(removed(&world).await, [member(), member()], "the caller who started the removal");
}

#[tokio::test]
async fn the_next_request_finishes_the_removal_of_a_positions_or_groups_share() {
    let world = World::of(6).await;
    let (position, group) = (world.position(Some(2)), world.group(&[3]));
    let (document, folder) = (world.document(1, "Plan").await, world.folder(1, "Team", None).await);
    let shares = format!("/documents/{document}/shares");
    let body = json!({ "positionId": position, "role": "viewer" });
    let first = id(&world.ask(1, "POST", &shares, Some(body)).await);
    let folder_shares = format!("/folders/{folder}/shares");
    let body = json!({ "groupId": group, "role": "viewer" });
    let second = id(&world.ask(1, "POST", &folder_shares, Some(body)).await);
    world.fail(&[Fault::LostBefore, Fault::LostBefore]);
    for tail in [format!("{shares}/{first}"), format!("{folder_shares}/{second}")] {
        assert_eq!(world.ask(1, "DELETE", &tail, None).await.status, 503);
    }
    sweep(&world).await;
    assert_eq!(states(&world).await, 2, "authz removes users' tuples only without a bearer");
    assert!(world.may_read(2, &document).await, "control: another request may be working on it");
    assert_eq!(world.listed(2, LISTED).await, ["Plan: viewer"]);
    let listed = world.on(1, "GET", &document, "/shares", None).await;
    assert_eq!(listed.data()[0]["id"], json!(first), "its owner sees it: {}", listed.text);
    let age = "UPDATE docs.shares SET attempted_at = attempted_at - interval '11 seconds'";
    world.module.execute(age.to_owned()).await;
    assert!(!world.may_read(2, &document).await);
    assert_eq!(world.ask(3, "GET", &format!("/folders/{folder}"), None).await.status, 403);
    assert_eq!(world.count("SELECT count(*) FROM docs.shares").await, 0);
    let by = |kind: &str| (json!("subject-1"), json!(kind));
    assert_eq!(removed(&world).await, [by("position"), by("group")]);
}

/// A removal that began and about which authz was never asked: its client hung up, or its process ended.
async fn begun(world: &World) {
    let begun = "UPDATE docs.shares SET state = 'revoking', attempts = 0, revoked_by = 'subject-1',
        attempted_at = now() - interval '11 seconds'";
    world.module.execute(begun.to_owned()).await;
}

#[tokio::test]
async fn a_removal_that_began_is_not_undone_by_a_stranger() {
    let world = World::of(6).await;
    let group = world.group(&[3]);
    let (document, folder) = (world.document(1, "Plan").await, world.folder(1, "Team", None).await);
    for path in [format!("/documents/{document}"), format!("/folders/{folder}")] {
        let body = json!({ "groupId": group, "role": "viewer" });
        id(&world.ask(1, "POST", &format!("{path}/shares"), Some(body)).await);
        assert_eq!(world.ask(2, "GET", &path, None).await.status, 403, "control: a stranger");
        begun(&world).await;
        let asked = world.decisions();
        world.fail(&[Fault::Refused]);
        assert_eq!(world.ask(2, "GET", &path, None).await.status, 403);
        assert_eq!(world.decisions(), asked + 1, "by the decision");
        assert_eq!(states(&world).await, 1, "{path}: the removal stays begun");
        begun(&world).await;
        world.fail(&[Fault::Refused]);
        let refused = world.ask(3, "GET", &path, None).await;
        assert_eq!(refused.status, 503, "what still stands opens nothing: {}", refused.text);
        begun(&world).await;
        assert_eq!(world.ask(3, "GET", &path, None).await.status, 403, "{path}");
        assert_eq!(world.count("SELECT count(*) FROM docs.shares").await, 0);
    }
    let trashed = world.document(1, "Old").await;
    let body = json!({ "groupId": group, "role": "viewer" });
    id(&world.on(1, "POST", &trashed, "/shares", Some(body)).await);
    assert_eq!(world.on(1, "DELETE", &trashed, "", None).await.status, 200);
    begun(&world).await;
    world.fail(&[Fault::Refused]);
    assert_eq!(world.on(2, "GET", &trashed, "", None).await.status, 404, "as without the share");
    let by = || (json!("subject-1"), json!("group"));
    assert_eq!(removed(&world).await, [by(), by()], "by the one who began them");
}

#[tokio::test]
async fn a_share_that_was_never_confirmed_is_not_given_once_its_removal_has_begun() {
    for is_removed in [true, false] {
        let world = World::of(4).await;
        let document = world.document(1, "Plan").await;
        world.fail(&[Fault::LostAfter, Fault::LostBefore]);
        assert_eq!(world.share(1, &document, 2, "viewer").await.status, 503);
        let listed = world.on(1, "GET", &document, "/shares", None).await;
        let tail = format!("/shares/{}", listed.data()[0]["id"].as_str().expect("an id"));
        if is_removed {
            assert_eq!(world.on(1, "DELETE", &document, &tail, None).await.status, 503);
        }
        world.fail(&[]);
        sweep(&world).await;
        assert_eq!(world.may_read(2, &document).await, !is_removed, "control: it is given otherwise");
        assert_eq!(removed(&world).await.len(), usize::from(is_removed));
    }
}

#[tokio::test]
async fn what_another_share_of_the_same_login_gives_stays_when_one_is_removed() {
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    let first = id(&world.share(1, &document, 2, "viewer").await);
    let row = world.relink(2, 3);
    let insert = format!(
        "INSERT INTO docs.shares(id, company_id, document_id, principal_kind, member_id, kc_sub, role, state, granted_by)
         VALUES (gen_random_uuid(), '{}', '{document}', 'member', '{row}', 'subject-2', 'viewer', 'active', 'x');
         UPDATE docs.shares SET state = 'revoking', attempts = 1, revoked_by = 'subject-1' WHERE id = '{first}'",
        world.module.company
    );
    world.module.execute(insert).await;
    sweep(&world).await;
    assert_eq!(world.count("SELECT count(*) FROM docs.shares").await, 1);
    assert!(world.may_read(2, &document).await);
}
