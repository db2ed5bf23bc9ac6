//! Transfers of ownership, complete or interrupted by a crash.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::properties::sweep;
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
        ["document.created", "share.created", "ownership.transferred", "share.deleted", "ownership.ended"];
    assert_eq!(world.actions(&format!("document:{document}")).await, expected);
    let shares = world.on(2, "GET", &document, "/shares", None).await;
    let audit = world.module.audit().await;
    let told = audit.iter().find(|row| row["action"] == "ownership.transferred").expect("a row");
    assert_eq!(told["payload"]["shareId"], shares.data()[0]["id"], "the former owner's");
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
async fn a_transfer_leaves_at_most_two_hundred_shares() {
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    let shares = format!("SELECT count(*) FROM docs.shares WHERE document_id = '{document}'");
    world.fill_shares(&document, 199).await;
    assert_eq!(transfer(&world, 0, &document, 2).await.status, 200, "the former owner's is the last");
    assert_eq!(world.count(&shares).await, 200);
    let over = transfer(&world, 0, &document, 3).await;
    assert_eq!((over.status, reason(&over)), (422, "TOO_MANY_SHARES"), "{}", over.text);
    assert_eq!(over.body["error"]["details"]["maxShares"], 200);
    assert_eq!((owners(&world, &document), world.count(&shares).await), (vec!["subject-2".to_owned()], 200));
    let back = transfer(&world, 0, &document, 1).await;
    assert_eq!(back.status, 200, "the new owner's own share makes room: {}", back.text);
    assert_eq!(world.count(&shares).await, 200);
}

