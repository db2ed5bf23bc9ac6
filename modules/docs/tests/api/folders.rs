//! Folders: a share opens everything in a folder, moves take effect, and folders cannot form a cycle or nest too deep.

use serde_json::{Value, json};

use crate::world::{Fault, World, id, reason};

async fn place(world: &World, who: usize, document: &str, folder: Option<&str>) -> testkit::Reply {
    world.on(who, "POST", document, "/move", Some(json!({ "folderId": folder }))).await
}

async fn move_folder(world: &World, who: usize, folder: &str, parent: Option<&str>) -> testkit::Reply {
    world.ask(who, "POST", &format!("/folders/{folder}/move"), Some(json!({ "parentId": parent }))).await
}

async fn share(world: &World, who: usize, folder: &str, with: usize, role: &str) -> testkit::Reply {
    let body = json!({ "memberId": world.people[with].member, "role": role });
    world.ask(who, "POST", &format!("/folders/{folder}/shares"), Some(body)).await
}

fn parents(world: &World) -> Vec<String> {
    let facts = world.facts();
    facts.tuples.iter().filter(|tuple| tuple.contains("#parent@")).cloned().collect()
}

#[tokio::test]
async fn a_share_of_a_folder_opens_everything_in_it() {
    let world = World::of(5).await;
    let top = world.folder(1, "Top", None).await;
    let inner = world.folder(1, "Inner", Some(&top)).await;
    let document = world.document(1, "Plan").await;
    let placed = place(&world, 1, &document, Some(&inner)).await;
    assert_eq!((placed.status, &placed.data()["folderId"]), (200, &json!(inner)), "{}", placed.text);
    assert!(!world.may_read(2, &document).await);
    let given = share(&world, 1, &top, 2, "commenter").await;
    assert_eq!((given.status, &given.data()["folderId"]), (201, &json!(top)), "{}", given.text);
    assert_eq!(given.data()["documentId"], Value::Null);
    let read = world.on(2, "GET", &document, "", None).await;
    assert_eq!((read.status, &read.data()["myRole"]), (200, &json!("commenter")));
    assert_eq!(world.listed(2, "view=shared").await, ["Plan: commenter"]);
    assert_eq!(world.listed(2, &format!("view=visible&folderId={inner}")).await, ["Plan: commenter"]);
    let folders = world.ask(2, "GET", "/folders", None).await;
    let named: Vec<&Value> =
        folders.data()["items"].as_array().expect("a page").iter().map(|one| &one["name"]).collect();
    assert_eq!(named, ["Inner", "Top"]);
    let out = place(&world, 1, &document, None).await;
    assert_eq!((out.status, &out.data()["folderId"]), (200, &Value::Null));
    assert!(!world.may_read(2, &document).await && world.listed(2, "view=shared").await.is_empty());
    let expected = ["document.created", "document.moved", "document.moved"];
    assert_eq!(world.actions(&format!("document:{document}")).await, expected);
}

#[tokio::test]
async fn the_owner_of_a_folder_edits_what_others_put_into_it() {
    let world = World::of(5).await;
    let folder = world.folder(1, "Policies", None).await;
    assert_eq!(share(&world, 1, &folder, 2, "editor").await.status, 201);
    let body = json!({ "title": "Theirs", "folderId": folder });
    let document = id(&world.ask(2, "POST", "/documents", Some(body)).await);
    assert_eq!(world.listed(1, "view=shared").await, ["Theirs: editor"]);
    let change = json!({ "body": "mine", "baseVersion": 1 });
    assert_eq!(world.on(1, "PUT", &document, "", Some(change)).await.status, 200);
    assert_eq!(world.on(1, "DELETE", &document, "", None).await.status, 403, "only its own owner manages it");
}

