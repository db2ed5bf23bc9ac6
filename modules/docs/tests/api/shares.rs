//! Shares: given, changed and removed, with their tuples, refusals, and what remains when authz does not answer.

use serde_json::{Value, json};
use service::two_store::STALE_AFTER;
use testkit::until;
use uuid::Uuid;

use crate::properties::sweep_after;
use crate::world::{Fault, World, id, reason};

fn tuple(document: &str, role: &str, subject: &str) -> String {
    format!("docs_document:{document}#{role}@{subject}")
}

fn shares_of(world: &World, document: &str) -> Vec<String> {
    let prefix = format!("docs_document:{document}#");
    let kept = ["#company_module@", "#owner@", "#parent@"];
    let facts = world.facts();
    let of = facts.tuples.iter().filter(|tuple| tuple.starts_with(&prefix));
    of.filter(|tuple| !kept.iter().any(|other| tuple.contains(other))).cloned().collect()
}

#[tokio::test]
async fn a_share_opens_a_document_to_a_member_a_position_or_a_group() {
    let world = World::of(6).await;
    let document = world.document(1, "Plan").await;
    let (position, group) = (world.position(Some(3)), world.group(&[4]));
    let member = world.people[2].member;
    for (principal, subject, role) in [
        (json!({ "memberId": member, "role": "viewer" }), "user:subject-2".to_owned(), "viewer"),
        (
            json!({ "positionId": position, "role": "commenter" }),
            format!("position:{position}#holder"),
            "commenter",
        ),
        (json!({ "groupId": group, "role": "editor" }), format!("group:{group}#member"), "editor"),
    ] {
        let made = world.on(1, "POST", &document, "/shares", Some(principal)).await;
        assert_eq!((made.status, &made.data()["role"]), (201, &json!(role)), "{}", made.text);
        assert!(shares_of(&world, &document).contains(&tuple(&document, role, &subject)));
    }
    for (who, role) in [(2, "viewer"), (3, "commenter"), (4, "editor")] {
        let read = world.on(who, "GET", &document, "", None).await;
        assert_eq!((read.status, &read.data()["myRole"]), (200, &json!(role)));
        assert_eq!(read.data()["sharedWithCount"], 3);
        assert_eq!(world.listed(who, "view=shared").await, [format!("Plan: {role}")]);
    }
    let listed = world.on(2, "GET", &document, "/shares", None).await;
    let titles: Vec<&Value> =
        listed.data().as_array().expect("a list").iter().map(|share| &share["title"]).collect();
    assert_eq!(titles, ["Person 2", "Position", "Group"]);
    let first = &listed.data()[0];
    let expected = json!({ "id": first["id"], "documentId": document, "folderId": null, "principalKind": "member",
        "memberId": member, "positionId": null, "groupId": null, "title": "Person 2", "role": "viewer",
        "grantedBy": "subject-1", "createdAt": first["createdAt"], "isInherited": false });
    assert_eq!(first, &expected);
    assert_eq!(world.actions(&format!("document:{document}")).await[1..], ["share.created"; 3]);
}

/// The audit row of its last step waits for a lock while the client hangs up.
#[tokio::test]
async fn a_change_of_role_ends_even_if_its_client_hangs_up() {
    let world = World::of(4).await;
    let document = world.document(1, "Plan").await;
    let share = id(&world.share(1, &document, 2, "viewer").await);
    let owner = world.module.database.owner_pool();
    let mut held = owner.begin().await.expect("a transaction");
    let lock = "LOCK TABLE audit.docs__events IN ACCESS EXCLUSIVE MODE";
    sqlx::query(lock).execute(&mut *held).await.expect("the lock");
    let tail = format!("/documents/{document}/shares/{share}");
    let raised = tuple(&document, "editor", "user:subject-2");
    tokio::select! {
        reply = world.ask(1, "PUT", &tail, Some(json!({ "role": "editor" }))) => panic!("answered: {}", reply.text),
        () = until("the role is shown", async || shares_of(&world, &document) == [raised.clone()]) => {}
    }
    let in_flight = "http_requests_in_flight{service=\"docs\"} 1\n";
    until("only the look itself is in flight", async || {
        world.module.api.get("/metrics").send().await.text.contains(in_flight)
    })
    .await;
    held.rollback().await.expect("the lock goes");
    let settled = "SELECT count(*) FROM docs.shares WHERE state = 'active' AND role = 'editor'";
    until("the share is settled", async || world.count(settled).await == 1).await;
    assert_eq!(
        world.actions(&format!("document:{document}")).await.last().expect("an action"),
        "share.role_changed"
    );
}