#[tokio::test]
async fn a_transfer_at_the_limit_that_broke_off_is_finished_by_its_repetition() {
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    world.fail(&[Fault::LostAfter]);
    assert_eq!(transfer(&world, 0, &document, 2).await.status, 503);
    world.fill_shares(&document, 200).await;
    let again = transfer(&world, 0, &document, 2).await;
    assert_eq!(again.status, 200, "{}", again.text);
    assert_eq!(owners(&world, &document), ["subject-2"]);
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

/// The subjects that own the document according to authz, and the statuses that the former and the new owner get when
/// managing and reading it.
async fn standing(world: &World, document: &str) -> (Vec<String>, [u16; 2], [u16; 2]) {
    let restricted = || Some(json!({ "generalAccess": "restricted" }));
    let mut manages = [0; 2];
    let mut reads = [0; 2];
    for who in [1, 2] {
        reads[who - 1] = world.on(who, "GET", document, "", None).await.status;
        manages[who - 1] = world.on(who, "PUT", document, "/access", restricted()).await.status;
    }
    (owners(world, document), manages, reads)
}

#[tokio::test]
async fn a_transfer_that_breaks_off_anywhere_leaves_one_owner() {
    let before = (vec!["subject-1".to_owned()], [200, 403], [200, 403]);
    let after = (vec!["subject-2".to_owned()], [403, 200], [200, 200]);
    let whole = World::of(5).await;
    let document = whole.document(1, "Plan").await;
    assert_eq!(standing(&whole, &document).await, before);
    assert_eq!(transfer(&whole, 1, &document, 2).await.status, 200);
    assert_eq!(standing(&whole, &document).await, after);
    for fault in [Fault::LostBefore, Fault::LostAfter] {
        for nth in 0..2 {
            for sweeps in 0..3 {
                let world = World::of(5).await;
                let document = world.document(1, "Plan").await;
                world.fail(&[vec![Fault::None; nth], vec![fault]].concat());
                let broken = transfer(&world, 1, &document, 2).await;
                assert_eq!(broken.status, 503, "{nth}: {}", broken.text);
                for _ in 0..sweeps {
                    sweep(&world).await;
                }
                let found = standing(&world, &document).await;
                let case = format!("change {nth} {fault:?}, {sweeps} sweeps");
                match (nth, sweeps) {
                    // Both pass as the owner until the transfer is done.
                    (0, 0) => continue,
                    (0, _) if fault == Fault::LostBefore => assert_eq!(found, before, "{case}"),
                    _ => assert_eq!(found, after, "{case}"),
                }
                if found == after {
                    the_former_owner_has_no_more_than_the_share(&world, &document, &case).await;
                }
            }
        }
    }
}

async fn the_former_owner_has_no_more_than_the_share(world: &World, document: &str, case: &str) {
    let shares = world.on(2, "GET", document, "/shares", None).await;
    let shares = shares.data().as_array().expect("a list").clone();
    assert_eq!(shares.len(), 1, "{case}");
    assert_eq!(shares[0]["memberId"], json!(world.people[1].member), "{case}");
    let tail = format!("/shares/{}", shares[0]["id"].as_str().expect("an id"));
    assert_eq!(world.on(2, "DELETE", document, &tail, None).await.status, 200, "{case}");
    assert!(!world.may_read(1, document).await, "{case}");
    let body = json!({ "body": "defaced", "baseVersion": 1 });
    assert_eq!(world.on(1, "PUT", document, "", Some(body)).await.status, 403, "{case}");
    assert_eq!(world.on(1, "DELETE", document, "", None).await.status, 403, "{case}");
}

#[tokio::test]
async fn a_former_owner_whose_transfer_broke_off_does_not_take_the_document_back() {
    for to in [1, 3] {
        let world = World::of(5).await;
        let document = world.document(1, "Plan").await;
        world.fail(&[Fault::None, Fault::LostBefore]);
        assert_eq!(transfer(&world, 1, &document, 2).await.status, 503);
        let taken = transfer(&world, 1, &document, to).await;
        assert_eq!((taken.status, taken.code()), (403, "AUTHORIZATION_DENIED"), "{to}: {}", taken.text);
        assert_eq!(owners(&world, &document), ["subject-2"], "{to}");
    }
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    world.fail(&[Fault::None, Fault::LostBefore]);
    assert_eq!(transfer(&world, 1, &document, 2).await.status, 503);
    let again = transfer(&world, 1, &document, 2).await;
    assert_eq!((again.status, &again.data()["myRole"]), (200, &json!("editor")), "{}", again.text);
    assert_eq!(owners(&world, &document), ["subject-2"]);
}

/// The user tuples of a document that its rows do not stand for, and those that its rows stand for and that are missing.
async fn differences(world: &World, document: &str) -> Vec<String> {
    let rows = format!(
        "SELECT coalesce(string_agg(fact, ' '), '') FROM (
           SELECT role || '@user:' || kc_sub AS fact FROM docs.shares WHERE document_id = '{document}'
           UNION SELECT 'owner@user:' || owner_kc_sub FROM docs.documents WHERE id = '{document}') facts"
    );
    let pool = world.module.database.owner_pool();
    let rows: String = sqlx::query_scalar(sqlx::AssertSqlSafe(rows)).fetch_one(&pool).await.expect("a row");
    let rows: BTreeSet<String> = rows.split_whitespace().map(ToOwned::to_owned).collect();
    let prefix = format!("docs_document:{document}#");
    let facts = world.facts();
    let of_document = facts.tuples.iter().filter_map(|tuple| tuple.strip_prefix(&prefix));
    let tuples: BTreeSet<String> =
        of_document.filter(|tuple| tuple.contains("@user:")).map(ToOwned::to_owned).collect();
    rows.symmetric_difference(&tuples).cloned().collect()
}

/// The members that a document is shared with, each with its role, as its owner sees them.
async fn shared_with(world: &World, owner: usize, document: &str) -> Vec<(Value, Value)> {
    let shares = world.on(owner, "GET", document, "/shares", None).await;
    assert_eq!(shares.status, 200, "{}", shares.text);
    let shares = shares.data().as_array().expect("a list").clone();
    shares.into_iter().map(|share| (share["memberId"].clone(), share["role"].clone())).collect()
}

