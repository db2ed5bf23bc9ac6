//! Documents: create, read, change, trash and restore, with their tuples and audit rows.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{Fault, World, id, reason};

#[tokio::test]
async fn a_document_is_created_with_its_tuples_its_first_version_and_an_audit_row() {
    let world = World::of(3).await;
    let made = world.ask(1, "POST", "/documents", Some(json!({ "title": "Plan", "body": "zwölf" }))).await;
    let document = id(&made);
    let expected = json!({
        "id": document, "companyId": world.module.company, "title": "Plan", "version": 1,
        "ownerMemberId": world.people[1].member, "ownerDisplayName": "Person 1", "generalAccess": "restricted",
        "editorsCanShare": true, "isTemplate": false, "folderId": null, "myRole": "owner", "sharedWithCount": 0,
        "trashedAt": null, "createdAt": made.data()["createdAt"], "updatedAt": made.data()["updatedAt"],
        "updatedBy": "subject-1", "body": "zwölf",
    });
    assert_eq!(made.data(), &expected);
    let read = world.on(1, "GET", &document, "", None).await;
    assert_eq!((read.data(), read.header("cache-control")), (&expected, "no-store"));
    let company = world.module.company;
    let tuples = [
        format!("docs_document:{document}#company_module@company_module:{company}/docs"),
        format!("docs_document:{document}#owner@user:subject-1"),
    ];
    assert!(world.facts().tuples.iter().eq(&tuples));
    let told = json!({ "title": { "from": null, "to": "Plan" }, "size": { "from": null, "to": 5 } });
    let audit = world.module.audit().await;
    assert_eq!((audit.len(), &audit[0]["payload"]), (1, &told));
    assert_eq!(audit[0]["subject"], format!("document:{document}"));
}

#[tokio::test]
async fn a_body_is_optional_and_the_longest_one_with_the_longest_title_fits() {
    let world = World::of(3).await;
    let empty = world.ask(1, "POST", "/documents", Some(json!({ "title": "t" }))).await;
    assert_eq!((empty.status, &empty.data()["body"]), (201, &json!("")));
    // Distinct four-byte characters: the most that a text vector has to hold.
    let wide: String =
        (0..250_000_u32).flat_map(|n| [char::from_u32(0x2_0000 + n % 40_000).unwrap_or('x'), ' ']).collect();
    assert_eq!(wide.chars().count(), 500_000);
    let body = json!({ "title": "ä".repeat(200), "body": wide });
    let made = world.ask(1, "POST", "/documents", Some(body)).await;
    assert_eq!(made.status, 201, "{}", made.code());
    assert_eq!(made.data()["body"].as_str().map(|body| body.chars().count()), Some(500_000));
    for (body, field) in [
        (json!({ "title": "t", "body": "x".repeat(500_001) }), "body length"),
        (json!({ "title": "ä".repeat(201) }), "title length"),
        (json!({ "title": "t", "body": "a\u{0}b" }), "body control"),
        (json!({ "title": "  " }), "title blank"),
    ] {
        let refused = world.ask(1, "POST", "/documents", Some(body)).await;
        assert_eq!(refused.wrong_fields(), [field]);
    }
}