#[tokio::test]
async fn every_wrong_principal_is_told_by_its_word() {
    let world = World::of(4).await;
    let document = world.document(1, "Plan").await;
    world.facts().active[2] = false;
    let [owner, inactive, unlinked] = [1, 2, 3].map(|at| world.people[at].member);
    let unknown = Uuid::now_v7();
    let before = world.module.contents().await;
    for (principal, word) in [
        (json!({ "role": "viewer" }), "PRINCIPAL_AMBIGUOUS"),
        (json!({ "memberId": owner, "groupId": unknown, "role": "viewer" }), "PRINCIPAL_AMBIGUOUS"),
        (json!({ "memberId": unknown, "role": "viewer" }), "PRINCIPAL_UNKNOWN"),
        (json!({ "memberId": inactive, "role": "viewer" }), "PRINCIPAL_UNKNOWN"),
        (json!({ "positionId": unknown, "role": "viewer" }), "PRINCIPAL_UNKNOWN"),
        (json!({ "groupId": unknown, "role": "viewer" }), "PRINCIPAL_UNKNOWN"),
        (json!({ "memberId": unlinked, "role": "viewer" }), "MEMBER_NOT_LINKED"),
        (json!({ "memberId": owner, "role": "viewer" }), "PRINCIPAL_IS_OWNER"),
    ] {
        let reply = world.on(1, "POST", &document, "/shares", Some(principal)).await;
        assert_eq!((reply.status, reason(&reply)), (422, word), "{}", reply.text);
    }
    let wrong = world.on(1, "POST", &document, "/shares", Some(json!({ "role": "owner" }))).await;
    assert_eq!(wrong.wrong_fields(), ["role enum"]);
    assert_eq!(world.module.contents().await, before);
}

#[tokio::test]
async fn a_role_rises_by_granting_first_and_falls_by_taking_first() {
    let world = World::of(4).await;
    let document = world.document(1, "Plan").await;
    let share = id(&world.share(1, &document, 2, "viewer").await);
    let to = async |role: &str| {
        world.on(1, "PUT", &document, &format!("/shares/{share}"), Some(json!({ "role": role }))).await
    };
    let asked = world.module.questions().len();
    let raised = to("editor").await;
    assert_eq!(
        (raised.status, &raised.data()["role"], &raised.data()["id"]),
        (200, &json!("editor"), &json!(share))
    );
    let ops = |from: usize| -> Vec<Value> {
        world.module.questions().split_off(from).iter().filter_map(|body| body.get("op").cloned()).collect()
    };
    assert_eq!(ops(asked), ["grant", "revoke"]);
    assert_eq!(shares_of(&world, &document), [tuple(&document, "editor", "user:subject-2")]);
    let asked = world.module.questions().len();
    assert_eq!(to("commenter").await.status, 200);
    assert_eq!(ops(asked), ["revoke", "grant"]);
    assert_eq!(shares_of(&world, &document), [tuple(&document, "commenter", "user:subject-2")]);
    let before = world.module.contents().await;
    assert_eq!(to("commenter").await.status, 200);
    assert_eq!(world.module.contents().await, before, "the same role again writes nothing");
    let audit = world.module.audit().await;
    let roles: Vec<&Value> = audit[2..].iter().map(|row| &row["payload"]["role"]).collect();
    assert_eq!(
        roles,
        [&json!({ "from": "viewer", "to": "editor" }), &json!({ "from": "editor", "to": "commenter" })]
    );
}