#[tokio::test]
async fn a_former_owners_share_names_the_present_row_and_leaves_those_of_others() {
    let world = World::of(6).await;
    let document = world.document(1, "Plan").await;
    // Person 3 has the row that person 1 had.
    let (old, new) = (world.people[1].member, world.relink(1, 3));
    let given = json!({ "memberId": old, "role": "viewer" });
    assert_eq!(world.on(1, "POST", &document, "/shares", Some(given)).await.status, 201);
    assert_eq!(differences(&world, &document).await, [""; 0], "control");
    let moved = transfer(&world, 1, &document, 2).await;
    assert_eq!(moved.status, 200, "{}", moved.text);
    assert_eq!(differences(&world, &document).await, [""; 0]);
    let expected = [(json!(old), json!("viewer")), (json!(new), json!("editor"))];
    assert_eq!(shared_with(&world, 2, &document).await, expected);
    let save = json!({ "body": "still an editor", "baseVersion": 1 });
    assert_eq!(world.on(1, "PUT", &document, "", Some(save)).await.status, 200);
    assert!(world.may_read(3, &document).await);
    let shares = world.on(2, "GET", &document, "/shares", None).await;
    for share in shares.data().as_array().expect("a list") {
        let tail = format!("/shares/{}", share["id"].as_str().expect("an id"));
        assert_eq!(world.on(2, "DELETE", &document, &tail, None).await.status, 200);
    }
    assert!(!world.may_read(1, &document).await && !world.may_read(3, &document).await);
    let rows = world.module.audit().await;
    let told = rows.iter().find(|row| row["action"] == "ownership.member_changed").expect("a row");
    assert_eq!(told["payload"]["ownerMemberId"], json!({ "from": old, "to": new }));
}

#[tokio::test]
async fn a_share_of_the_row_that_the_former_owner_has_now_ends_with_its_other_login() {
    let world = World::of(6).await;
    let document = world.document(1, "Plan").await;
    assert_eq!(world.share(1, &document, 3, "viewer").await.status, 201);
    world.relink(3, 1);
    let moved = transfer(&world, 0, &document, 2).await;
    assert_eq!(moved.status, 200, "{}", moved.text);
    assert_eq!(differences(&world, &document).await, [""; 0]);
    let expected = [(json!(world.people[3].member), json!("editor"))];
    assert_eq!(shared_with(&world, 2, &document).await, expected);
    assert!(world.may_read(1, &document).await && !world.may_read(3, &document).await);
}

#[tokio::test]
async fn a_former_owner_without_a_row_keeps_no_right_that_no_row_stands_for() {
    for is_shared in [false, true] {
        let world = World::of(6).await;
        let document = world.document(1, "Plan").await;
        let old = world.people[1].member;
        world.relink(1, 3);
        world.unlink(1);
        let mut expected = Vec::new();
        if is_shared {
            let given = json!({ "memberId": old, "role": "viewer" });
            assert_eq!(world.on(0, "POST", &document, "/shares", Some(given)).await.status, 201);
            expected.push((json!(old), json!("viewer")));
        }
        let moved = transfer(&world, 0, &document, 2).await;
        assert_eq!(moved.status, 200, "{}", moved.text);
        assert_eq!(differences(&world, &document).await, [""; 0], "{is_shared}");
        assert_eq!(shared_with(&world, 2, &document).await, expected, "{is_shared}");
        let left = format!("docs_document:{document}#editor@user:subject-1");
        assert!(!world.facts().tuples.contains(&left), "{is_shared}");
        assert_eq!(world.may_read(3, &document).await, is_shared);
    }
}

#[tokio::test]
async fn a_transfer_that_the_sweep_finishes_takes_no_row_of_another_login() {
    let world = World::of(6).await;
    let document = world.document(1, "Plan").await;
    world.fail(&[Fault::LostAfter]);
    assert_eq!(transfer(&world, 1, &document, 2).await.status, 503);
    let (old, new) = (world.people[1].member, world.relink(1, 3));
    let given = json!({ "memberId": old, "role": "viewer" });
    assert_eq!(world.on(0, "POST", &document, "/shares", Some(given)).await.status, 201);
    for _ in 0..3 {
        sweep(&world).await;
    }
    assert_eq!(owners(&world, &document), ["subject-2"]);
    assert_eq!(differences(&world, &document).await, [""; 0]);
    assert_eq!(shared_with(&world, 2, &document).await, [(json!(old), json!("viewer"))]);
    let given = json!({ "memberId": new, "role": "editor" });
    assert_eq!(world.on(2, "POST", &document, "/shares", Some(given)).await.status, 201);
    assert_eq!(differences(&world, &document).await, [""; 0]);
}

