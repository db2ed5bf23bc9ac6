//! Documents and folders that are taken out of a folder, or moved, and the call breaks off: that is finished, never
//! undone, and what is still open is listed.

use serde_json::{Value, json};

use crate::properties::sweep;
use crate::world::{Fault, World, id};

struct Scene {
    world: World,
    /// The shared folder.
    shared: String,
    /// A folder in it.
    inner: String,
    /// A document that is taken out, one in the inner folder, which is taken out, and one that is moved.
    documents: [String; 3],
    target: String,
}

impl Scene {
    /// Somebody has a shared folder with a document and a folder, and a folder of their own.
    async fn new() -> Self {
        let world = World::of(6).await;
        let shared = world.folder(1, "Shared", None).await;
        let inner = world.folder(1, "Inner", Some(&shared)).await;
        let target = world.folder(1, "Target", None).await;
        for (folder, who) in [(&shared, 2), (&target, 4)] {
            let body = json!({ "memberId": world.people[who].member, "role": "editor" });
            id(&world.ask(1, "POST", &format!("/folders/{folder}/shares"), Some(body)).await);
        }
        let made = async |title: &str, folder: &str| {
            let body = json!({ "title": title, "folderId": folder });
            id(&world.ask(1, "POST", "/documents", Some(body)).await)
        };
        let documents =
            [made("Out", &shared).await, made("Within", &inner).await, made("Moved", &shared).await];
        Self { world, shared, inner, documents, target }
    }

    fn moves(&self) -> [(String, Value); 3] {
        let [out, _, moved] = &self.documents;
        [
            (format!("/documents/{out}/move"), json!({ "folderId": null })),
            (format!("/folders/{}/move", self.inner), json!({ "parentId": null })),
            (format!("/documents/{moved}/move"), json!({ "folderId": self.target })),
        ]
    }

    /// Breaks all moves off at their step `nth`.
    async fn break_off(&self, nth: usize, fault: Fault) {
        for (path, body) in self.moves() {
            self.world.fail(&[vec![Fault::None; nth], vec![fault]].concat());
            let reply = self.world.ask(1, "POST", &path, Some(body)).await;
            assert!(matches!(reply.status, 200 | 503), "{}", reply.text);
        }
        self.world.fail(&[]);
    }

    async fn unsettled(&self) -> i64 {
        self.world.count("SELECT count(*) FROM docs.placements WHERE state <> 'active'").await
    }

    /// Whether a document's list of shares names a person.
    async fn names(&self, document: &str, who: usize) -> bool {
        let listed = self.world.on(1, "GET", document, "/shares", None).await;
        let member = json!(self.world.people[who].member);
        listed.data().as_array().expect("a list").iter().any(|share| share["memberId"] == member)
    }

    /// Makes the moves as old as if nobody worked on them any more.
    async fn age(&self) {
        let age = "UPDATE docs.placements SET attempted_at = attempted_at - interval '11 seconds'";
        self.world.module.execute(age.to_owned()).await;
    }
}

#[tokio::test]
async fn what_is_taken_out_of_a_folder_is_told_as_long_as_it_is_open_there() {
    for (nth, fault) in
        [(0, Fault::LostBefore), (0, Fault::LostAfter), (1, Fault::LostBefore), (1, Fault::LostAfter)]
    {
        let scene = Scene::new().await;
        for document in &scene.documents {
            assert!(scene.world.may_read(2, document).await && !scene.world.may_read(4, document).await);
            assert!(scene.names(document, 2).await && !scene.names(document, 4).await, "control");
        }
        scene.break_off(nth, fault).await;
        assert_eq!(scene.unsettled().await, if nth == 0 { 3 } else { 1 }, "control: they break off");
        let shared = scene.world.listed(2, "view=shared").await;
        for (document, title) in scene.documents.iter().zip(["Out", "Within", "Moved"]) {
            for who in [2, 4] {
                let reads = scene.world.may_read(who, document).await;
                assert!(!reads || scene.names(document, who).await, "{nth} {fault:?}: {who} reads {title}");
            }
            let reads = scene.world.may_read(2, document).await;
            assert!(!reads || shared.contains(&format!("{title}: editor")), "{nth} {fault:?}: {shared:?}");
        }
        assert_eq!(
            scene.world.may_read(2, &scene.documents[0]).await,
            fault == Fault::LostBefore && nth == 0
        );
    }
}