#[tokio::test]
async fn the_owner_of_a_folder_takes_out_what_others_put_into_it() {
    let world = World::of(6).await;
    let (folder, other) = (world.folder(1, "Policies", None).await, world.folder(1, "Other", None).await);
    let editor = id(&share(&world, 1, &folder, 2, "editor").await);
    id(&share(&world, 1, &folder, 3, "editor").await);
    let mut documents = Vec::new();
    for title in ["Live", "Trashed"] {
        let body = json!({ "title": title, "folderId": folder });
        documents.push(id(&world.ask(2, "POST", "/documents", Some(body)).await));
    }
    assert_eq!(world.on(2, "DELETE", &documents[1], "", None).await.status, 200);
    assert_eq!(world.ask(1, "DELETE", &format!("/folders/{folder}/shares/{editor}"), None).await.status, 200);
    let full = world.ask(1, "DELETE", &format!("/folders/{folder}"), None).await;
    let details = json!({ "folders": 0, "documents": 2, "trashedDocumentIds": [documents[1]] });
    assert_eq!((full.code(), &full.body["error"]["details"]), ("FOLDER_NOT_EMPTY", &details));
    for (document, closed) in documents.iter().zip([403, 404]) {
        for (who, to, status) in [(1, Some(&*other), 403), (3, None, closed), (4, None, closed)] {
            assert_eq!(place(&world, who, document, to).await.status, status, "control: {who} to {to:?}");
        }
        world.fail(&[Fault::LostBefore]);
        assert_eq!(place(&world, 1, document, None).await.status, 503);
        let out = place(&world, 1, document, None).await;
        assert_eq!((out.status, &out.data()["folderId"]), (200, &Value::Null), "{}", out.text);
        assert_eq!(place(&world, 1, document, None).await.status, closed, "it is no longer in the folder");
        let actor = world.module.audit().await.last().expect("a row")["actor"].clone();
        assert_eq!(actor, "subject-1");
    }
    assert_eq!(parents(&world), [""; 0]);
    assert_eq!(world.on(2, "POST", &documents[1], "/restore", None).await.status, 200);
    assert_eq!(world.listed(2, "view=mine").await.len(), 2, "its owner has both at the top level");
    assert_eq!(world.ask(1, "DELETE", &format!("/folders/{folder}"), None).await.status, 200);
}

#[tokio::test]
async fn the_owner_of_a_folder_takes_out_the_folders_that_others_made_in_it() {
    let world = World::of(6).await;
    let (folder, other) = (world.folder(1, "Policies", None).await, world.folder(1, "Other", None).await);
    let editor = id(&share(&world, 1, &folder, 2, "editor").await);
    id(&share(&world, 1, &folder, 3, "editor").await);
    let theirs = world.folder(2, "Theirs", Some(&folder)).await;
    let deeper = world.folder(2, "Deeper", Some(&theirs)).await;
    assert_eq!(world.ask(1, "DELETE", &format!("/folders/{folder}/shares/{editor}"), None).await.status, 200);
    assert_eq!(world.ask(1, "DELETE", &format!("/folders/{folder}"), None).await.code(), "FOLDER_NOT_EMPTY");
    for (who, which, to) in
        [(1, &theirs, Some(&*other)), (3, &theirs, None), (4, &theirs, None), (1, &deeper, None)]
    {
        let refused = move_folder(&world, who, which, to).await;
        assert_eq!(refused.status, 403, "control: {who} to {to:?}: {}", refused.text);
    }
    world.fail(&[Fault::LostBefore]);
    assert_eq!(move_folder(&world, 1, &theirs, None).await.status, 503);
    let out = move_folder(&world, 1, &theirs, None).await;
    assert_eq!((out.status, &out.data()["parentId"]), (200, &Value::Null), "{}", out.text);
    assert_eq!(world.module.audit().await.last().expect("a row")["actor"], "subject-1");
    assert_eq!(move_folder(&world, 1, &theirs, None).await.status, 403, "it is no longer in the folder");
    assert_eq!(world.ask(2, "GET", &format!("/folders/{deeper}"), None).await.status, 200);
    assert_eq!(world.ask(1, "GET", &format!("/folders/{deeper}"), None).await.status, 403);
    assert_eq!(parents(&world).len(), 1, "the deeper folder");
    assert_eq!(world.ask(1, "DELETE", &format!("/folders/{folder}"), None).await.status, 200);
}