#[tokio::test]
async fn a_change_is_a_new_version_and_one_from_an_old_version_writes_nothing() {
    let world = World::of(3).await;
    let document = world.document(1, "Plan").await;
    let put = async |body: Value| world.on(1, "PUT", &document, "", Some(body)).await;
    let changed = put(json!({ "body": "two", "baseVersion": 1 })).await;
    assert_eq!((changed.status, &changed.data()["version"]), (200, &json!(2)), "{}", changed.text);
    assert_eq!((&changed.data()["title"], &changed.data()["body"]), (&json!("Plan"), &json!("two")));
    let before = world.module.contents().await;
    let late = put(json!({ "title": "Old", "body": "mine", "baseVersion": 1 })).await;
    assert_eq!((late.status, late.code()), (409, "VERSION_CONFLICT"));
    let expected =
        json!({ "currentVersion": 2, "updatedBy": "subject-1", "updatedAt": changed.data()["updatedAt"] });
    assert_eq!(late.body["error"]["details"], expected);
    let same = put(json!({ "title": "Plan", "body": "two", "isTemplate": false, "baseVersion": 2 })).await;
    assert_eq!((same.status, &same.data()["version"]), (200, &json!(2)));
    assert_eq!(world.module.contents().await, before, "neither writes anything");
    let renamed = put(json!({ "title": "Plans", "baseVersion": 2 })).await;
    assert_eq!(renamed.data()["version"], 3);
    let audit = world.module.audit().await;
    let told: Vec<&Value> = audit.iter().map(|row| &row["payload"]).collect();
    assert_eq!(told[1], &json!({ "version": { "from": 1, "to": 2 }, "size": { "from": 12, "to": 3 } }));
    let renaming = json!({ "version": { "from": 2, "to": 3 }, "title": { "from": "Plan", "to": "Plans" } });
    assert_eq!(told[2], &renaming);
    let none = put(json!({ "title": "x" })).await;
    assert_eq!(none.wrong_fields(), ["baseVersion required"]);
}

#[tokio::test]
async fn the_trash_holds_a_document_for_its_managers_only() {
    let world = World::of(4).await;
    let document = world.document(1, "Plan").await;
    assert_eq!(world.share(1, &document, 2, "editor").await.status, 201);
    let trashed = world.on(1, "DELETE", &document, "", None).await;
    assert_eq!(trashed.status, 200, "{}", trashed.text);
    assert!(trashed.data()["trashedAt"].is_string() && trashed.data().get("body").is_none());
    assert_eq!(world.listed(1, "view=trash").await, ["Plan: owner"]);
    assert_eq!(world.listed(0, "view=trash_all").await, ["Plan: manager"]);
    for view in ["view=mine", "view=visible"] {
        assert!(world.listed(1, view).await.is_empty());
    }
    let put = Some(json!({ "body": "x", "baseVersion": 1 }));
    for (method, tail, body) in [
        ("GET", "", None),
        ("PUT", "", put),
        ("DELETE", "", None),
        ("GET", "/versions", None),
        ("PUT", "/access", Some(json!({ "generalAccess": "company_view" }))),
        ("POST", "/comments", Some(json!({ "body": "why" }))),
        ("POST", "/shares", Some(json!({ "memberId": world.people[2].member, "role": "viewer" }))),
    ] {
        for who in [0, 1] {
            let reply = world.on(who, method, &document, tail, body.clone()).await;
            assert_eq!((reply.status, reply.code()), (409, "DOCUMENT_TRASHED"), "{method} {tail}");
        }
        let editor = world.on(2, method, &document, tail, body).await;
        assert_eq!((editor.status, editor.code()), (404, "NOT_FOUND"), "{method} {tail}");
    }
    for tail in ["/shares", "/history"] {
        assert_eq!(world.on(1, "GET", &document, tail, None).await.status, 200, "{tail}");
        assert_eq!(world.on(2, "GET", &document, tail, None).await.status, 404, "{tail}");
    }
    let restored = world.on(0, "POST", &document, "/restore", None).await;
    assert_eq!((restored.status, &restored.data()["trashedAt"]), (200, &Value::Null));
    let again = world.on(1, "POST", &document, "/restore", None).await;
    assert_eq!((again.status, again.code()), (409, "DOCUMENT_NOT_TRASHED"));
    let audit = world.module.audit().await;
    let [trash, restore] = [&audit[2], &audit[3]];
    assert_eq!((&trash["action"], &trash["payload"]), (&json!("document.trashed"), &json!({})));
    let by_manager = json!({ "asManager": true });
    assert_eq!((&restore["action"], &restore["payload"]), (&json!("document.restored"), &by_manager));
}

