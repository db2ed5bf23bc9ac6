//! Rights that are taken away between the decision about a call and its write.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testkit::Reply;

use crate::world::{World, id};

/// How many statements wait for a lock.
pub(crate) async fn waiting(world: &World, count: i64) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while world.count(sql).await < count {}
}

/// Sends two calls while the document's row is held: the second once the first waits for the row. The row is let go
/// when the second waits as well, or has its answer.
pub(crate) async fn one_after_the_other(
    world: &World,
    document: &str,
    first: impl Future<Output = Reply>,
    second: impl Future<Output = Reply>,
) -> (Reply, Reply) {
    let mut held = world.module.database.owner_pool().begin().await.expect("a connection");
    let lock = format!("SELECT FROM docs.documents WHERE id = '{document}' FOR UPDATE");
    sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut *held).await.expect("the row");
    let (mut first, mut second) = (Box::pin(first), Box::pin(second));
    tokio::select! {
        early = &mut first => panic!("the row was not awaited: {}", early.text),
        () = waiting(world, 1) => {}
    }
    let early = tokio::select! {
        early = &mut first => panic!("the row was not awaited: {}", early.text),
        early = &mut second => Some(early),
        () = waiting(world, 2) => None,
    };
    held.rollback().await.expect("the table is let go");
    if let Some(early) = early { (first.await, early) } else { tokio::join!(first, second) }
}