#[tokio::test]
async fn a_change_that_breaks_off_is_finished_by_its_repetition_or_by_the_removal() {
    for fault in [Fault::LostBefore, Fault::LostAfter] {
        for nth in 0..2 {
            for (from, to) in [("viewer", "editor"), ("editor", "viewer")] {
                let world = World::of(4).await;
                let document = world.document(1, "Plan").await;
                let share = id(&world.share(1, &document, 2, from).await);
                let tail = format!("/shares/{share}");
                let change = || Some(json!({ "role": to }));
                let faults = [vec![Fault::None; nth], vec![fault]].concat();
                world.fail(&faults);
                assert_eq!(world.on(1, "PUT", &document, &tail, change()).await.status, 503);
                if nth == 0 {
                    let taken = world.on(1, "DELETE", &document, &tail, None).await;
                    assert_eq!(taken.status, 200, "{}", taken.text);
                    assert!(shares_of(&world, &document).is_empty());
                    continue;
                }
                assert_eq!(world.on(1, "PUT", &document, &tail, change()).await.status, 200);
                assert_eq!(shares_of(&world, &document), [tuple(&document, to, "user:subject-2")]);
            }
        }
    }
}

#[tokio::test]
async fn a_change_to_another_role_finishes_the_one_that_broke_off_first() {
    for fault in [Fault::LostBefore, Fault::LostAfter] {
        for nth in 0..2 {
            for (from, to) in [("viewer", "editor"), ("editor", "viewer")] {
                let world = World::of(4).await;
                let document = world.document(1, "Plan").await;
                let share = id(&world.share(1, &document, 2, from).await);
                let tail = format!("/shares/{share}");
                world.fail(&[vec![Fault::None; nth], vec![fault]].concat());
                let broken = world.on(1, "PUT", &document, &tail, Some(json!({ "role": to }))).await;
                assert_eq!(broken.status, 503, "control: {}", broken.text);
                let other = world.on(1, "PUT", &document, &tail, Some(json!({ "role": "commenter" }))).await;
                assert_eq!(
                    (other.status, &other.data()["role"]),
                    (200, &json!("commenter")),
                    "{}",
                    other.text
                );
                assert_eq!(shares_of(&world, &document), [tuple(&document, "commenter", "user:subject-2")]);
                let audit = world.module.audit().await;
                let roles: Vec<&Value> = audit[2..].iter().map(|row| &row["payload"]["role"]).collect();
                assert_eq!(
                    roles,
                    [&json!({ "from": from, "to": to }), &json!({ "from": to, "to": "commenter" })]
                );
            }
        }
    }
}

#[tokio::test]
async fn a_share_that_breaks_off_is_in_lists_of_documents_from_its_confirmation_to_its_removal() {
    let world = World::of(4).await;
    let document = world.document(1, "Plan").await;
    for fault in [Fault::LostBefore, Fault::LostAfter] {
        world.fail(&[fault]);
        assert_eq!(world.share(1, &document, 2, "viewer").await.status, 503);
        assert!(world.listed(2, "view=shared").await.is_empty());
        let listed = world.on(1, "GET", &document, "/shares", None).await;
        assert_eq!(
            listed.data().as_array().map(Vec::len),
            Some(1),
            "it may open the document: {}",
            listed.text
        );
    }
    let other = world.share(1, &document, 2, "editor").await;
    assert_eq!((other.status, other.code()), (409, "SHARE_EXISTS"));
    let share = id(&world.share(1, &document, 2, "viewer").await);
    let exists = world.share(1, &document, 2, "viewer").await;
    assert_eq!((exists.status, exists.code()), (409, "SHARE_EXISTS"));
    let tail = format!("/shares/{share}");
    for fault in [Fault::LostBefore, Fault::LostAfter] {
        world.fail(&[fault]);
        assert_eq!(world.on(1, "DELETE", &document, &tail, None).await.status, 503);
        assert_eq!(world.listed(2, "view=shared").await, ["Plan: viewer"], "never less than may be open");
    }
    let taken = world.on(1, "DELETE", &document, &tail, None).await;
    assert_eq!((taken.status, &taken.data()["id"]), (200, &json!(share)));
    assert!(world.listed(2, "view=shared").await.is_empty() && shares_of(&world, &document).is_empty());
    assert_eq!(world.on(1, "DELETE", &document, &tail, None).await.status, 404);
    world.fail(&[Fault::Refused]);
    let before = world.module.contents().await;
    assert_eq!(world.share(1, &document, 2, "viewer").await.status, 403);
    assert_eq!(world.module.contents().await, before);
}

