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
    assert_eq!(full.body["error"]["details"], json!({ "folders": 1, "documents": 0 }));
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
