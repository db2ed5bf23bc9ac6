//! Deletions of folders, at the same time as something that depends on the folder: one waits for the other.

use serde_json::{Value, json};
use testkit::Reply;

use crate::narrowed::waiting;
use crate::world::{Fault, World, id};

/// A request: method, path and body.
type Asked = (&'static str, String, Option<Value>);

/// What comes into a folder, or changes about it: its name, the table whose row its first transaction writes, and
/// whether the folder is not empty afterwards.
const CHANGES: [(&str, &str, bool); 11] = [
    ("create a document", "docs.documents", true),
    ("create a folder", "docs.folders", true),
    ("move a document", "docs.placements", true),
    ("move a document from another folder", "docs.placements", true),
    ("move a folder", "docs.placements", true),
    ("move a folder from another one", "docs.placements", true),
    ("give a share", "docs.shares", false),
    ("change a share", "docs.shares", false),
    ("take a share", "docs.shares", false),
    ("move it into another folder", "docs.placements", false),
    ("move it out of another folder", "docs.placements", false),
];

/// Prepares one of [`CHANGES`] of person 1's folder.
async fn prepared(world: &World, what: &str, folder: &str) -> Asked {
    let into = Some(json!({ "folderId": folder }));
    let below = Some(json!({ "parentId": folder }));
    let shares = format!("/folders/{folder}/shares");
    let share = |who: usize| Some(json!({ "memberId": world.people[who].member, "role": "viewer" }));
    let given = async || id(&world.ask(1, "POST", &shares, share(2)).await);
    let other = async || world.folder(1, "Other", None).await;
    match what {
        "create a document" => {
            ("POST", "/documents".to_owned(), Some(json!({ "title": "New", "folderId": folder })))
        }
        "create a folder" => {
            ("POST", "/folders".to_owned(), Some(json!({ "name": "New", "parentId": folder })))
        }
        "move a document" => ("POST", format!("/documents/{}/move", world.document(1, "Plan").await), into),
        "move a document from another folder" => {
            let document = json!({ "title": "Plan", "folderId": other().await });
            let document = id(&world.ask(1, "POST", "/documents", Some(document)).await);
            ("POST", format!("/documents/{document}/move"), into)
        }
        "move a folder" => ("POST", format!("/folders/{}/move", other().await), below),
        "move a folder from another one" => {
            let inner = world.folder(1, "Inner", Some(&other().await)).await;
            ("POST", format!("/folders/{inner}/move"), below)
        }
        "give a share" => ("POST", shares, share(3)),
        "change a share" => {
            let role = Some(json!({ "role": "editor" }));
            ("PUT", format!("/folders/{folder}/shares/{}", given().await), role)
        }
        "take a share" => ("DELETE", format!("/folders/{folder}/shares/{}", given().await), None),
        "move it into another folder" => {
            let to = Some(json!({ "parentId": other().await }));
            ("POST", format!("/folders/{folder}/move"), to)
        }
        _ => {
            let around = Some(json!({ "parentId": other().await }));
            let placed = world.ask(1, "POST", &format!("/folders/{folder}/move"), around).await;
            assert_eq!(placed.status, 200, "{}", placed.text);
            ("POST", format!("/folders/{folder}/move"), Some(json!({ "parentId": null })))
        }
    }
}

/// Sends two requests: the second when the first is about to commit what it wrote to the table. The first goes on when the
/// second waits as well, or has its answer.
async fn one_before_the_other(
    world: &World,
    table: &str,
    first: impl Future<Output = Reply>,
    second: impl Future<Output = Reply>,
) -> (Reply, Reply) {
    world
        .module
        .execute(format!(
            "CREATE OR REPLACE FUNCTION docs.held() RETURNS trigger LANGUAGE plpgsql AS
               'BEGIN PERFORM pg_catalog.pg_advisory_xact_lock_shared(7); RETURN NULL; END';
             CREATE CONSTRAINT TRIGGER held AFTER INSERT OR UPDATE OF state ON {table} DEFERRABLE INITIALLY DEFERRED
               FOR EACH ROW EXECUTE FUNCTION docs.held()"
        ))
        .await;
    let mut held = world.module.database.owner_pool().begin().await.expect("a connection");
    let lock = "SELECT pg_catalog.pg_advisory_xact_lock(7)";
    sqlx::raw_sql(lock).execute(&mut *held).await.expect("the lock");
    let (mut first, mut second) = (Box::pin(first), Box::pin(second));
    tokio::select! {
        early = &mut first => panic!("nothing was held: {}", early.text),
        () = waiting(world, 1) => {}
    }
    let early = tokio::select! {
        early = &mut first => panic!("it was let go: {}", early.text),
        early = &mut second => Some(early),
        () = waiting(world, 2) => None,
    };
    held.rollback().await.expect("the lock is let go");
    let both = if let Some(early) = early { (first.await, early) } else { tokio::join!(first, second) };
    world.module.execute(format!("DROP TRIGGER held ON {table}")).await;
    both
}

/// What is wrong with the folder after both requests.
async fn leftovers(world: &World, folder: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let row = format!("SELECT count(*) FROM docs.folders WHERE id = '{folder}'");
    let is_left = world.count(&row).await == 1;
    let object = format!("docs_folder:{folder}");
    wrong.extend(world.facts().tuples.iter().filter(|one| !is_left && one.contains(&object)).cloned());
    for table in ["documents", "folders", "placements", "shares"] {
        let unsettled = format!("SELECT count(*) FROM docs.{table} WHERE state <> 'active'");
        if world.count(&unsettled).await != 0 {
            wrong.push(format!("unsettled {table}"));
        }
    }
    if is_left && world.ask(1, "GET", &format!("/folders/{folder}"), None).await.status != 200 {
        wrong.push("the folder is closed to its owner".to_owned());
    }
    wrong
}

fn told(reply: &Reply) -> String {
    format!("{} {}", reply.status, reply.code())
}

#[tokio::test]
async fn a_folder_is_not_deleted_while_something_comes_into_it() {
    let mut wrong = Vec::new();
    for (what, table, fills) in CHANGES {
        let world = World::of(5).await;
        let folder = world.folder(1, "Gone", None).await;
        let (method, path, body) = prepared(&world, what, &folder).await;
        let (change, tail) = (world.ask(1, method, &path, body), format!("/folders/{folder}"));
        let deleted = world.ask(1, "DELETE", &tail, None);
        let (change, deleted) = Box::pin(one_before_the_other(&world, table, change, deleted)).await;
        let is_right = match (change.status, deleted.status) {
            (200 | 201, 409) => true,
            // The change was done by then.
            (200 | 201, 200) => !fills,
            _ => false,
        };
        if !is_right {
            wrong.push(format!("{what}: {}, {}", told(&change), told(&deleted)));
        }
        wrong.extend(leftovers(&world, &folder).await.into_iter().map(|left| format!("{what}: {left}")));
    }
    assert_eq!(wrong, [""; 0]);
}

#[tokio::test]
async fn nothing_comes_into_a_folder_that_is_being_deleted() {
    let mut wrong = Vec::new();
    for (what, _, _) in CHANGES {
        let world = World::of(5).await;
        let folder = world.folder(1, "Gone", None).await;
        let (method, path, body) = prepared(&world, what, &folder).await;
        let (change, tail) = (world.ask(1, method, &path, body), format!("/folders/{folder}"));
        let deleted = world.ask(1, "DELETE", &tail, None);
        let held = Box::pin(one_before_the_other(&world, "docs.folders", deleted, change));
        let (deleted, change) = held.await;
        if deleted.status != 200 || !matches!(change.status, 403 | 404 | 409 | 422) {
            wrong.push(format!("{what}: {}, {}", told(&change), told(&deleted)));
        }
        wrong.extend(leftovers(&world, &folder).await.into_iter().map(|left| format!("{what}: {left}")));
    }
    assert_eq!(wrong, [""; 0]);
}

#[tokio::test]
async fn what_does_not_concern_a_folder_does_not_wait_for_its_deletion() {
    for (what, _, _) in CHANGES.into_iter().filter(|(what, _, _)| !what.contains("folder")) {
        let world = World::of(5).await;
        let (folder, kept) = (world.folder(1, "Gone", None).await, world.folder(1, "Kept", None).await);
        let (method, path, body) = prepared(&world, what, &kept).await;
        let change = async {
            let change = world.ask(1, method, &path, body).await;
            assert!(matches!(change.status, 200 | 201), "{what}: {}", change.text);
            assert_eq!(world.count("SELECT count(*) FROM docs.folders WHERE state = 'active'").await, 2);
            change
        };
        let tail = format!("/folders/{folder}");
        let deleted = world.ask(1, "DELETE", &tail, None);
        let held = Box::pin(one_before_the_other(&world, "docs.folders", deleted, change));
        assert_eq!(held.await.0.status, 200);
    }
}

#[tokio::test]
async fn a_folder_is_listed_until_its_deletion_is_confirmed() {
    let world = World::of(4).await;
    let folder = world.folder(1, "Policies", None).await;
    let path = format!("/folders/{folder}");
    let share = json!({ "memberId": world.people[2].member, "role": "viewer" });
    id(&world.ask(1, "POST", &format!("{path}/shares"), Some(share)).await);
    let listed = async || {
        let folders = world.ask(2, "GET", "/folders", None).await;
        folders.data()["total"].clone()
    };
    world.fail(&[Fault::LostBefore]);
    assert_eq!(world.ask(1, "DELETE", &path, None).await.status, 503);
    assert_eq!((world.ask(2, "GET", &path, None).await.status, listed().await), (200, json!(1)));
    assert_eq!(world.ask(1, "DELETE", &path, None).await.status, 200);
    assert_eq!((world.ask(2, "GET", &path, None).await.status, listed().await), (404, json!(0)));
}