#[tokio::test]
async fn everybody_removes_the_own_member_share_and_nobody_elses() {
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    let [own, other] = [2, 3].map(async |who| id(&world.share(1, &document, who, "viewer").await));
    let (own, other) = (own.await, other.await);
    assert_eq!(world.on(2, "DELETE", &document, &format!("/shares/{other}"), None).await.status, 403);
    assert_eq!(world.on(2, "DELETE", &document, &format!("/shares/{own}"), None).await.status, 200);
    assert!(!world.may_read(2, &document).await);
}

#[tokio::test]
async fn two_hundred_shares_are_the_most() {
    let world = World::of(4).await;
    let document = world.document(1, "Plan").await;
    world.fill_shares(&document, 199).await;
    let group = world.group(&[2]);
    let last =
        world.on(1, "POST", &document, "/shares", Some(json!({ "groupId": group, "role": "viewer" }))).await;
    assert_eq!(last.status, 201, "{}", last.text);
    let over = world.share(1, &document, 2, "viewer").await;
    assert_eq!((over.status, reason(&over)), (422, "TOO_MANY_SHARES"));
    assert_eq!(over.body["error"]["details"]["maxShares"], 200);
    assert_eq!(
        world.on(1, "GET", &document, "/shares", None).await.data().as_array().map(Vec::len),
        Some(200)
    );
}

/// Whether the document opens for a person, and the lengths of the person's lists and searches.
async fn seen(world: &World, who: usize, document: &str) -> (bool, Vec<usize>) {
    let mut lists = Vec::new();
    for query in ["view=shared", "view=visible", "view=visible&q=plan"] {
        lists.push(world.listed(who, query).await.len());
    }
    let folders = world.ask(who, "GET", "/folders", None).await;
    lists.push(folders.data()["items"].as_array().expect("a page").len());
    (world.may_read(who, document).await, lists)
}

#[tokio::test]
async fn lists_and_searches_show_a_broken_off_removal_and_leave_out_what_a_change_has_closed() {
    for (step, change) in
        ["revoke", "lower", "revoke of a folder", "move", "move out"].into_iter().enumerate()
    {
        let world = World::of(5).await;
        let there = world.folder(1, "There", None).await;
        let folder = world.folder(1, "Here", None).await;
        let in_folder = step >= 2;
        let body = json!({ "title": "Plan", "folderId": in_folder.then_some(&folder) });
        let document = id(&world.ask(1, "POST", "/documents", Some(body)).await);
        let on = if in_folder { format!("/folders/{folder}") } else { format!("/documents/{document}") };
        let body = json!({ "memberId": world.people[2].member, "role": "commenter" });
        let share = id(&world.ask(1, "POST", &format!("{on}/shares"), Some(body)).await);
        let open = (true, vec![1, 1, 1, usize::from(in_folder)]);
        assert_eq!(seen(&world, 2, &document).await, open, "control: {change}");
        let share = format!("{on}/shares/{share}");
        let to = format!("/documents/{document}/move");
        let (method, tail, body) = match change {
            "lower" => ("PUT", share, Some(json!({ "role": "viewer" }))),
            "move" => ("POST", to, Some(json!({ "folderId": there }))),
            "move out" => ("POST", to, Some(json!({ "folderId": null }))),
            _ => ("DELETE", share, None),
        };
        world.fail(&[Fault::LostAfter]);
        assert_eq!(world.ask(1, method, &tail, body.clone()).await.status, 503, "{change}");
        let expected = match change {
            "lower" => (false, vec![0, 0, 0, 0]),
            _ => (false, open.1.clone()),
        };
        assert_eq!(seen(&world, 2, &document).await, expected, "{change}");
        assert_eq!(world.ask(1, method, &tail, body).await.status, 200, "{change}");
        let (opens, lists) = seen(&world, 2, &document).await;
        assert_eq!((opens, lists[0]), (change == "lower", usize::from(change == "lower")), "{change}");
    }
}