#[tokio::test]
async fn a_resumed_transfer_names_the_row_that_the_new_owner_has_now() {
    let world = World::of(6).await;
    let document = world.document(1, "Plan").await;
    world.fail(&[Fault::LostBefore]);
    assert_eq!(transfer(&world, 1, &document, 2).await.status, 503);
    let new = world.relink(2, 3);
    let moved = world.on(1, "POST", &document, "/transfer", Some(json!({ "memberId": new }))).await;
    assert_eq!((moved.status, &moved.data()["ownerMemberId"]), (200, &json!(new)), "{}", moved.text);
    assert_eq!(differences(&world, &document).await, [""; 0]);
}

#[tokio::test]
async fn a_transfer_of_which_only_some_tuples_exist_holds_nobody_up() {
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    world.fail(&[Fault::LostBefore]);
    assert_eq!(transfer(&world, 1, &document, 2).await.status, 503);
    // A tuple that an earlier change left.
    world.facts().tuples.insert(format!("docs_document:{document}#editor@user:subject-1"));
    let age = sqlx::query("UPDATE docs.ownerships SET attempted_at = attempted_at - interval '11 seconds'");
    age.execute(&world.module.database.owner_pool()).await.expect("it becomes old");
    let read = world.on(1, "GET", &document, "", None).await;
    assert_eq!((read.status, &read.data()["myRole"]), (200, &json!("owner")), "{}", read.text);
    assert_eq!(transfer(&world, 1, &document, 2).await.status, 200, "repeating it finishes it");
    assert_eq!(owners(&world, &document), ["subject-2"]);
}

#[tokio::test]
async fn a_transfer_whose_outcome_nobody_learnt_is_settled_by_the_next_request() {
    for (fault, owner, role) in [(Fault::LostAfter, 2, "editor"), (Fault::LostBefore, 1, "owner")] {
        let world = World::of(5).await;
        let document = world.document(1, "Plan").await;
        world.fail(&[fault]);
        assert_eq!(transfer(&world, 1, &document, 2).await.status, 503);
        let read = world.on(1, "GET", &document, "", None).await;
        assert_eq!(read.data()["ownerMemberId"], json!(world.people[1].member), "control: not at once");
        let age =
            sqlx::query("UPDATE docs.ownerships SET attempted_at = attempted_at - interval '11 seconds'");
        age.execute(&world.module.database.owner_pool()).await.expect("it becomes old");
        let read = world.on(1, "GET", &document, "", None).await;
        assert_eq!((read.status, &read.data()["myRole"]), (200, &json!(role)), "{}", read.text);
        assert_eq!(read.data()["ownerMemberId"], json!(world.people[owner].member));
        assert_eq!(owners(&world, &document).contains(&"subject-2".to_owned()), owner == 2);
        let other = transfer(&world, owner, &document, 3).await;
        assert_eq!(other.status, 200, "it is over: {}", other.text);
    }
}

/// A share whose outcome is unknown becomes active when its receiver owns the document already.
#[tokio::test]
async fn a_share_of_the_new_owner_that_comes_after_the_transfer_is_removed_by_the_next_request() {
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    world.fail(&[Fault::LostAfter]);
    assert_eq!(world.share(1, &document, 2, "editor").await.status, 503);
    assert_eq!(transfer(&world, 1, &document, 2).await.status, 200);
    sweep(&world).await;
    let owners = "SELECT count(*) FROM docs.shares WHERE kc_sub = 'subject-2'";
    assert_eq!(world.count(owners).await, 1, "control: nothing has looked at the document since");
    assert_eq!(shared_with(&world, 2, &document).await, [(json!(world.people[1].member), json!("editor"))]);
    assert_eq!(world.count(owners).await, 0);
    assert_eq!(differences(&world, &document).await, [""; 0]);
    assert!(world.may_read(2, &document).await && world.may_read(1, &document).await);
}
