//! Requests for access: created by a member who cannot open a document, accepted by a share.

use serde_json::{Value, json};

use crate::narrowed::one_after_the_other;
use crate::world::{Fault, World, id};

async fn request(world: &World, who: usize, document: &str, role: &str) -> testkit::Reply {
    world.on(who, "POST", document, "/access-requests", Some(json!({ "role": role, "note": "please" }))).await
}

async fn decide(world: &World, who: usize, document: &str, request: &str, how: &str) -> testkit::Reply {
    world.on(who, "POST", document, &format!("/access-requests/{request}/{how}"), None).await
}

#[tokio::test]
async fn a_request_is_made_once_seen_by_those_who_share_and_met_by_a_share() {
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    let made = request(&world, 2, &document, "viewer").await;
    let wanted = id(&made);
    let expected = json!({ "id": wanted, "documentId": document, "memberId": world.people[2].member,
        "displayName": "Person 2", "role": "viewer", "note": "please", "status": "open",
        "createdAt": made.data()["createdAt"], "decidedAt": null, "decidedBy": null });
    assert_eq!(made.data(), &expected);
    let again = request(&world, 2, &document, "editor").await;
    assert_eq!((again.status, again.code()), (409, "ACCESS_REQUEST_OPEN"));
    let list = async |who| world.on(who, "GET", &document, "/access-requests?status=open", None).await;
    assert_eq!((list(1).await.data()["items"].clone(), list(2).await.status), (json!([expected]), 403));
    assert_eq!(decide(&world, 2, &document, &wanted, "accept").await.status, 403);
    world.fail(&[Fault::LostAfter]);
    assert_eq!(decide(&world, 1, &document, &wanted, "accept").await.status, 503);
    let accepted = decide(&world, 1, &document, &wanted, "accept").await;
    let [status, by] = ["status", "decidedBy"].map(|name| accepted.data()[name].clone());
    assert_eq!(
        (accepted.status, status, by),
        (200, json!("accepted"), json!("subject-1")),
        "{}",
        accepted.text
    );
    assert!(world.may_read(2, &document).await);
    let held = request(&world, 2, &document, "viewer").await;
    assert_eq!((held.status, held.code()), (409, "ACCESS_HELD"));
    let raise = id(&request(&world, 2, &document, "editor").await);
    let raised = decide(&world, 0, &document, &raise, "accept").await;
    assert_eq!((raised.status, &raised.data()["status"]), (200, &json!("accepted")), "{}", raised.text);
    let read = world.on(2, "GET", &document, "", None).await;
    assert_eq!(read.data()["myRole"], "editor");
    let twice = decide(&world, 1, &document, &raise, "decline").await;
    assert_eq!((twice.status, twice.code()), (409, "ACCESS_REQUEST_DECIDED"));
    let audit = world.module.audit().await;
    let accepted = audit.iter().filter(|row| row["action"] == "access_request.accepted");
    let by_manager: Vec<&Value> = accepted.map(|row| &row["payload"]["asManager"]).collect();
    assert_eq!(by_manager, [&Value::Null, &json!(true)]);
}

#[tokio::test]
async fn a_share_that_somebody_gives_meanwhile_meets_the_request_and_a_lesser_one_does_not() {
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    let wanted = id(&request(&world, 2, &document, "commenter").await);
    let share = id(&world.share(1, &document, 2, "viewer").await);
    let status = async || {
        let listed = world.on(1, "GET", &document, "/access-requests", None).await;
        listed.data()["items"][0]["status"].clone()
    };
    assert_eq!(status().await, "open");
    let raised =
        world.on(1, "PUT", &document, &format!("/shares/{share}"), Some(json!({ "role": "editor" }))).await;
    assert_eq!((raised.status, status().await), (200, json!("accepted")));
    let actions = world.actions(&format!("document:{document}")).await;
    assert!(actions.contains(&"access_request.accepted".to_owned()), "{actions:?} {wanted}");
}

#[tokio::test]
async fn a_declined_request_may_be_made_again() {
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    let wanted = id(&request(&world, 2, &document, "viewer").await);
    let declined = decide(&world, 1, &document, &wanted, "decline").await;
    assert_eq!((declined.status, &declined.data()["status"]), (200, &json!("declined")));
    assert!(!world.may_read(2, &document).await);
    id(&request(&world, 2, &document, "viewer").await);
    let all = world.on(1, "GET", &document, "/access-requests", None).await;
    assert_eq!(all.data()["total"], 2);
    let payload = &world.module.audit().await[2]["payload"];
    assert_eq!((payload["accessRequestId"].clone(), payload.get("note")), (json!(wanted), None::<&Value>));
    world.on(1, "DELETE", &document, "", None).await;
    assert_eq!(request(&world, 3, &document, "viewer").await.status, 404, "in the trash it is not there");
}