#[tokio::test]
async fn what_is_being_taken_out_is_finished_by_the_next_request_and_never_undone() {
    for (nth, fault) in
        [(0, Fault::LostBefore), (0, Fault::LostAfter), (1, Fault::LostBefore), (1, Fault::LostAfter)]
    {
        let scene = Scene::new().await;
        scene.break_off(nth, fault).await;
        if fault == Fault::LostBefore && nth == 0 {
            sweep(&scene.world).await;
            assert_eq!(scene.unsettled().await, 3, "the sweep has no bearer");
        }
        scene.age().await;
        for (who, document) in [2, 3, 2].into_iter().zip(&scene.documents) {
            assert!(!scene.world.may_read(who, document).await, "{nth} {fault:?}");
        }
        assert_eq!(scene.unsettled().await, 0, "{nth} {fault:?}");
        for document in &scene.documents {
            assert!(!scene.world.may_read(2, document).await && !scene.names(document, 2).await);
        }
        assert!(scene.world.may_read(4, &scene.documents[2]).await, "it is where it was moved to");
        let parents = scene.world.facts().tuples.iter().filter(|tuple| tuple.contains("#parent@")).count();
        assert_eq!(parents, 2, "{nth} {fault:?}");
        let rows = scene.world.module.audit().await;
        let moved =
            rows.iter().filter(|row| row["action"].as_str().is_some_and(|action| action.contains(".moved")));
        let moved: Vec<&Value> = moved.map(|row| &row["actor"]).collect();
        assert_eq!(moved, ["subject-1"; 3], "those who asked for it");
        assert_eq!(
            scene.world.ask(1, "DELETE", &format!("/folders/{}", scene.shared), None).await.status,
            200
        );
    }
}

#[tokio::test]
async fn a_stranger_does_not_undo_what_is_being_taken_out() {
    let scene = Scene::new().await;
    scene.break_off(0, Fault::LostBefore).await;
    let begun = "UPDATE docs.placements SET attempts = 0 WHERE state <> 'active'";
    scene.world.module.execute(begun.to_owned()).await;
    scene.age().await;
    let paths = scene.documents.iter().map(|document| format!("/documents/{document}"));
    for path in paths.chain([format!("/folders/{}", scene.inner)]) {
        scene.world.fail(&[Fault::Refused]);
        assert_eq!(scene.world.ask(3, "GET", &path, None).await.status, 403, "{path}");
        assert_eq!(scene.unsettled().await, 3, "{path}");
        scene.age().await;
        scene.world.fail(&[Fault::Refused]);
        assert_eq!(
            scene.world.ask(2, "GET", &path, None).await.status,
            503,
            "{path}: nothing is opened by it"
        );
        scene.age().await;
    }
    scene.world.fail(&[]);
    assert_eq!(scene.world.ask(2, "GET", &format!("/folders/{}", scene.inner), None).await.status, 403);
    assert_eq!(scene.unsettled().await, 2, "a folder's move is finished by a request about it");
}

#[tokio::test]
async fn a_folder_is_deleted_although_a_move_out_of_it_broke_off() {
    let scene = Scene::new().await;
    scene.break_off(0, Fault::LostBefore).await;
    let tail = format!("/folders/{}", scene.shared);
    assert_eq!(scene.world.ask(1, "DELETE", &tail, None).await.code(), "FOLDER_NOT_EMPTY", "control");
    scene.age().await;
    let deleted = scene.world.ask(1, "DELETE", &tail, None).await;
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    assert_eq!(scene.unsettled().await, 0);
}

#[tokio::test]
async fn a_move_into_a_folder_whose_outcome_nobody_learnt_is_settled_by_the_next_request() {
    for (fault, is_in) in [(Fault::LostAfter, true), (Fault::LostBefore, false)] {
        let scene = Scene::new().await;
        let (world, document) = (&scene.world, scene.world.document(1, "Into").await);
        let folder = scene.world.folder(1, "Into", None).await;
        let moves = [
            (format!("/documents/{document}/move"), json!({ "folderId": scene.shared })),
            (format!("/folders/{folder}/move"), json!({ "parentId": scene.shared })),
        ];
        for (path, body) in moves {
            world.fail(&[fault]);
            assert_eq!(world.ask(1, "POST", &path, Some(body)).await.status, 503);
        }
        assert_eq!(scene.unsettled().await, 2, "control: not at once");
        scene.age().await;
        let place = if is_in { json!(scene.shared) } else { Value::Null };
        for (path, name) in
            [(format!("/documents/{document}"), "folderId"), (format!("/folders/{folder}"), "parentId")]
        {
            let read = world.ask(1, "GET", &path, None).await;
            assert_eq!((read.status, &read.data()[name]), (200, &place), "{}", read.text);
        }
        assert_eq!(scene.unsettled().await, 0);
        assert_eq!(world.may_read(2, &document).await, is_in);
        let seen = world.listed(2, "view=shared").await.iter().any(|one| one.starts_with("Into"));
        assert_eq!(seen, is_in, "the list agrees");
    }
}
