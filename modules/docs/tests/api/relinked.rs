//! Shares of a member row that org has linked to another login: they open nothing to the old login and show the new
//! one.

use contract::Clock;
use docs::Config;
use docs::shares::relinked;
use serde_json::{Value, json};
use service::module::Parts;
use tokio_util::sync::CancellationToken;

use crate::world::{Fault, World, id};

async fn shares(world: &World, document: &str) -> Vec<(Value, Value)> {
    let listed = world.on(1, "GET", document, "/shares", None).await;
    let shares = listed.data().as_array().expect("a list").clone();
    shares.into_iter().map(|share| (share["title"].clone(), share["role"].clone())).collect()
}

fn tuples_of(world: &World, subject: &str) -> Vec<String> {
    let facts = world.facts();
    let of = facts.tuples.iter().filter(|tuple| tuple.ends_with(&format!("@user:{subject}")));
    of.cloned().collect()
}

#[tokio::test]
async fn the_old_login_of_a_row_opens_nothing_on_its_next_request_and_an_unchanged_row_does() {
    let world = World::of(6).await;
    let document = world.document(1, "Plan").await;
    id(&world.share(1, &document, 2, "editor").await);
    id(&world.share(1, &document, 4, "viewer").await);
    world.relink(2, 3);
    assert!(!world.may_read(2, &document).await, "the old login reads");
    assert!(!world.may_read(3, &document).await, "nothing was given to the new one");
    assert!(world.may_read(4, &document).await, "a row whose login is the same");
    assert_eq!(tuples_of(&world, "subject-2"), [""; 0]);
    let audit = world.module.audit().await;
    let last = audit.last().expect("an audit row");
    assert_eq!(
        (&last["action"], &last["actor"], &last["payload"]["reason"]),
        (&json!("share.deleted"), &json!("system:relinked-shares"), &json!("MEMBER_RELINKED"))
    );
    let new = world.people[2].member;
    let again =
        world.on(1, "POST", &document, "/shares", Some(json!({ "memberId": new, "role": "viewer" }))).await;
    assert_eq!(again.status, 201, "{}", again.text);
    assert!(world.may_read(3, &document).await, "it is shared with the row's new login");
    assert!(!world.may_read(2, &document).await);
}

#[tokio::test]
async fn a_folder_shared_with_a_row_opens_to_its_old_login_no_more() {
    let world = World::of(5).await;
    let folder = world.folder(1, "Team", None).await;
    let inner = world.folder(1, "Inner", Some(&folder)).await;
    let body = json!({ "title": "Plan", "body": "text", "folderId": inner });
    let document = id(&world.ask(1, "POST", "/documents", Some(body)).await);
    let share = json!({ "memberId": world.people[2].member, "role": "editor" });
    id(&world.ask(1, "POST", &format!("/folders/{folder}/shares"), Some(share)).await);
    assert!(world.may_read(2, &document).await);
    world.relink(2, 3);
    let into = json!({ "title": "Mine", "folderId": inner });
    world.fail(&[Fault::LostBefore, Fault::LostAfter]);
    for _ in 0..2 {
        let unanswered = world.on(2, "GET", &document, "", None).await;
        assert_eq!(unanswered.status, 503, "there is no decision before: {}", unanswered.text);
    }
    assert_eq!(world.ask(2, "POST", "/documents", Some(into)).await.status, 403);
    assert!(!world.may_read(2, &document).await);
    assert_eq!(tuples_of(&world, "subject-2"), [""; 0]);
}

#[tokio::test]
async fn giving_raising_accepting_and_listing_speak_of_the_person_behind_the_row_now() {
    let world = World::of(6).await;
    let row = world.people[2].member;
    let documents = [
        world.document(1, "Given").await,
        world.document(1, "Raised").await,
        world.document(1, "Accepted").await,
        world.document(1, "Listed").await,
    ];
    let mut first = Vec::new();
    for document in &documents {
        first.push(id(&world.share(1, document, 2, "viewer").await));
    }
    assert_eq!(shares(&world, &documents[3]).await, [(json!("Person 2"), json!("viewer"))]);
    world.relink(2, 3);

    let body = json!({ "memberId": row, "role": "editor" });
    let given = world.on(1, "POST", &documents[0], "/shares", Some(body)).await;
    assert_eq!(given.status, 201, "{}", given.text);
    let raise = format!("/shares/{}", first[1]);
    let raised = world.on(1, "PUT", &documents[1], &raise, Some(json!({ "role": "editor" }))).await;
    assert_eq!(raised.status, 404, "that share has ended: {}", raised.text);
    let wanted =
        id(&world.on(3, "POST", &documents[2], "/access-requests", Some(json!({ "role": "editor" }))).await);
    let accepted =
        world.on(1, "POST", &documents[2], &format!("/access-requests/{wanted}/accept"), None).await;
    assert_eq!(accepted.status, 200, "{}", accepted.text);

    let new = (json!("Person 3"), json!("editor"));
    let lists = [vec![new.clone()], vec![], vec![new], vec![]];
    for (document, expected) in documents.iter().zip(lists) {
        assert_eq!(shares(&world, document).await, expected);
        assert_eq!(world.may_read(3, document).await, !expected.is_empty());
        assert!(!world.may_read(2, document).await);
    }
    assert_eq!(tuples_of(&world, "subject-2"), [""; 0]);
}