#[tokio::test]
async fn a_request_is_not_declined_while_a_share_that_meets_it_is_under_way() {
    for held in [None, Some("viewer")] {
        for fault in [Fault::LostBefore, Fault::LostAfter] {
            let world = World::of(5).await;
            let document = world.document(1, "Plan").await;
            if let Some(role) = held {
                id(&world.share(1, &document, 2, role).await);
            }
            let wanted = id(&request(&world, 2, &document, "editor").await);
            world.fail(&[fault]);
            assert_eq!(decide(&world, 1, &document, &wanted, "accept").await.status, 503);
            let declined = decide(&world, 0, &document, &wanted, "decline").await;
            assert_eq!((declined.status, declined.code()), (409, "ACCESS_REQUEST_DECIDED"), "{fault:?}");
            let accepted = decide(&world, 1, &document, &wanted, "accept").await;
            assert_eq!((accepted.status, &accepted.data()["status"]), (200, &json!("accepted")), "{fault:?}");
        }
    }
}

#[tokio::test]
async fn a_request_that_is_accepted_and_declined_at_once_is_decided_once() {
    let world = World::of(5).await;
    for round in 0..testkit::races() {
        let document = world.document(1, "Plan").await;
        if round % 2 == 1 {
            id(&world.share(1, &document, 2, "viewer").await);
        }
        let wanted = id(&request(&world, 2, &document, "editor").await);
        let (accepted, declined) = tokio::join!(
            decide(&world, 1, &document, &wanted, "accept"),
            decide(&world, 0, &document, &wanted, "decline")
        );
        let list = world.on(1, "GET", &document, "/access-requests", None).await;
        let status = list.data()["items"][0]["status"].clone();
        let expected = if status == "accepted" { (200, 409) } else { (409, 200) };
        assert_eq!((accepted.status, declined.status), expected, "{round} {status}: {}", accepted.text);
        let edits = format!("docs_document:{document}#editor@user:subject-2");
        assert_eq!(world.facts().tuples.contains(&edits), status == "accepted", "round {round}");
    }
}

#[tokio::test]
async fn a_request_is_met_for_the_login_that_made_it_and_for_no_other() {
    let world = World::of(7).await;
    let asked = async |held: Option<&str>| {
        let document = world.document(1, "Plan").await;
        if let Some(role) = held {
            id(&world.share(1, &document, 2, role).await);
        }
        let wanted = id(&request(&world, 2, &document, "editor").await);
        (document, wanted)
    };
    let (plain, held, given) = (asked(None).await, asked(Some("viewer")).await, asked(None).await);
    let unchanged = world.document(1, "Unchanged").await;
    let other = id(&request(&world, 4, &unchanged, "editor").await);
    let row = world.people[2].member;
    world.relink(2, 3);
    for (document, wanted) in [&plain, &held] {
        let accepted = decide(&world, 1, document, wanted, "accept").await;
        assert_eq!((accepted.status, accepted.code()), (409, "MEMBER_RELINKED"), "{}", accepted.text);
        for who in [2, 3] {
            assert!(!world.may_read(who, document).await, "{who} reads");
        }
    }
    // A share with the row's new login meets nothing that the old one asked for.
    let body = json!({ "memberId": row, "role": "editor" });
    id(&world.on(1, "POST", &given.0, "/shares", Some(body)).await);
    let listed = world.on(1, "GET", &given.0, "/access-requests", None).await;
    assert_eq!(listed.data()["items"][0]["status"], "open");
    let accepted = decide(&world, 1, &given.0, &given.1, "accept").await;
    assert_eq!((accepted.status, accepted.code()), (409, "MEMBER_RELINKED"), "{}", accepted.text);
    // The new login asks for itself; the old request no longer stands in its way.
    let own = id(&request(&world, 3, &plain.0, "viewer").await);
    let status = async |which: usize| {
        let listed = world.on(1, "GET", &plain.0, "/access-requests", None).await;
        listed.data()["items"][which]["status"].clone()
    };
    assert_eq!((status(0).await, status(1).await), (json!("declined"), json!("open")));
    assert_eq!(decide(&world, 1, &plain.0, &own, "accept").await.status, 200);
    assert!(world.may_read(3, &plain.0).await && !world.may_read(2, &plain.0).await);
    assert_eq!(decide(&world, 1, &held.0, &held.1, "decline").await.status, 200);
    assert_eq!(decide(&world, 1, &unchanged, &other, "accept").await.status, 200, "control");
    assert!(world.may_read(4, &unchanged).await);
}

#[tokio::test]
async fn a_request_is_not_made_for_a_document_in_the_trash_or_for_a_role_given_since_its_decision() {
    let world = World::of(5).await;
    let ask = || Some(json!({ "role": "viewer" }));
    let document = world.document(1, "Plan").await;
    let asked = world.on(2, "POST", &document, "/access-requests", ask()).await;
    assert_eq!(asked.status, 201, "control: {}", asked.text);
    for (method, tail, change, expected) in [
        ("DELETE", "", None, (404, "NOT_FOUND")),
        ("PUT", "/access", Some(json!({ "generalAccess": "company_view" })), (409, "ACCESS_HELD")),
    ] {
        let document = world.document(1, "Plan").await;
        let changed = world.on(1, method, &document, tail, change);
        let asked = world.on(2, "POST", &document, "/access-requests", ask());
        let (changed, asked) = Box::pin(one_after_the_other(&world, &document, changed, asked)).await;
        assert_eq!(changed.status, 200, "{}", changed.text);
        assert_eq!((asked.status, asked.code()), expected, "{}", asked.text);
    }
}