#[tokio::test]
async fn a_folder_moves_with_everything_in_it() {
    let world = World::of(5).await;
    let [old, new] = ["Old", "New"].map(async |name| world.folder(1, name, None).await);
    let (old, new) = (old.await, new.await);
    let moved = world.folder(1, "Moved", Some(&old)).await;
    let inner = world.folder(1, "Inner", Some(&moved)).await;
    let document = world.document(1, "Plan").await;
    assert_eq!(place(&world, 1, &document, Some(&inner)).await.status, 200);
    assert_eq!(share(&world, 1, &old, 2, "viewer").await.status, 201);
    assert_eq!(share(&world, 1, &new, 3, "editor").await.status, 201);
    assert!(world.may_read(2, &document).await && !world.may_read(3, &document).await);
    let answer = move_folder(&world, 1, &moved, Some(&new)).await;
    assert_eq!((answer.status, &answer.data()["parentId"]), (200, &json!(new)), "{}", answer.text);
    assert!(!world.may_read(2, &document).await && world.may_read(3, &document).await);
    assert!(world.listed(2, "view=shared").await.is_empty());
    assert_eq!(world.listed(3, "view=shared").await, ["Plan: editor"]);
    assert_eq!(move_folder(&world, 1, &moved, Some(&new)).await.status, 200, "it is already there");
    assert_eq!(world.actions(&format!("folder:{moved}")).await, ["folder.created", "folder.moved"]);
    assert_eq!(move_folder(&world, 1, &moved, None).await.status, 200);
    assert!(!world.may_read(3, &document).await);
    assert_eq!(parents(&world).len(), 2, "the inner folder and the document");
}

#[tokio::test]
async fn no_folder_lies_in_itself_and_eight_levels_are_the_most() {
    let world = World::of(3).await;
    let mut levels = vec![world.folder(1, "1", None).await];
    for level in 2..=8 {
        let parent = levels.last().cloned();
        levels.push(world.folder(1, &level.to_string(), parent.as_deref()).await);
    }
    let body = json!({ "name": "9", "parentId": levels[7] });
    let deep = world.ask(1, "POST", "/folders", Some(body)).await;
    assert_eq!((deep.status, reason(&deep)), (422, "FOLDER_TOO_DEEP"), "{}", deep.text);
    for below in [0, 3, 7] {
        let cycle = move_folder(&world, 1, &levels[0], Some(&levels[below])).await;
        assert_eq!((cycle.status, reason(&cycle)), (422, "FOLDER_CYCLE"), "{below}");
    }
    let other = world.folder(1, "other", None).await;
    let deep = move_folder(&world, 1, &levels[0], Some(&other)).await;
    assert_eq!((deep.status, reason(&deep)), (422, "FOLDER_TOO_DEEP"));
    assert_eq!(move_folder(&world, 1, &levels[1], Some(&other)).await.status, 200);
    let document = world.document(1, "Deep").await;
    assert_eq!(
        place(&world, 1, &document, Some(&levels[7])).await.status,
        200,
        "a document may lie in the eighth level"
    );
    let ancestors = format!("SELECT count(*) FROM docs.folder_ancestors WHERE folder_id = '{}'", levels[7]);
    assert_eq!(world.count(&ancestors).await, 8);
}