#[tokio::test]
async fn a_revoke_that_broke_off_after_the_tuple_is_finished_by_the_next_sweep() {
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    let share = id(&world.share(1, &document, 2, "viewer").await);
    world.fail(&[Fault::LostAfter]);
    assert_eq!(world.on(1, "DELETE", &document, &format!("/shares/{share}"), None).await.status, 503);
    let rows = "SELECT count(*) FROM docs.shares";
    assert_eq!(world.count(rows).await, 1);
    world
        .module
        .execute("UPDATE docs.shares SET attempted_at = now() - interval '1 minute'".to_owned())
        .await;
    sweep_after(&world, STALE_AFTER).await;
    assert_eq!(world.count(rows).await, 0);
}

#[tokio::test]
async fn a_share_whose_outcome_nobody_learnt_is_listed_and_can_be_taken_back() {
    let world = World::of(5).await;
    for fault in [Fault::LostAfter, Fault::LostBefore] {
        for who in [1, 0] {
            let document = world.document(1, "Plan").await;
            world.fail(&[fault]);
            assert_eq!(world.share(1, &document, 2, "viewer").await.status, 503);
            assert_eq!(world.may_read(2, &document).await, fault == Fault::LostAfter);
            let listed = world.on(who, "GET", &document, "/shares", None).await;
            let shares = listed.data().as_array().expect("a list").clone();
            assert_eq!(shares.len(), 1, "{fault:?}: {}", listed.text);
            let read = world.on(1, "GET", &document, "", None).await;
            assert_eq!(read.data()["sharedWithCount"], 1, "{fault:?}");
            let tail = format!("/shares/{}", shares[0]["id"].as_str().expect("an id"));
            let raised = world.on(1, "PUT", &document, &tail, Some(json!({ "role": "editor" }))).await;
            assert_eq!(raised.status, 409, "it is not settled yet: {}", raised.text);
            world.fail(&[Fault::LostBefore]);
            assert_eq!(world.on(who, "DELETE", &document, &tail, None).await.status, 503);
            let taken = world.on(who, "DELETE", &document, &tail, None).await;
            assert_eq!(taken.status, 200, "{fault:?}: {}", taken.text);
            assert!(!world.may_read(2, &document).await);
            let actions = world.actions(&format!("document:{document}")).await;
            assert_eq!(actions, ["document.created", "share.deleted"]);
            assert_eq!(world.on(who, "DELETE", &document, &tail, None).await.status, 404);
            let other = world.share(1, &document, 2, "editor").await;
            assert_eq!(other.status, 201, "another role may be given: {}", other.text);
        }
    }
    let folder = world.folder(1, "Team", None).await;
    let body = json!({ "memberId": world.people[2].member, "role": "viewer" });
    let shares = format!("/folders/{folder}/shares");
    world.fail(&[Fault::LostAfter]);
    assert_eq!(world.ask(1, "POST", &shares, Some(body)).await.status, 503);
    let listed = world.ask(1, "GET", &shares, None).await;
    let tail = format!("{shares}/{}", listed.data()[0]["id"].as_str().expect("an id"));
    assert_eq!(world.ask(1, "DELETE", &tail, None).await.status, 200);
    assert_eq!(world.ask(2, "GET", &format!("/folders/{folder}"), None).await.status, 403);
    // Control: a share that authz was never asked for is listed nowhere.
    let document = world.document(1, "Plan").await;
    world.fail(&[Fault::Refused]);
    assert_eq!(world.share(1, &document, 2, "viewer").await.status, 403);
    assert_eq!(world.on(1, "GET", &document, "/shares", None).await.data(), &json!([]));
}