#[tokio::test]
async fn a_login_that_has_a_share_by_its_new_row_keeps_it_when_the_old_rows_share_ends() {
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    id(&world.share(1, &document, 2, "viewer").await);
    let new = world.relink(2, 3);
    let body = json!({ "memberId": new, "role": "viewer" });
    id(&world.on(1, "POST", &document, "/shares", Some(body)).await);
    assert!(world.may_read(2, &document).await);
    assert_eq!(shares(&world, &document).await, [(json!("Person 2"), json!("viewer"))]);
    assert_eq!(world.count("SELECT count(*) FROM docs.shares").await, 1);
}

#[tokio::test]
async fn a_row_that_is_blocked_for_a_while_keeps_its_shares() {
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    id(&world.share(1, &document, 2, "viewer").await);
    world.facts().active[2] = false;
    assert!(!world.may_read(2, &document).await);
    world.facts().active[2] = true;
    assert!(world.may_read(2, &document).await);
}

/// The parts that the worker runs with.
fn worker(world: &World) -> Parts {
    let config = Config::read(&world.module.settings).expect("the settings of a test are right");
    Parts::start(&config.module, Clock::system(), &CancellationToken::new()).expect("the parts")
}

#[tokio::test]
async fn the_worker_removes_the_shares_that_nobody_asks_about_and_nothing_else() {
    let world = World::of(7).await;
    let (document, folder) = (world.document(1, "Plan").await, world.folder(1, "Team", None).await);
    for who in [2, 3, 4] {
        id(&world.share(1, &document, who, "editor").await);
        let share = json!({ "memberId": world.people[who].member, "role": "viewer" });
        id(&world.ask(1, "POST", &format!("/folders/{folder}/shares"), Some(share)).await);
    }
    let worker = worker(&world);
    let all = world.facts().tuples.clone();
    world.unlink(2);
    world.unlink(4);
    relinked::sweep(&worker).await.expect("org and authz answer");
    assert_eq!(world.facts().tuples, all, "control: a login that nobody has may come back");
    world.row_for(2);
    world.relink(3, 5);
    world.fail(&[Fault::LostBefore]);
    relinked::sweep(&worker).await.expect_err("authz does not answer");
    assert_eq!(tuples_of(&world, "subject-2").len(), 2, "nothing is removed unasked");
    docs::sweep(&worker, std::time::Duration::ZERO).await.expect("authz answers");
    relinked::sweep(&worker).await.expect("org and authz answer");
    for (subject, left) in [("subject-2", 0), ("subject-3", 0), ("subject-4", 2)] {
        assert_eq!(tuples_of(&world, subject).len(), left, "{subject}");
    }
    assert_eq!(world.count("SELECT count(*) FROM docs.shares").await, 2);
    let rows = world.module.audit().await;
    let ended: Vec<_> = rows.iter().filter(|row| row["action"] == "share.deleted").collect();
    assert_eq!(ended.len(), 4);
    for row in ended {
        assert_eq!(
            (&row["actor"], &row["payload"]["reason"]),
            (&json!("system:relinked-shares"), &json!("MEMBER_RELINKED"))
        );
    }
}

#[tokio::test]
async fn an_owner_whose_row_has_another_login_is_not_taken_for_that_person_and_can_be_set_right() {
    let world = World::of(6).await;
    let (document, folder) = (world.document(1, "Plan").await, world.folder(1, "Team", None).await);
    id(&world.share(1, &document, 4, "viewer").await);
    let name = async |who: usize, tail: String| {
        let read = world.ask(who, "GET", &tail, None).await;
        assert_eq!(read.status, 200, "{}", read.text);
        let one = if read.data()["items"].is_array() { &read.data()["items"][0] } else { read.data() };
        one["ownerDisplayName"].clone()
    };
    let tails = || [format!("/documents/{document}"), "/documents?view=shared".to_owned()];
    let new = world.relink(1, 3);
    for tail in tails() {
        assert_eq!(name(4, tail).await, "Person 1", "not the person behind the row now");
    }
    for tail in [format!("/folders/{folder}"), "/folders".to_owned()] {
        assert_eq!(name(1, tail).await, "Person 1");
    }
    let tuples = world.facts().tuples.clone();
    let transfer = async |who: usize| {
        world.on(who, "POST", &document, "/transfer", Some(json!({ "memberId": new }))).await
    };
    assert_eq!(transfer(4).await.status, 403, "control: a viewer");
    let set = transfer(1).await;
    assert_eq!((set.status, &set.data()["ownerMemberId"]), (200, &json!(new)), "{}", set.text);
    assert_eq!(world.facts().tuples.clone(), tuples, "the owner is the same");
    let told = world.module.audit().await.last().expect("a row").clone();
    assert_eq!(
        (&told["action"], &told["payload"]["ownerMemberId"]["to"]),
        (&json!("ownership.member_changed"), &json!(new))
    );
    let again = transfer(1).await;
    assert_eq!((again.status, crate::world::reason(&again)), (422, "PRINCIPAL_IS_OWNER"));
}
