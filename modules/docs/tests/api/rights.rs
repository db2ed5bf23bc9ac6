//! Who may do what, by role (properties 4 to 10, 12 and 13 of the design's page).

use futures_util::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{World, id, reason};

/// A document owned by the second person, shared with the third as a viewer and the fourth as an editor.
async fn shared() -> (World, String) {
    let world = World::of(6).await;
    let document = world.document(1, "Plan").await;
    for (who, role) in [(2, "viewer"), (3, "editor")] {
        assert_eq!(world.share(1, &document, who, role).await.status, 201);
    }
    (world, document)
}

fn share_with(world: &World, who: usize, role: &str) -> Value {
    json!({ "memberId": world.people[who].member, "role": role })
}

#[tokio::test]
async fn property_4_of_parallel_saves_one_wins_and_versions_have_no_gaps() {
    let world = World::of(3).await;
    let document = world.document(1, "Plan").await;
    for base in 1..=10 {
        let save = async |n: i32| {
            let body = json!({ "body": format!("{base}-{n}"), "baseVersion": base });
            world.on(1, "PUT", &document, "", Some(body)).await
        };
        let replies = join_all((0..6).map(save)).await;
        let won: Vec<_> = replies.iter().filter(|reply| reply.status == 200).collect();
        assert_eq!(won.len(), 1);
        assert!(replies.iter().all(|reply| reply.status == 200 || reply.code() == "VERSION_CONFLICT"));
        let read = world.on(1, "GET", &document, "", None).await;
        assert_eq!(read.data()["body"], won[0].data()["body"]);
        assert_eq!(read.data()["version"], base + 1);
    }
    let gaps = "SELECT count(*) FROM (SELECT 1 FROM docs.versions GROUP BY document_id
                HAVING count(*) <> max(version) OR min(version) <> 1) AS gaps";
    assert_eq!(world.count(gaps).await, 0);
}