#[tokio::test]
async fn a_folder_is_renamed_by_editors_and_deleted_empty_by_managers() {
    let world = World::of(5).await;
    let folder = world.folder(1, "Policies", None).await;
    let tail = format!("/folders/{folder}");
    assert_eq!(share(&world, 1, &folder, 2, "editor").await.status, 201);
    assert_eq!(share(&world, 1, &folder, 3, "viewer").await.status, 201);
    let rename = |name: &str| Some(json!({ "name": name }));
    assert_eq!(world.ask(3, "PUT", &tail, rename("x")).await.status, 403);
    let renamed = world.ask(2, "PUT", &tail, rename("Rules")).await;
    let [name, role] = ["name", "myRole"].map(|member| renamed.data()[member].clone());
    assert_eq!((renamed.status, name, role), (200, json!("Rules"), json!("editor")));
    let inner = world.folder(1, "Inner", Some(&folder)).await;
    let full = world.ask(1, "DELETE", &tail, None).await;
    assert_eq!((full.status, full.code()), (409, "FOLDER_NOT_EMPTY"));
    assert_eq!(
        full.body["error"]["details"],
        json!({ "folders": 1, "documents": 0, "trashedDocumentIds": [] })
    );
    assert_eq!(world.ask(1, "DELETE", &format!("/folders/{inner}"), None).await.status, 200);
    assert_eq!(world.ask(2, "DELETE", &tail, None).await.status, 403);
    world.fail(&[Fault::LostAfter]);
    assert_eq!(world.ask(0, "DELETE", &tail, None).await.status, 503);
    assert_eq!(world.ask(0, "DELETE", &tail, None).await.status, 403, "without its anchor it has no manager");
    let left: Vec<String> = world.facts().tuples.iter().cloned().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_move_that_breaks_off_opens_nothing_more_and_is_finished_by_the_same_call() {
    for fault in [Fault::LostBefore, Fault::LostAfter] {
        for nth in 0..2 {
            let world = World::of(5).await;
            let old = world.folder(1, "Old", None).await;
            let new = world.folder(1, "New", None).await;
            let document = world.document(1, "Plan").await;
            assert_eq!(place(&world, 1, &document, Some(&old)).await.status, 200);
            assert_eq!(share(&world, 1, &old, 2, "viewer").await.status, 201);
            assert_eq!(share(&world, 1, &new, 3, "viewer").await.status, 201);
            world.fail(&[vec![Fault::None; nth], vec![fault]].concat());
            assert_eq!(place(&world, 1, &document, Some(&new)).await.status, 503);
            let (before, after) = (world.may_read(2, &document).await, world.may_read(3, &document).await);
            assert!(!(before && after), "never in two folders");
            let other = place(&world, 1, &document, Some(&old)).await;
            assert_eq!(other.status, 409, "{}", other.text);
            assert_eq!(place(&world, 1, &document, Some(&new)).await.status, 200);
            assert_eq!(parents(&world), [format!("docs_document:{document}#parent@docs_folder:{new}")]);
            assert!(!world.may_read(2, &document).await && world.may_read(3, &document).await);
        }
    }
}

/// Folders of this person below a folder: children, and children of the first one, by turns.
async fn many(world: &World, owner: usize, below: &str, count: usize) {
    let (person, company) = (&world.people[owner], world.module.company);
    let made =
        "INSERT INTO docs.folders(id, company_id, name, parent_id, owner_kc_sub, owner_member_id, state)";
    world
        .module
        .execute(format!(
            "CREATE TEMP TABLE made AS SELECT md5('{owner}{below}' || n)::uuid AS id, n,
               CASE WHEN n % 2 = 0 THEN md5('{owner}{below}1')::uuid ELSE '{below}'::uuid END AS parent FROM generate_series(1, {count}) n;
             {made} SELECT id, '{company}', 'Folder ' || n, parent, '{}', '{}', 'active' FROM made;
             INSERT INTO docs.folder_ancestors SELECT '{company}'::uuid, id, id, 0 FROM made
               UNION ALL SELECT '{company}', id, parent, 1 FROM made
               UNION ALL SELECT '{company}', id, '{below}'::uuid, 2 FROM made WHERE n % 2 = 0;
             DROP TABLE made",
            person.subject, person.member
        ))
        .await;
}

#[tokio::test]
async fn two_thousand_folders_are_the_most_that_move_at_once() {
    let world = World::of(4).await;
    let [from, to] = ["From", "To"].map(async |name| world.folder(1, name, None).await);
    let (from, to) = (from.await, to.await);
    let tree = world.folder(1, "Tree", None).await;
    many(&world, 1, &tree, 1_999).await;
    assert_eq!(move_folder(&world, 1, &tree, Some(&from)).await.status, 200, "control");
    assert_eq!(move_folder(&world, 1, &tree, Some(&to)).await.status, 200, "control");
    let ancestors = format!("SELECT count(*) FROM docs.folder_ancestors WHERE ancestor_id = '{to}'");
    assert_eq!(world.count(&ancestors).await, 2_001);
    assert_eq!(move_folder(&world, 1, &tree, None).await.status, 200, "control");
    let top = world.folder(1, "Top", None).await;
    assert_eq!(move_folder(&world, 1, &top, Some(&to)).await.status, 200);
    for tree in [&tree, &top] {
        many(&world, 2, tree, 2_000).await;
    }
    let before = (world.module.contents().await, world.facts().tuples.clone());
    for (tree, place) in [(&tree, Some(&from)), (&top, Some(&from)), (&top, None)] {
        let refused = move_folder(&world, 1, tree, place.map(String::as_str)).await;
        assert_eq!((refused.status, refused.code()), (409, "FOLDER_TREE_TOO_LARGE"), "{}", refused.text);
        assert_eq!(refused.body["error"]["details"], json!({ "maxFolders": 2_000 }));
    }
    assert_eq!((world.module.contents().await, world.facts().tuples.clone()), before);
}

#[tokio::test]
async fn a_member_owns_at_most_five_thousand_folders() {
    let world = World::of(4).await;
    let folder = world.folder(1, "First", None).await;
    many(&world, 1, &folder, 4_998).await;
    world.folder(1, "Last", None).await;
    for parent in [None, Some(&folder)] {
        let body = json!({ "name": "More", "parentId": parent });
        let more = world.ask(1, "POST", "/folders", Some(body)).await;
        assert_eq!((more.status, reason(&more)), (422, "TOO_MANY_FOLDERS"), "{}", more.text);
        assert_eq!(more.body["error"]["details"]["maxFolders"], 5_000);
    }
    world.folder(2, "Theirs", None).await;
}

#[tokio::test]
async fn folders_are_listed_in_time_that_grows_with_their_number() {
    let world = World::of(4).await;
    let first = world.folder(1, "First", None).await;
    let (person, company) = (&world.people[1], world.module.company);
    // Fifty folders in each, four levels deep.
    let id_of = |n: &str| format!("CASE {n} WHEN 0 THEN '{first}' ELSE md5('{first}' || {n})::uuid END");
    let made =
        "INSERT INTO docs.folders(id, company_id, name, parent_id, owner_kc_sub, owner_member_id, state)";
    world
        .module
        .execute(format!(
            "{made} SELECT {}, '{company}', 'Folder ' || n, {}, '{}', '{}', 'active' FROM generate_series(1, 30000) n;
             INSERT INTO docs.folder_ancestors
               WITH RECURSIVE around AS (
                 SELECT n, n AS a, 0 AS distance FROM generate_series(1, 30000) n
                 UNION ALL SELECT n, (a - 1) / 50, distance + 1 FROM around WHERE a > 0)
               SELECT '{company}', {}, {}, distance FROM around;
             ANALYZE docs.folders; ANALYZE docs.folder_ancestors",
            id_of("n"),
            id_of("((n - 1) / 50)"),
            person.subject,
            person.member,
            id_of("n"),
            id_of("a")
        ))
        .await;
    let total = async |who: usize, query: &str| {
        let reply = world.ask(who, "GET", &format!("/folders?{query}"), None).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        (reply.data()["total"].clone(), reply.data()["items"][0]["name"].clone())
    };
    assert_eq!(total(0, "view=all").await, (json!(30_001), json!("First")), "control");
    assert_eq!(total(1, "").await, (json!(30_001), json!("First")));
    assert_eq!(total(1, &format!("parentId={first}")).await, (json!(50), json!("Folder 1")));
    assert_eq!(total(2, "").await, (json!(0), Value::Null));
    assert_eq!(share(&world, 1, &first, 2, "viewer").await.status, 201);
    assert_eq!(total(2, "pageSize=1").await, (json!(30_001), json!("First")));
}

#[tokio::test]
async fn a_member_removes_the_own_share_of_a_folder_and_a_manager_changes_any() {
    let world = World::of(5).await;
    let folder = world.folder(1, "Policies", None).await;
    let own = id(&share(&world, 1, &folder, 2, "viewer").await);
    let other = id(&share(&world, 1, &folder, 3, "viewer").await);
    let tail = |share: &str| format!("/folders/{folder}/shares/{share}");
    assert_eq!(world.ask(2, "DELETE", &tail(&other), None).await.status, 403);
    assert_eq!(world.ask(2, "DELETE", &tail(&own), None).await.status, 200);
    let raised = world.ask(0, "PUT", &tail(&other), Some(json!({ "role": "editor" }))).await;
    assert_eq!((raised.status, &raised.data()["role"]), (200, &json!("editor")), "{}", raised.text);
    let listed = world.ask(3, "GET", &format!("/folders/{folder}/shares"), None).await;
    assert_eq!((listed.status, listed.data().as_array().map(Vec::len)), (200, Some(1)));
    let all = world.ask(0, "GET", "/folders?view=all", None).await;
    assert_eq!(all.data()["items"][0]["myRole"], "manager");
    assert_eq!(world.ask(2, "GET", "/folders?view=all", None).await.status, 403);
}

#[tokio::test]
async fn what_folders_give_is_among_the_shares_of_a_document() {
    let world = World::of(7).await;
    let top = world.folder(3, "Top", None).await;
    id(&share(&world, 3, &top, 1, "editor").await);
    let folder = world.folder(1, "Inner", Some(&top)).await;
    id(&share(&world, 1, &folder, 2, "editor").await);
    let group = world.group(&[4]);
    let body = json!({ "groupId": group, "role": "viewer" });
    let given = id(&world.ask(3, "POST", &format!("/folders/{top}/shares"), Some(body)).await);
    let body = json!({ "title": "Plan", "folderId": folder });
    let document = id(&world.ask(2, "POST", "/documents", Some(body)).await);
    id(&world.share(2, &document, 5, "viewer").await);
    let member = |who: usize| json!(world.people[who].member);
    let listed = async |who: usize, document: &str| {
        let reply = world.on(who, "GET", document, "/shares", None).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let shown = |share: &Value| {
            let of = ["memberId", "groupId"].map(|name| share[name].clone());
            let principal = of.into_iter().find(|id| !id.is_null());
            (principal, share["role"].clone(), share["isInherited"].clone(), share["folderId"].clone())
        };
        reply.data().as_array().expect("a list").iter().map(shown).collect::<Vec<_>>()
    };
    // Its owner sees one folder, a viewer none, the folder's owner both; a manager as well.
    let null = || Value::Null;
    for (who, of_inner, of_top) in [
        (2, json!(folder), null()),
        (5, null(), null()),
        (1, json!(folder), json!(top)),
        (0, json!(folder), json!(top)),
    ] {
        let inherited = |principal, role: &str, folder: &Value| {
            (Some(principal), json!(role), json!(true), folder.clone())
        };
        let expected = vec![
            (Some(member(5)), json!("viewer"), json!(false), null()),
            inherited(member(1), "editor", &of_inner),
            inherited(member(3), "editor", &of_top),
            inherited(member(1), "editor", &of_top),
            inherited(json!(group), "viewer", &of_top),
        ];
        assert_eq!(listed(who, &document).await, expected, "{who}");
    }
    let change = world.on(2, "DELETE", &document, &format!("/shares/{given}"), None).await;
    assert_eq!(change.status, 404, "it is changed at the folder");
    assert_eq!(place(&world, 2, &document, None).await.status, 200);
    let direct = (Some(member(5)), json!("viewer"), json!(false), Value::Null);
    assert_eq!(listed(2, &document).await, [direct], "control: outside of the folder");
}

#[tokio::test]
async fn what_the_folders_around_it_give_is_among_the_shares_of_a_folder() {
    let world = World::of(7).await;
    let top = world.folder(3, "Top", None).await;
    let editor = id(&share(&world, 3, &top, 1, "editor").await);
    let folder = world.folder(1, "Inner", Some(&top)).await;
    id(&share(&world, 1, &folder, 2, "viewer").await);
    id(&share(&world, 3, &top, 4, "editor").await);
    let member = |who: usize| json!(world.people[who].member);
    let listed = async |who: usize, folder: &str| {
        let reply = world.ask(who, "GET", &format!("/folders/{folder}/shares"), None).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let shown = |share: &Value| ["memberId", "isInherited", "folderId"].map(|name| share[name].clone());
        reply.data().as_array().expect("a list").iter().map(shown).collect::<Vec<_>>()
    };
    let direct = [member(2), json!(false), json!(folder)];
    let of_top = |sees: bool| {
        [3, 4].map(|who| [member(who), json!(true), if sees { json!(top) } else { Value::Null }])
    };
    let expected = |sees: bool| [vec![direct.clone()], of_top(sees).to_vec()].concat();
    assert_eq!(listed(1, &folder).await, expected(true));
    let gone = world.ask(3, "DELETE", &format!("/folders/{top}/shares/{editor}"), None).await;
    assert_eq!(gone.status, 200, "{}", gone.text);
    for (who, sees) in [(0, true), (1, false), (2, false), (3, true), (4, true)] {
        assert_eq!(listed(who, &folder).await, expected(sees), "{who}");
    }
    assert_eq!(
        listed(3, &top).await,
        [[member(4), json!(false), json!(top)]],
        "control: nothing is around it"
    );
    let out = move_folder(&world, 1, &folder, None).await;
    assert_eq!(out.status, 200, "{}", out.text);
    assert_eq!(listed(1, &folder).await, [direct], "control: outside");
}

#[tokio::test]
async fn who_manages_a_folder_and_a_document_in_the_trash_takes_the_document_out() {
    let world = World::of(5).await;
    for who in [0, 1] {
        let (folder, other) = (world.folder(1, "Mine", None).await, world.folder(1, "Other", None).await);
        let body = json!({ "title": "Plan", "folderId": folder });
        let document = id(&world.ask(1, "POST", "/documents", Some(body)).await);
        assert_eq!(world.on(1, "DELETE", &document, "", None).await.status, 200);
        let into = place(&world, who, &document, Some(&other)).await;
        assert_eq!((into.status, into.code()), (409, "DOCUMENT_TRASHED"), "control: {}", into.text);
        assert_eq!(place(&world, 2, &document, None).await.status, 404, "control");
        let out = place(&world, who, &document, None).await;
        assert_eq!((out.status, &out.data()["folderId"]), (200, &Value::Null), "{who}: {}", out.text);
        let again = place(&world, who, &document, None).await;
        assert_eq!((again.status, again.code()), (409, "DOCUMENT_TRASHED"), "it lies in no folder");
        assert_eq!(world.ask(who, "DELETE", &format!("/folders/{folder}"), None).await.status, 200);
    }
    // The document's owner does not manage the folder that it lies in.
    let folder = world.folder(3, "Theirs", None).await;
    id(&share(&world, 3, &folder, 1, "editor").await);
    let body = json!({ "title": "Plan", "folderId": folder });
    let document = id(&world.ask(1, "POST", "/documents", Some(body)).await);
    assert_eq!(world.on(1, "DELETE", &document, "", None).await.status, 200);
    assert_eq!(place(&world, 1, &document, None).await.code(), "DOCUMENT_TRASHED", "control");
    // Who manages the folder only is not told what a document in the trash contains.
    let out = place(&world, 3, &document, None).await;
    assert_eq!((out.status, out.data()), (200, &Value::Null), "{}", out.text);
    assert_eq!(world.on(3, "GET", &document, "", None).await.status, 404);
    let restored = world.on(1, "POST", &document, "/restore", None).await;
    assert_eq!((restored.status, &restored.data()["folderId"]), (200, &Value::Null), "{}", restored.text);
}

#[tokio::test]
async fn the_names_of_more_inherited_shares_than_one_look_up_takes_are_current() {
    let world = World::of(3).await;
    let outer = world.folder(1, "Outer", None).await;
    let inner = world.folder(1, "Inner", Some(&outer)).await;
    for at in 0..202 {
        let folder = if at % 2 == 0 { &outer } else { &inner };
        let body = json!({ "groupId": world.group(&[]), "role": "viewer" });
        id(&world.ask(1, "POST", &format!("/folders/{folder}/shares"), Some(body)).await);
    }
    let document = world.document(1, "Plan").await;
    assert_eq!(place(&world, 1, &document, Some(&inner)).await.status, 200);
    let forget = sqlx::query("UPDATE docs.shares SET label = 'former'");
    forget.execute(&world.module.database.owner_pool()).await.expect("other stored names");
    let shares = world.on(1, "GET", &document, "/shares", None).await;
    let titles: Vec<&Value> =
        shares.data().as_array().expect("a list").iter().map(|share| &share["title"]).collect();
    assert_eq!((titles.len(), titles.iter().filter(|title| ***title == json!("Group")).count()), (202, 202));
}
