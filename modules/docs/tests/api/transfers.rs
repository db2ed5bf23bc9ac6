//! Ownership changes hands, whole or in steps that a crash parts.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{Fault, World, reason};

async fn transfer(world: &World, who: usize, document: &str, to: usize) -> testkit::Reply {
    let body = json!({ "memberId": world.people[to].member });
    world.on(who, "POST", document, "/transfer", Some(body)).await
}

fn owners(world: &World, document: &str) -> Vec<String> {
    let prefix = format!("docs_document:{document}#owner@user:");
    let facts = world.facts();
    facts.tuples.iter().filter_map(|tuple| tuple.strip_prefix(&prefix)).map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn the_new_owner_has_everything_and_the_former_one_an_editors_share() {
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    assert_eq!(world.share(1, &document, 2, "viewer").await.status, 201);
    let moved = transfer(&world, 1, &document, 2).await;
    assert_eq!(moved.status, 200, "{}", moved.text);
    assert_eq!(
        (&moved.data()["ownerMemberId"], &moved.data()["myRole"]),
        (&json!(world.people[2].member), &json!("editor"))
    );
    assert_eq!(moved.data()["ownerDisplayName"], "Person 2");
    assert_eq!(owners(&world, &document), ["subject-2"]);
    let facts: Vec<String> = world.facts().tuples.iter().cloned().collect();
    assert!(facts.contains(&format!("docs_document:{document}#editor@user:subject-1")));
    assert!(!facts.iter().any(|tuple| tuple.contains("#viewer@user:subject-2")), "the share is absorbed");
    assert_eq!(world.listed(2, "view=mine").await, ["Plan: owner"]);
    assert_eq!(world.listed(1, "view=shared").await, ["Plan: editor"]);
    assert_eq!(world.on(1, "DELETE", &document, "", None).await.status, 403);
    let expected =
        ["document.created", "share.created", "ownership.transferred", "ownership.ended", "share.deleted"];
    assert_eq!(world.actions(&format!("document:{document}")).await, expected);
    let back = transfer(&world, 0, &document, 1).await;
    assert_eq!(back.status, 200, "{}", back.text);
    assert_eq!(
        (owners(&world, &document), world.listed(2, "view=shared").await),
        (vec!["subject-1".to_owned()], vec!["Plan: editor".to_owned()])
    );
    let last =
        world.module.audit().await.into_iter().rev().find(|row| row["action"] == "ownership.transferred");
    assert_eq!(last.expect("a row")["payload"]["asManager"], true);
}

#[tokio::test]
async fn every_wrong_owner_is_told_by_its_word() {
    let world = World::of(4).await;
    let document = world.document(1, "Plan").await;
    world.facts().active[2] = false;
    for (to, word) in [(1, "PRINCIPAL_IS_OWNER"), (2, "PRINCIPAL_UNKNOWN"), (3, "MEMBER_NOT_LINKED")] {
        let reply = transfer(&world, 1, &document, to).await;
        assert_eq!((reply.status, reason(&reply)), (422, word), "{}", reply.text);
    }
    let unknown = json!({ "memberId": Uuid::now_v7() });
    let reply = world.on(1, "POST", &document, "/transfer", Some(unknown)).await;
    assert_eq!((reply.status, reason(&reply)), (422, "PRINCIPAL_UNKNOWN"));
}

#[tokio::test]
async fn a_transfer_that_breaks_off_anywhere_is_finished_by_the_same_call() {
    for fault in [Fault::LostBefore, Fault::LostAfter] {
        for nth in 0..3 {
            let world = World::of(5).await;
            let document = world.document(1, "Plan").await;
            assert_eq!(world.share(1, &document, 2, "viewer").await.status, 201);
            world.fail(&[vec![Fault::None; nth], vec![fault]].concat());
            let broken = transfer(&world, 0, &document, 2).await;
            assert_eq!(broken.status, 503, "{nth}: {}", broken.text);
            let row = "SELECT count(*) FROM docs.documents WHERE owner_kc_sub IN ('subject-1', 'subject-2')";
            assert_eq!(world.count(row).await, 1, "one owner at every moment");
            if nth == 0 {
                let other = transfer(&world, 0, &document, 3).await;
                assert_eq!((other.status, other.code()), (409, "TRANSFER_IN_PROGRESS"));
            }
            let again = transfer(&world, 0, &document, 2).await;
            assert_eq!(again.status, 200, "{nth}: {}", again.text);
            assert_eq!(owners(&world, &document), ["subject-2"]);
            let shares = world.on(2, "GET", &document, "/shares", None).await;
            let members: Vec<Value> = shares
                .data()
                .as_array()
                .expect("a list")
                .iter()
                .map(|share| share["memberId"].clone())
                .collect();
            assert_eq!(members, [json!(world.people[1].member)]);
            let unsettled = "SELECT count(*) FROM docs.ownerships WHERE state <> 'active'";
            assert_eq!(world.count(unsettled).await, 0);
        }
    }
}

#[tokio::test]
async fn a_transfer_that_authz_refuses_changes_nothing() {
    let world = World::of(4).await;
    let document = world.document(1, "Plan").await;
    let before = world.module.contents().await;
    world.fail(&[Fault::Refused]);
    assert_eq!(transfer(&world, 1, &document, 2).await.status, 403);
    assert_eq!(world.module.contents().await, before);
}