#[tokio::test]
async fn property_5_an_administrator_manages_without_reading() {
    let (world, document) = shared().await;
    for tail in ["", "/versions", "/versions/1", "/comments"] {
        let reply = world.on(0, "GET", &document, tail, None).await;
        assert_eq!((reply.status, reply.code()), (403, "AUTHORIZATION_DENIED"), "{tail}");
    }
    for tail in ["/shares", "/history"] {
        assert_eq!(world.on(0, "GET", &document, tail, None).await.status, 200, "{tail}");
    }
    let put = json!({ "body": "x", "baseVersion": 1 });
    assert_eq!(world.on(0, "PUT", &document, "", Some(put)).await.status, 403);
    let made = world.on(0, "POST", &document, "/shares", Some(share_with(&world, 4, "viewer"))).await;
    let access = world.on(0, "PUT", &document, "/access", Some(json!({ "editorsCanShare": false }))).await;
    let trashed = world.on(0, "DELETE", &document, "", None).await;
    let restored = world.on(0, "POST", &document, "/restore", None).await;
    let body = json!({ "memberId": world.people[2].member });
    let moved = world.on(0, "POST", &document, "/transfer", Some(body)).await;
    let statuses = [&made, &access, &trashed, &restored, &moved].map(|reply| reply.status);
    assert_eq!(statuses, [201, 200, 200, 200, 200], "{}", moved.text);
    assert_eq!(access.data()["myRole"], "manager");
    let audit = world.module.audit().await;
    let by_manager = |row: &&Value| row["payload"]["asManager"] == true;
    let told: Vec<&str> = audit.iter().filter(by_manager).filter_map(|row| row["action"].as_str()).collect();
    let expected =
        ["share.created", "access.changed", "document.trashed", "document.restored", "ownership.transferred"];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn property_6_viewers_read_only_and_editors_share_where_they_are_let() {
    let (world, document) = shared().await;
    let shares = world.on(1, "GET", &document, "/shares", None).await;
    let own_level = shares.data()[1]["id"].as_str().expect("an id").to_owned();
    let transfer = json!({ "memberId": world.people[4].member });
    for (method, tail, body) in [
        ("PUT", String::new(), Some(json!({ "body": "x", "baseVersion": 1 }))),
        ("POST", "/versions/1/restore".to_owned(), None),
        ("POST", "/shares".to_owned(), Some(share_with(&world, 4, "viewer"))),
        ("PUT", format!("/shares/{own_level}"), Some(json!({ "role": "viewer" }))),
        ("PUT", "/access".to_owned(), Some(json!({ "generalAccess": "company_edit" }))),
        ("POST", "/transfer".to_owned(), Some(transfer.clone())),
        ("POST", "/move".to_owned(), Some(json!({ "folderId": null }))),
        ("DELETE", String::new(), None),
    ] {
        let reply = world.on(2, method, &document, &tail, body).await;
        assert_eq!((reply.status, reply.code()), (403, "AUTHORIZATION_DENIED"), "{method} {tail}");
    }
    let by_editor =
        id(&world.on(3, "POST", &document, "/shares", Some(share_with(&world, 4, "editor"))).await);
    let tail = format!("/shares/{by_editor}");
    assert_eq!(world.on(3, "PUT", &document, &tail, Some(json!({ "role": "viewer" }))).await.status, 200);
    for (method, tail, body) in [
        ("PUT", "/access", Some(json!({ "editorsCanShare": true }))),
        ("POST", "/transfer", Some(transfer)),
        ("DELETE", "", None),
    ] {
        assert_eq!(world.on(3, method, &document, tail, body).await.status, 403, "{method} {tail}");
    }
    let closed = world.on(1, "PUT", &document, "/access", Some(json!({ "editorsCanShare": false }))).await;
    assert_eq!(closed.status, 200);
    let position = world.position(None);
    let body = json!({ "positionId": position, "role": "viewer" });
    assert_eq!(world.on(3, "POST", &document, "/shares", Some(body.clone())).await.status, 403);
    assert_eq!(world.on(1, "POST", &document, "/shares", Some(body)).await.status, 201);
}

#[tokio::test]
async fn property_7_company_view_opens_to_every_member_and_to_nobody_else() {
    let (world, document) = shared().await;
    let open = Some(json!({ "generalAccess": "company_view" }));
    assert_eq!(world.on(1, "PUT", &document, "/access", open).await.status, 200);
    for who in [0, 4] {
        assert!(world.may_read(who, &document).await);
        let put = Some(json!({ "body": "x", "baseVersion": 1 }));
        assert_eq!(world.on(who, "PUT", &document, "", put).await.status, 403);
    }
    let stranger = world.module.issuer.issue("stranger");
    let call = |company: Uuid| {
        let path = world.module.path(company, &format!("/documents/{document}"));
        world.module.api.get(path).bearer(&stranger)
    };
    assert_eq!(call(world.module.company).send().await.status, 403, "the document's own company");
    assert_eq!(call(Uuid::now_v7()).send().await.status, 404, "under another company it is not there");
}

#[tokio::test]
async fn property_8_positions_and_groups_follow_who_is_in_them_without_a_write() {
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    let (position, group) = (world.position(None), world.group(&[]));
    for body in
        [json!({ "positionId": position, "role": "viewer" }), json!({ "groupId": group, "role": "editor" })]
    {
        assert_eq!(world.on(1, "POST", &document, "/shares", Some(body)).await.status, 201);
    }
    let before = world.module.contents().await;
    let seen = async |who| {
        let listed = world.listed(who, "view=shared").await;
        let searched = world.listed(who, "view=shared&q=plan").await;
        assert_eq!(
            (listed.len(), searched.len()),
            (usize::from(world.may_read(who, &document).await), listed.len())
        );
        listed.first().cloned()
    };
    for (holder, members) in
        [(Some(2), vec![]), (Some(3), vec![2]), (None, vec![2, 3]), (Some(2), vec![2]), (None, vec![])]
    {
        world.facts().positions.insert(position, holder);
        world.facts().groups.insert(group, members.iter().copied().collect());
        for who in [2, 3] {
            let expected = if members.contains(&who) {
                Some("Plan: editor".to_owned())
            } else {
                (holder == Some(who)).then(|| "Plan: viewer".to_owned())
            };
            assert_eq!(seen(who).await, expected);
        }
    }
    assert_eq!(world.module.contents().await, before);
}

#[tokio::test]
async fn property_9_a_deactivated_member_is_refused_everywhere_and_comes_back_as_before() {
    let (world, document) = shared().await;
    let calls = |who: usize| {
        let world = &world;
        let document = &document;
        async move {
            let mut statuses = Vec::new();
            for tail in ["", "/versions", "/shares", "/history", "/comments"] {
                statuses.push(world.on(who, "GET", document, tail, None).await.status);
            }
            statuses.push(world.ask(who, "GET", "/documents?view=shared", None).await.status);
            statuses
        }
    };
    assert_eq!(calls(2).await, [200; 6]);
    world.facts().active[2] = false;
    assert_eq!(calls(2).await, [403; 6]);
    world.facts().active[2] = true;
    assert_eq!(calls(2).await, [200; 6]);
}

#[tokio::test]
async fn property_10_a_restored_document_has_its_shares_and_versions() {
    let (world, document) = shared().await;
    let state = async || {
        let shares = world.on(1, "GET", &document, "/shares", None).await.data().clone();
        let versions = world.on(1, "GET", &document, "/versions", None).await;
        (shares, versions.status, versions.body["data"].clone(), world.listed(2, "view=shared").await)
    };
    let before = state().await;
    assert_eq!(world.on(1, "DELETE", &document, "", None).await.status, 200);
    assert_eq!(world.on(2, "GET", &document, "", None).await.status, 404);
    assert!(world.listed(2, "view=shared").await.is_empty());
    assert_eq!(world.on(1, "POST", &document, "/restore", None).await.status, 200);
    assert_eq!(state().await, before);
}

#[tokio::test]
async fn property_12_a_tuple_that_no_share_stands_for_changes_no_list() {
    let world = World::of(4).await;
    let document = world.document(1, "Plan").await;
    world.facts().tuples.insert(format!("docs_document:{document}#viewer@user:subject-2"));
    let read = world.on(2, "GET", &document, "", None).await;
    assert_eq!((read.status, &read.data()["myRole"]), (200, &json!("viewer")), "authz is the authority");
    assert!(world.listed(2, "view=visible").await.is_empty(), "the list is the module's own");
    let unknown = world.on(2, "GET", &Uuid::now_v7().to_string(), "", None).await;
    assert_eq!((unknown.status, reason(&unknown)), (404, ""));
}

#[tokio::test]
async fn property_13_texts_stand_only_where_they_are_read() {
    let world = World::of(5).await;
    let marker = "BODY-OF-A-DOCUMENT";
    let body = json!({ "title": "Plan", "body": marker });
    let document = id(&world.ask(1, "POST", "/documents", Some(body)).await);
    let again = json!({ "body": format!("{marker} again"), "baseVersion": 1 });
    assert_eq!(world.on(1, "PUT", &document, "", Some(again.clone())).await.status, 200);
    let conflict = world.on(1, "PUT", &document, "", Some(again)).await;
    assert_eq!(conflict.code(), "VERSION_CONFLICT");
    let shared = world.on(1, "POST", &document, "/shares", Some(share_with(&world, 2, "viewer"))).await;
    let access =
        world.on(1, "PUT", &document, "/access", Some(json!({ "generalAccess": "company_view" }))).await;
    let mut without = vec![conflict, shared, access];
    for tail in ["/versions", "/shares", "/history", "/comments", "/access-requests"] {
        without.push(world.on(1, "GET", &document, tail, None).await);
    }
    for view in ["mine", "visible", "trash"] {
        without.push(world.ask(1, "GET", &format!("/documents?view={view}&q=BODY"), None).await);
    }
    without.push(world.ask(0, "GET", "/documents?view=all", None).await);
    for reply in without {
        assert!(!reply.text.contains(marker), "{}", reply.text);
    }
    let audit = Value::from(world.module.audit().await).to_string();
    assert!(!audit.contains(marker));
    for tail in ["", "/versions/1"] {
        assert!(world.on(1, "GET", &document, tail, None).await.text.contains(marker), "{tail}");
    }
}

#[tokio::test]
async fn property_14_totals_are_the_number_of_items_over_all_pages() {
    let world = World::of(4).await;
    for n in 0..7 {
        let document = world.document(1, &format!("D{n}")).await;
        if n % 2 == 0 {
            assert_eq!(world.share(1, &document, 2, "viewer").await.status, 201);
        }
        if n % 3 == 0 {
            let open = Some(json!({ "generalAccess": "company_view" }));
            assert_eq!(world.on(1, "PUT", &document, "/access", open).await.status, 200);
        }
        if n == 6 {
            assert_eq!(world.on(1, "DELETE", &document, "", None).await.status, 200);
        }
    }
    for (who, view) in [
        (1, "mine"),
        (2, "shared"),
        (2, "visible"),
        (1, "trash"),
        (0, "all"),
        (0, "trash_all"),
        (2, "shared&q=D"),
    ] {
        for size in [1, 2, 3, 100] {
            let mut ids = Vec::new();
            let mut total = 0;
            for page in 1..=8 {
                let tail = format!("/documents?view={view}&page={page}&pageSize={size}");
                let reply = world.ask(who, "GET", &tail, None).await;
                total = reply.data()["total"].as_u64().expect("a number");
                let items = reply.data()["items"].as_array().expect("a page");
                ids.extend(items.iter().map(|item| item["id"].to_string()));
            }
            let found = ids.len();
            ids.sort();
            ids.dedup();
            assert_eq!(
                (ids.len(), found),
                (usize::try_from(total).expect("small"), ids.len()),
                "{view} {size}"
            );
        }
    }
}