#[tokio::test]
async fn a_key_makes_one_document_whatever_breaks_off() {
    let world = World::of(3).await;
    let body = || Some(json!({ "title": "Plan", "body": "one" }));
    let create = async || world.ask_keyed(1, "POST", "/documents", body(), Some("k")).await;
    for fault in [Fault::LostBefore, Fault::LostAfter] {
        world.fail(&[fault]);
        assert_eq!(create().await.status, 503);
        assert!(world.listed(1, "view=mine").await.is_empty(), "it is not usable yet");
    }
    let held = world.count("SELECT count(*) FROM docs.documents").await;
    assert_eq!(held, 1, "the same row was resumed");
    let made = create().await;
    let again = create().await;
    assert_eq!((made.status, again.status, made.data()), (201, 201, again.data()));
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(world.listed(1, "view=mine").await.len(), 1);
    assert_eq!(world.facts().tuples.len(), 2);
    let other = world.ask_keyed(1, "POST", "/documents", Some(json!({ "title": "x" })), Some("k")).await;
    assert_eq!((other.status, other.code()), (422, "IDEMPOTENCY_KEY_REUSED"));
    let theirs = world.ask_keyed(0, "POST", "/documents", body(), Some("k")).await;
    assert_eq!(theirs.status, 201, "another one's key is another key");
}

#[tokio::test]
async fn a_creation_that_authz_refuses_leaves_nothing() {
    let world = World::of(3).await;
    let before = world.module.contents().await;
    world.fail(&[Fault::Refused]);
    let refused = world.ask_keyed(1, "POST", "/documents", Some(json!({ "title": "t" })), Some("k")).await;
    assert_eq!((refused.status, refused.code()), (403, "AUTHORIZATION_DENIED"));
    assert_eq!(world.module.contents().await, before);
}

#[tokio::test]
async fn general_access_opens_a_document_to_every_active_member() {
    let world = World::of(4).await;
    let document = world.document(1, "Plan").await;
    assert!(!world.may_read(2, &document).await);
    let access = async |body: Value| world.on(1, "PUT", &document, "/access", Some(body)).await;
    let opened = access(json!({ "generalAccess": "company_view" })).await;
    assert_eq!((opened.status, &opened.data()["generalAccess"]), (200, &json!("company_view")));
    let read = world.on(2, "GET", &document, "", None).await;
    assert_eq!((read.status, &read.data()["myRole"]), (200, &json!("viewer")));
    let put = || Some(json!({ "body": "x", "baseVersion": 1 }));
    assert_eq!(world.on(2, "PUT", &document, "", put()).await.status, 403);
    assert_eq!(access(json!({ "generalAccess": "company_edit" })).await.status, 200);
    let changed = world.on(2, "PUT", &document, "", put()).await;
    assert_eq!((changed.status, &changed.data()["myRole"]), (200, &json!("editor")));
    assert_eq!(world.listed(2, "view=shared").await, ["Plan: editor"]);
    world.facts().active[2] = false;
    assert_eq!(world.on(2, "GET", &document, "", None).await.status, 403);
    let before = world.module.contents().await;
    assert_eq!(access(json!({})).await.status, 200);
    assert_eq!(world.module.contents().await, before, "what does not change is not written");
}