/// What an editor may do with the parts of a document: method, path and body.
type Act = fn(&Parts) -> (&'static str, String, Option<Value>);

struct Parts {
    me: Value,
    comment: String,
    share: String,
    request: String,
}

const ACTS: [(&str, Act); 9] = [
    ("save", |_| ("PUT", String::new(), Some(json!({ "body": "late", "baseVersion": 2 })))),
    ("restore", |_| ("POST", "/versions/1/restore".to_owned(), None)),
    ("comment", |_| ("POST", "/comments".to_owned(), Some(json!({ "body": "late" })))),
    ("resolve", |parts| ("POST", format!("/comments/{}/resolve", parts.comment), None)),
    ("share", |parts| {
        ("POST", "/shares".to_owned(), Some(json!({ "memberId": parts.me, "role": "editor" })))
    }),
    ("change a role", |parts| ("PUT", format!("/shares/{}", parts.share), Some(json!({ "role": "editor" })))),
    ("unshare", |parts| ("DELETE", format!("/shares/{}", parts.share), None)),
    ("accept", |parts| ("POST", format!("/access-requests/{}/accept", parts.request), None)),
    ("decline", |parts| ("POST", format!("/access-requests/{}/decline", parts.request), None)),
];

/// A document of person 1 in its second version, which every member may write.
async fn open_document(world: &World) -> (String, Parts) {
    let document = world.document(1, "Plan").await;
    let asks = json!({ "role": "commenter" });
    let request = id(&world.on(4, "POST", &document, "/access-requests", Some(asks)).await);
    let share = id(&world.share(1, &document, 3, "viewer").await);
    let save = json!({ "body": "second", "baseVersion": 1 });
    assert_eq!(world.on(1, "PUT", &document, "", Some(save)).await.status, 200);
    let comment = id(&world.on(1, "POST", &document, "/comments", Some(json!({ "body": "?" }))).await);
    let open = json!({ "generalAccess": "company_edit" });
    assert_eq!(world.on(1, "PUT", &document, "/access", Some(open)).await.status, 200);
    (document, Parts { me: json!(world.people[2].member), comment, share, request })
}

/// Person 1 sets general access to this, and person 2 does this right behind.
async fn after_access(world: &World, document: &str, access: &str, act: Act, parts: &Parts) -> Reply {
    let (method, tail, body) = act(parts);
    let set = world.on(1, "PUT", document, "/access", Some(json!({ "generalAccess": access })));
    let acted = world.on(2, method, document, &tail, body);
    let (set, acted) = Box::pin(one_after_the_other(world, document, set, acted)).await;
    assert_eq!(set.status, 200, "{}", set.text);
    acted
}

#[tokio::test]
async fn nothing_that_general_access_admitted_is_written_after_it_is_narrowed() {
    let world = World::of(7).await;
    let mut written = Vec::new();
    for access in ["restricted", "company_view"] {
        for (what, act) in ACTS {
            let (document, parts) = open_document(&world).await;
            let acted = Box::pin(after_access(&world, &document, access, act, &parts)).await;
            let subject = format!("document:{document}");
            let last = world.actions(&subject).await.pop();
            if !matches!(acted.status, 403 | 409) || last.as_deref() != Some("access.changed") {
                written.push(format!("{access}, {what}: {} {last:?}", acted.status));
            }
            let mine = format!("docs_document:{document}#editor@user:subject-2");
            assert!(acted.status < 300 || !world.facts().tuples.contains(&mine), "{what}");
        }
    }
    assert_eq!(written, [""; 0]);
}

#[tokio::test]
async fn what_general_access_still_allows_or_a_share_allows_is_written() {
    let world = World::of(7).await;
    for (what, act) in ACTS {
        let (document, parts) = open_document(&world).await;
        let acted = Box::pin(after_access(&world, &document, "company_edit", act, &parts)).await;
        assert!(matches!(acted.status, 200 | 201), "{what}: {}", acted.text);
    }
    for (what, act) in &ACTS[..4] {
        let (document, parts) = open_document(&world).await;
        id(&world.share(1, &document, 2, "editor").await);
        let acted = Box::pin(after_access(&world, &document, "restricted", *act, &parts)).await;
        assert!(matches!(acted.status, 200 | 201), "{what}: {}", acted.text);
    }
}

#[tokio::test]
async fn an_editor_who_may_share_no_more_changes_no_share() {
    let world = World::of(7).await;
    for (closes, expected) in [(true, 403), (false, 200)] {
        for (what, act) in &ACTS[5..] {
            let (document, parts) = open_document(&world).await;
            id(&world.share(1, &document, 2, "editor").await);
            let restrict = json!({ "generalAccess": "restricted" });
            assert_eq!(world.on(1, "PUT", &document, "/access", Some(restrict)).await.status, 200);
            let (method, tail, body) = act(&parts);
            let set = world.on(1, "PUT", &document, "/access", Some(json!({ "editorsCanShare": !closes })));
            let acted = world.on(2, method, &document, &tail, body);
            let (set, acted) = Box::pin(one_after_the_other(&world, &document, set, acted)).await;
            assert_eq!((set.status, acted.status), (200, expected), "{what}: {}", acted.text);
        }
    }
}

/// A document of person 1, which person 2 edits by a share. Its parts, and that share.
async fn shared_document(world: &World) -> (String, Parts, String) {
    let (document, parts) = open_document(world).await;
    let restrict = json!({ "generalAccess": "restricted" });
    assert_eq!(world.on(1, "PUT", &document, "/access", Some(restrict)).await.status, 200);
    let share = id(&world.share(1, &document, 2, "editor").await);
    (document, parts, format!("/shares/{share}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_with_a_right_that_was_taken_away_since_its_decision() {
    let world = World::of(7).await;
    let mut written = Vec::new();
    let closing = json!({ "editorsCanShare": false });
    for (change, acts) in
        [("share.deleted", &ACTS[..]), ("share.role_changed", &ACTS), ("access.changed", &ACTS[4..])]
    {
        for (what, act) in acts {
            let (document, parts, share) = shared_document(&world).await;
            let (method, tail, body) = match change {
                "share.deleted" => ("DELETE", share, None),
                "share.role_changed" => ("PUT", share, Some(json!({ "role": "viewer" }))),
                _ => ("PUT", "/access".to_owned(), Some(closing.clone())),
            };
            let changed = world.on(1, method, &document, &tail, body);
            let (method, tail, body) = act(&parts);
            let acted = world.on(2, method, &document, &tail, body);
            let (acted, changed) = Box::pin(world.meanwhile(2, acted, changed)).await;
            assert_eq!(changed.status, 200, "{}", changed.text);
            let last = world.actions(&format!("document:{document}")).await.pop();
            if acted.status != 403 || last.as_deref() != Some(change) {
                written.push(format!("{change}, {what}: {} {last:?}", acted.status));
            }
        }
    }
    assert_eq!(written, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_managed_by_an_owner_who_has_handed_the_document_over_since_the_decision() {
    let world = World::of(6).await;
    let folder = world.folder(1, "Mine", None).await;
    let mut written = Vec::new();
    for (method, tail, body) in [
        ("PUT", "/access", json!({ "generalAccess": "company_edit" })),
        ("DELETE", "", Value::Null),
        ("POST", "/transfer", json!({ "memberId": world.people[4].member })),
        ("POST", "/move", json!({ "folderId": folder })),
    ] {
        let document = world.document(1, "Plan").await;
        let handed = json!({ "memberId": world.people[3].member });
        let handed = world.on(0, "POST", &document, "/transfer", Some(handed));
        let acted = world.on(1, method, &document, tail, Some(body).filter(|body| !body.is_null()));
        let (acted, handed) = Box::pin(world.meanwhile(1, acted, handed)).await;
        assert_eq!(handed.status, 200, "{}", handed.text);
        let last = world.actions(&format!("document:{document}")).await.pop();
        if acted.status != 403 || last.as_deref() != Some("ownership.ended") {
            written.push(format!("{method} {tail}: {} {last:?}", acted.status));
        }
    }
    assert_eq!(written, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_read_with_a_right_that_was_taken_away_since_its_decision() {
    let world = World::of(7).await;
    let (document, _, share) = shared_document(&world).await;
    let changed = world.on(1, "DELETE", &document, &share, None);
    let read = world.on(2, "GET", &document, "", None);
    let (read, changed) = Box::pin(world.meanwhile(2, read, changed)).await;
    assert_eq!((changed.status, read.status), (200, 403), "{}", read.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_went_into_the_trash_since_the_decision_is_read_by_its_managers_only() {
    let world = World::of(7).await;
    for (who, status) in [(2, 404), (1, 200)] {
        let (document, ..) = shared_document(&world).await;
        let trashed = world.on(0, "DELETE", &document, "", None);
        let read = world.on(who, "GET", &document, "", None);
        let (read, trashed) = Box::pin(world.meanwhile(who, read, trashed)).await;
        assert_eq!((trashed.status, read.status), (200, status), "{}", read.text);
    }
}

/// Whether so many decisions were asked for, or one more because the call took longer than a decision stays fresh.
fn is_about(decisions: usize, expected: usize) -> bool {
    decisions == expected || decisions == expected + 1
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_still_allowed_is_written_and_decided_again_only_after_a_change() {
    let world = World::of(7).await;
    // Person 2 has a share already.
    for (what, act) in ACTS.into_iter().filter(|(what, _)| *what != "share") {
        // What gives or takes a right for good is asked for again just before.
        let again = usize::from(what == "unshare" || LASTING.iter().any(|(lasting, _)| *lasting == what));
        for is_disturbed in [false, true] {
            let (document, parts, _) = shared_document(&world).await;
            let other = format!("/shares/{}", id(&world.share(1, &document, 5, "viewer").await));
            let (method, tail, body) = act(&parts);
            let acted = world.on(2, method, &document, &tail, body);
            let before = world.decisions();
            if is_disturbed {
                let changed = world.on(1, "DELETE", &document, &other, None);
                let (acted, changed) = Box::pin(world.meanwhile(2, acted, changed)).await;
                assert_eq!(changed.status, 200, "{}", changed.text);
                assert!(matches!(acted.status, 200 | 201), "{what}: {}", acted.text);
                assert!(is_about(world.decisions() - before, 4 + again), "{what}: two are the owner's");
            } else {
                let acted = acted.await;
                assert!(matches!(acted.status, 200 | 201), "{what}: {}", acted.text);
                assert!(is_about(world.decisions() - before, 1 + again), "{what}");
            }
        }
    }
}

/// A document of person 1 in an inner folder; person 2 edits it by a share of the outer one. Gives the document with its
/// parts, both folders and that share.
async fn document_in_shared_folder(world: &World) -> (String, Parts, [String; 2], String) {
    let (document, parts) = open_document(world).await;
    let restrict = json!({ "generalAccess": "restricted" });
    assert_eq!(world.on(1, "PUT", &document, "/access", Some(restrict)).await.status, 200);
    let outer = world.folder(1, "Outer", None).await;
    let inner = world.folder(1, "Inner", Some(&outer)).await;
    let into = json!({ "folderId": inner });
    assert_eq!(world.on(1, "POST", &document, "/move", Some(into)).await.status, 200);
    let share = json!({ "memberId": world.people[2].member, "role": "editor" });
    let share = id(&world.ask(1, "POST", &format!("/folders/{outer}/shares"), Some(share)).await);
    let share = format!("/folders/{outer}/shares/{share}");
    (document, parts, [outer, inner], share)
}

/// The ways in which person 2 loses what the outer folder gives: method, path and body.
fn losses(folders: &[String; 2], share: &str) -> [(&'static str, String, Option<Value>); 3] {
    let [_, inner] = folders;
    [
        ("DELETE", share.to_owned(), None),
        ("PUT", share.to_owned(), Some(json!({ "role": "viewer" }))),
        ("POST", format!("/folders/{inner}/move"), Some(json!({ "parentId": null }))),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_with_a_right_that_a_folder_gave_at_the_decision() {
    let world = World::of(7).await;
    let mut written = Vec::new();
    for loss in 0..3 {
        for (what, act) in ACTS {
            let (document, parts, folders, share) = document_in_shared_folder(&world).await;
            let subject = format!("document:{document}");
            let before = world.actions(&subject).await;
            let (method, path, body) = losses(&folders, &share)[loss].clone();
            let changed = world.ask(1, method, &path, body);
            let (method, tail, body) = act(&parts);
            let acted = world.on(2, method, &document, &tail, body);
            let (acted, changed) = Box::pin(world.meanwhile(2, acted, changed)).await;
            assert_eq!(changed.status, 200, "{}", changed.text);
            if acted.status != 403 || world.actions(&subject).await != before {
                written.push(format!("{loss}, {what}: {}", acted.status));
            }
        }
    }
    assert_eq!(written, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_read_with_a_right_that_a_folder_gave_at_the_decision() {
    let world = World::of(7).await;
    for (loss, status) in [(0, 403), (1, 200), (2, 403)] {
        let (document, _, folders, share) = document_in_shared_folder(&world).await;
        let (method, path, body) = losses(&folders, &share)[loss].clone();
        let changed = world.ask(1, method, &path, body);
        let read = world.on(2, "GET", &document, "", None);
        let (read, changed) = Box::pin(world.meanwhile(2, read, changed)).await;
        assert_eq!((changed.status, read.status), (200, status), "{loss}: {}", read.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_folder_still_gives_is_written_after_somebody_elses_loss() {
    let world = World::of(7).await;
    // What person 2 does is decided once, and once more after a change of the folders around the document.
    for (is_around, decisions) in [(true, 4), (false, 3)] {
        let (document, parts, [outer, _], _) = document_in_shared_folder(&world).await;
        let other = if is_around { outer } else { world.folder(1, "Other", None).await };
        let shares = format!("/folders/{other}/shares");
        let theirs = json!({ "memberId": world.people[3].member, "role": "viewer" });
        let theirs = format!("{shares}/{}", id(&world.ask(1, "POST", &shares, Some(theirs)).await));
        let before = world.decisions();
        let changed = world.ask(1, "DELETE", &theirs, None);
        let (method, tail, body) = ACTS[0].1(&parts);
        let acted = world.on(2, method, &document, &tail, body);
        let (acted, changed) = Box::pin(world.meanwhile(2, acted, changed)).await;
        assert_eq!((changed.status, acted.status), (200, 200), "{}", acted.text);
        assert!(is_about(world.decisions() - before, decisions), "two are the owner's");
    }
}

/// Both connections of a call that holds what a folder gives, and of one that takes it away: the second one waits.
#[tokio::test]
async fn a_folders_share_is_not_gone_while_a_write_by_it_is_under_way() {
    let world = World::of(7).await;
    let (document, _, [outer, _], share) = document_in_shared_folder(&world).await;
    let mut held = world.module.database.owner_pool().begin().await.expect("a connection");
    sqlx::raw_sql("LOCK TABLE docs.versions IN SHARE MODE").execute(&mut *held).await.expect("the table");
    let save = json!({ "body": "in time", "baseVersion": 2 });
    let mut save = Box::pin(world.on(2, "PUT", &document, "", Some(save)));
    tokio::select! {
        early = &mut save => panic!("the version was not awaited: {}", early.text),
        () = waiting(&world, 1) => {}
    }
    let mut removal = Box::pin(world.ask(1, "DELETE", &share, None));
    tokio::select! {
        early = &mut removal => panic!("the save was not awaited: {}", early.text),
        early = &mut save => panic!("the version was not awaited: {}", early.text),
        () = waiting(&world, 2) => {}
    }
    held.rollback().await.expect("the table is let go");
    let (saved, removed) = tokio::join!(save, removal);
    assert_eq!((saved.status, removed.status), (200, 200), "{} {}", saved.text, removed.text);
    assert_eq!(world.ask(2, "GET", &format!("/folders/{outer}"), None).await.status, 403);
}

/// Acts of person 2 that give a right for good: to a share, to another's request, and to what is put into a folder.
const LASTING: [(&str, usize); 3] = [("share", 4), ("change a role", 5), ("accept", 7)];

#[tokio::test]
async fn no_right_is_given_by_one_who_lost_the_own_one_while_the_call_waited() {
    let world = World::of(7).await;
    for is_lost in [true, false] {
        for (what, at) in LASTING {
            let (document, parts) = open_document(&world).await;
            let restrict = json!({ "generalAccess": "restricted" });
            assert_eq!(world.on(1, "PUT", &document, "/access", Some(restrict)).await.status, 200);
            let group = world.group(&[2]);
            let editors = json!({ "groupId": group, "role": "editor" });
            id(&world.on(1, "POST", &document, "/shares", Some(editors)).await);
            let before = world.facts().tuples.clone();
            let mut held = world.module.database.owner_pool().begin().await.expect("a connection");
            let lock = format!("SELECT FROM docs.documents WHERE id = '{document}' FOR UPDATE");
            sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut *held).await.expect("the row");
            let (method, tail, body) = ACTS[at].1(&parts);
            let mut acted = Box::pin(world.on(2, method, &document, &tail, body));
            tokio::select! {
                early = &mut acted => panic!("the row was not awaited: {}", early.text),
                () = waiting(&world, 1) => {}
            }
            if is_lost {
                world.facts().groups.insert(group, BTreeSet::new());
            }
            held.rollback().await.expect("the table is let go");
            let acted = acted.await;
            assert_eq!(acted.status == 403, is_lost, "{what}: {}", acted.text);
            assert_eq!(world.facts().tuples == before, is_lost, "{what}: a tuple");
            let unsettled = "SELECT count(*) FROM docs.shares WHERE state <> 'active'";
            assert_eq!(world.count(unsettled).await, 0, "{what}");
        }
    }
}

/// What is read of a document besides its text, with a word of what is written there after the reader has lost it.
const READS: [(&str, &str); 6] = [
    ("/comments", "SECRET"),
    ("/versions", "SECRET"),
    ("/versions/1", "Plan"),
    ("/history", "SECRET"),
    ("/access-requests", "SECRET"),
    ("/shares", "Person"),
];

/// Person 1 writes this word wherever a reader of the document may find it.
async fn write_everywhere(world: &World, document: &str, secret: &str) {
    let comment = world.on(1, "POST", document, "/comments", Some(json!({ "body": secret }))).await;
    assert_eq!(comment.status, 201, "{}", comment.text);
    let title = json!({ "title": secret, "baseVersion": 1 });
    assert_eq!(world.on(1, "PUT", document, "", Some(title)).await.status, 200);
    let note = json!({ "role": "viewer", "note": secret });
    assert_eq!(world.on(4, "POST", document, "/access-requests", Some(note)).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_who_is_removed_after_the_decision_reads_nothing_of_the_document() {
    for (tail, word) in READS {
        for removed in [false, true] {
            let world = World::of(7).await;
            let document = world.document(1, "Plan").await;
            let share = id(&world.share(1, &document, 2, "editor").await);
            let read = world.on(2, "GET", &document, tail, None);
            let meanwhile = async {
                let reply = if removed {
                    world.on(1, "DELETE", &document, &format!("/shares/{share}"), None).await
                } else {
                    world.on(1, "GET", &document, "", None).await
                };
                write_everywhere(&world, &document, "SECRET").await;
                reply
            };
            let (read, meant) = Box::pin(world.meanwhile(2, read, meanwhile)).await;
            assert_eq!(meant.status, 200, "{tail}: {}", meant.text);
            let expected = if removed { (403, false) } else { (200, true) };
            assert_eq!((read.status, read.text.contains(word)), expected, "{tail}: {}", read.text);
        }
    }
}

/// Takes the caller's groups and the module's administrators away.
fn narrow(world: &World) {
    let mut facts = world.facts();
    facts.admins.clear();
    facts.groups.values_mut().for_each(BTreeSet::clear);
}

async fn lock(world: &World, sql: String) -> sqlx::Transaction<'static, sqlx::Postgres> {
    let mut held = world.module.database.owner_pool().begin().await.expect("a connection");
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut *held).await.expect("the lock");
    held
}

/// A document of person 1 that a group of person 2 may write.
async fn document_of_a_group(world: &World) -> String {
    let document = world.document(1, "Plan").await;
    let group = json!({ "groupId": world.group(&[2]), "role": "editor" });
    assert_eq!(world.on(1, "POST", &document, "/shares", Some(group)).await.status, 201);
    document
}

#[tokio::test]
async fn a_list_that_waited_for_its_turn_is_decided_when_the_turn_has_come() {
    for (who, tail, table) in [
        (0, "/documents?view=all", "docs.documents"),
        (0, "/folders?view=all", "docs.folders"),
        (2, "comments", "docs.comments"),
        (2, "versions", "docs.versions"),
        (2, "history", "audit.docs__events"),
    ] {
        let world = World::of(5).await;
        let document = document_of_a_group(&world).await;
        let tail = if who == 0 { tail.to_owned() } else { format!("/documents/{document}/{tail}") };
        let list = || world.ask(who, "GET", &tail, None);
        assert_eq!(list().await.status, 200, "control: {tail}");
        let held = lock(&world, format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")).await;
        let (mut first, before) = (Box::pin(list()), world.decisions());
        tokio::select! {
            early = &mut first => panic!("the table was not awaited: {}", early.text),
            () = waiting(&world, 1) => {}
        }
        // With the one that reads, there is room for three more.
        let others: Vec<_> = (0..4).map(|_| Box::pin(list())).collect();
        let (over, _, three) = futures_util::future::select_all(others).await;
        assert_eq!(over.status, 429, "{tail}: {}", over.text);
        let (mut three, mut decided) = (Box::pin(futures_util::future::join_all(three)), 0);
        while decided < 5 {
            tokio::select! {
                early = &mut three => panic!("no turn was awaited: {:?}", early.len()),
                () = waiting(&world, 1) => decided = world.decisions() - before,
            }
        }
        narrow(&world);
        held.rollback().await.expect("the table is let go");
        let (first, late) = tokio::join!(first, three);
        assert!(matches!(first.status, 200 | 403 | 503), "{tail}: {}", first.text);
        assert_eq!(late.iter().map(|reply| reply.status).collect::<Vec<_>>(), [403; 3], "{tail}");
    }
}

/// What is written to a document: method, path and body.
type Write = fn() -> (&'static str, &'static str, Option<Value>);

#[tokio::test]
async fn a_write_that_waited_for_the_document_is_decided_again() {
    let writes: [(usize, Write); 4] = [
        (2, || ("PUT", "", Some(json!({ "body": "late", "baseVersion": 1 })))),
        (2, || ("POST", "/comments", Some(json!({ "body": "late" })))),
        (0, || ("PUT", "/access", Some(json!({ "generalAccess": "company_edit" })))),
        (0, || ("DELETE", "", None)),
    ];
    for (who, write) in writes {
        for narrows in [false, true] {
            let world = World::of(5).await;
            let document = document_of_a_group(&world).await;
            let (method, tail, body) = write();
            let held =
                lock(&world, format!("SELECT FROM docs.documents WHERE id = '{document}' FOR UPDATE")).await;
            let mut late = Box::pin(world.on(who, method, &document, tail, body));
            tokio::select! {
                early = &mut late => panic!("the row was not awaited: {}", early.text),
                () = waiting(&world, 1) => {}
            }
            // Long enough that the decision is not fresh any more.
            let since = std::time::Instant::now();
            while since.elapsed() < std::time::Duration::from_millis(60) {
                waiting(&world, 1).await;
            }
            let before = world.actions(&format!("document:{document}")).await;
            if narrows {
                narrow(&world);
            }
            held.rollback().await.expect("the row is let go");
            let late = late.await;
            let after = world.actions(&format!("document:{document}")).await;
            let is_refused = late.status == 403 && before == after;
            assert_eq!(is_refused, narrows, "{method} {tail}: {}", late.text);
            assert!(narrows || late.status < 300, "control: {method} {tail}: {}", late.text);
        }
    }
}

#[tokio::test]
async fn a_removal_and_a_move_out_that_waited_are_decided_again() {
    for what in ["share", "move"] {
        for narrows in [false, true] {
            let world = World::of(5).await;
            let folder = world.folder(0, "Team", None).await;
            let body = json!({ "title": "Plan", "folderId": folder });
            let document = id(&world.ask(0, "POST", "/documents", Some(body)).await);
            let group = json!({ "groupId": world.group(&[2]), "role": "editor" });
            assert_eq!(world.on(0, "POST", &document, "/shares", Some(group)).await.status, 201);
            let share = id(&world.share(0, &document, 3, "viewer").await);
            let (who, method, tail, body) = match what {
                "share" => (2, "DELETE", format!("/shares/{share}"), None),
                _ => (0, "POST", "/move".to_owned(), Some(json!({ "folderId": null }))),
            };
            let held =
                lock(&world, format!("SELECT FROM docs.documents WHERE id = '{document}' FOR UPDATE")).await;
            let mut late = Box::pin(world.on(who, method, &document, &tail, body));
            tokio::select! {
                early = &mut late => panic!("the row was not awaited: {}", early.text),
                () = waiting(&world, 1) => {}
            }
            let tuples = world.facts().tuples.clone();
            if narrows {
                narrow(&world);
                world.facts().active[0] = false;
            }
            held.rollback().await.expect("the row is let go");
            let late = late.await;
            let is_refused = late.status == 403 && world.facts().tuples == tuples;
            assert_eq!(is_refused, narrows, "{what}: {}", late.text);
            assert!(narrows || late.status < 300, "control: {what}: {}", late.text);
        }
    }
}