#[tokio::test]
async fn a_template_is_listed_and_duplicated_without_its_shares() {
    let world = World::of(4).await;
    let document = world.document(1, "Form").await;
    world.document(1, "Other").await;
    assert_eq!(world.share(1, &document, 2, "viewer").await.status, 201);
    let marked =
        world.on(1, "PUT", &document, "", Some(json!({ "isTemplate": true, "baseVersion": 1 }))).await;
    assert_eq!((&marked.data()["isTemplate"], &marked.data()["version"]), (&json!(true), &json!(1)));
    assert_eq!(world.listed(1, "templates=true").await, ["Form: owner"]);
    assert_eq!(world.listed(2, "view=shared&templates=true").await, ["Form: viewer"]);
    let copy = world.on(2, "POST", &document, "/duplicate", Some(json!({}))).await;
    assert_eq!(copy.status, 201, "{}", copy.text);
    let [title, body] = ["title", "body"].map(|name| copy.data()[name].clone());
    assert_eq!((title, body), (json!("Form"), json!("text of Form")));
    assert_eq!((&copy.data()["myRole"], &copy.data()["sharedWithCount"]), (&json!("owner"), &json!(0)));
    assert_eq!(copy.data()["isTemplate"], false);
    let foreign = world.document(1, "Secret").await;
    assert_eq!(world.on(2, "POST", &foreign, "/duplicate", Some(json!({}))).await.status, 403);
    let keyed = async || {
        let tail = format!("/documents/{document}/duplicate");
        id(&world.ask_keyed(2, "POST", &tail, Some(json!({ "title": "Mine" })), Some("d")).await)
    };
    assert_eq!(keyed().await, keyed().await);
}

#[tokio::test]
async fn a_document_is_made_only_in_a_folder_that_the_caller_may_change() {
    let world = World::of(4).await;
    let folder = world.folder(1, "Policies", None).await;
    let create = async |who, folder: &str| {
        world.ask(who, "POST", "/documents", Some(json!({ "title": "In", "folderId": folder }))).await
    };
    assert_eq!(create(2, &folder).await.status, 403);
    let unknown = create(1, &Uuid::now_v7().to_string()).await;
    assert_eq!((unknown.status, reason(&unknown)), (422, "FOLDER_UNKNOWN"));
    let made = create(1, &folder).await;
    assert_eq!((made.status, &made.data()["folderId"]), (201, &json!(folder)), "{}", made.text);
    let parent = format!("docs_document:{}#parent@docs_folder:{folder}", id(&made));
    assert!(world.facts().tuples.contains(&parent));
    assert_eq!(world.listed(1, &format!("view=mine&folderId={folder}")).await, ["In: owner"]);
}

#[tokio::test]
async fn the_kept_counts_are_those_of_the_rows_however_documents_change_at_once() {
    let world = World::of(3).await;
    let mut made = Vec::new();
    for at in 0..4 {
        made.push(world.document(1, &format!("Plan {at}")).await);
    }
    let access = |word: &str| Some(json!({ "generalAccess": word }));
    for round in 0..testkit::races() {
        let calls = made.iter().flat_map(|document| {
            let on = format!("/documents/{document}");
            [
                ("DELETE", on.clone(), None),
                ("POST", format!("{on}/restore"), None),
                ("PUT", format!("{on}/access"), access("company_edit")),
                ("PUT", format!("{on}/access"), access("restricted")),
                ("POST", "/documents".to_owned(), Some(json!({ "title": "Another" }))),
            ]
        });
        let asked = calls.map(async |(method, tail, body)| world.ask(1, method, &tail, body).await.status);
        for status in futures_util::future::join_all(asked).await {
            assert!(matches!(status, 200 | 201 | 409), "round {round}: {status}");
        }
        let wrong = "SELECT count(*) FROM docs.document_counts c WHERE (active, open, trashed) <> (
            SELECT count(*) FILTER (WHERE state = 'active'),
              count(*) FILTER (WHERE state = 'active' AND general_access <> 'restricted'),
              count(*) FILTER (WHERE state = 'trashed') FROM docs.documents d WHERE d.company_id = c.company_id)";
        assert_eq!(world.count(wrong).await, 0, "round {round}");
        let rows = world.count("SELECT count(*) FROM docs.documents WHERE state = 'active'").await;
        for query in ["view=all", "view=all&q=a", "view=mine", "view=visible"] {
            let who = usize::from(!query.contains("all"));
            let listed = world.ask(who, "GET", &format!("/documents?{query}"), None).await;
            assert_eq!(listed.data()["total"], rows, "round {round}, {query}");
        }
    }
}
