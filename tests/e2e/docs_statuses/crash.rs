//! `kill -9` of docs at each step of operations that write rows and tuples: a share, its revocation, a move, a
//! transfer, and deletions. Database locks hold the write at its step. Afterwards a reader whose revocation was
//! acknowledged reads nothing, no document is lost, and the same request completes the write.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};

use super::scene::{Docs, Scene};
use crate::harness::login::subject;
use crate::harness::{Reply, eventually, given_or};
use crate::module_scene::{Module, id};
use crate::tour::{create_member, link};

/// Time limit of a step.
const PATIENCE: Duration = Duration::from_mins(1);
const TEXT: &str = "text";
/// The locks that stop every change of a tuple, and every settlement, whose transaction writes the audit row.
const TUPLES: &str = "LOCK TABLE authz.tuple IN EXCLUSIVE MODE";
const AUDIT: &str = "LOCK TABLE audit.docs__events IN EXCLUSIVE MODE";

#[tokio::test]
async fn what_is_revoked_stays_so_and_nothing_is_lost_by_kill_9_at_any_step() {
    let mut world = World::start().await;
    let rounds: usize = given_or("CRASH_ROUNDS", 1);
    let (begun, mut kills) = (Instant::now(), 0);
    for round in 0..rounds {
        kills += world.shares_and_revokes().await;
        kills += world.moves().await;
        kills += world.transfers().await;
        kills += world.deletes().await;
        if round % 10 == 9 {
            println!("{kills} kills in {:.0?}", begun.elapsed());
        }
    }
    println!(
        "{kills} kills in {:.1?}: nobody reads what was revoked, every document is there",
        begun.elapsed()
    );
}

/// A request, and its response when an earlier one or the sweep has already done its work.
struct Request {
    method: &'static str,
    tail: String,
    body: Option<Value>,
    done_before: (u16, &'static str),
}

impl Request {
    fn new(
        method: &'static str,
        tail: String,
        body: Option<Value>,
        done_before: (u16, &'static str),
    ) -> Self {
        Self { method, tail, body, done_before }
    }
}

struct World {
    scene: Scene,
    database: PgPool,
    alice: String,
    admin: String,
    /// The subject whose share was revoked, with a response, before the first crash.
    bob: String,
    bob_member: String,
    document: String,
    /// The document's folder, and the folder it is moved to.
    folders: [String; 2],
}

impl World {
    async fn start() -> Self {
        let mut scene = Scene::start("docs-crash").await;
        let tokens = ["admin", "alice", "bob"].map(|user| scene.platform.token(user));
        let [admin, alice, bob] = tokens.map(async |token| subject(&token.await));
        let (admin, alice, bob) = (admin.await, alice.await, bob.await);
        let bob_member = create_member(&scene.admin, &scene.company, "BOB").await;
        link(&scene.admin, &bob_member, &bob).await;
        let there = super::scene::make_folder(&mut scene, "There", None).await;
        let database = scene.platform.owner();
        let folders = [scene.rows.folder.clone(), there];
        let document = scene.rows.document.clone();
        let world = Self { scene, database, alice, admin, bob, bob_member, document, folders };
        world.prepare().await;
        world
    }

    /// Leaves the document alone in the first folder, without shares; also removes the folder's share, so that only the
    /// owner reads.
    async fn prepare(&self) {
        for (target, share) in
            [(self.target(), &self.scene.rows.share), (self.folder(0), &self.scene.rows.folder_share)]
        {
            self.done(&Request::new("DELETE", format!("{target}/shares/{share}"), None, (0, ""))).await;
        }
        let to = json!({ "folderId": self.folders[0] });
        self.done(&Request::new("POST", format!("{}/move", self.target()), Some(to), (0, ""))).await;
        let body = json!({ "memberId": self.bob_member, "role": "editor" });
        let share = Request::new("POST", format!("{}/shares", self.target()), Some(body), (0, ""));
        let share = id(&self.done(&share).await.body["data"]);
        assert_eq!(self.read("bob").await, 200);
        self.done(&Request::new("DELETE", format!("{}/shares/{share}", self.target()), None, (0, ""))).await;
        self.holds("at the beginning").await;
        self.is_settled("at the beginning").await;
    }

    fn target(&self) -> String {
        format!("/documents/{}", self.document)
    }

    fn folder(&self, at: usize) -> String {
        format!("/folders/{}", self.folders[at])
    }

    async fn shares_and_revokes(&mut self) -> usize {
        let body = json!({ "memberId": self.scene.alice_member, "role": "editor" });
        let steps = ["LOCK TABLE docs.shares IN EXCLUSIVE MODE", TUPLES, AUDIT];
        for step in steps {
            let share = Request::new(
                "POST",
                format!("{}/shares", self.target()),
                Some(body.clone()),
                (409, "SHARE_EXISTS"),
            );
            self.killed(step, &share).await;
            assert_eq!(self.read("alice").await, 200, "shared, {step}");
            let share = self.share_of_alice().await;
            let revoke =
                Request::new("DELETE", format!("{}/shares/{share}", self.target()), None, (404, "NOT_FOUND"));
            self.killed(step, &revoke).await;
            assert_eq!(self.read("alice").await, 403, "the revocation was answered, {step}");
        }
        2 * steps.len()
    }

    async fn share_of_alice(&self) -> String {
        self.text(
            "SELECT id::text FROM docs.shares WHERE document_id = $1::text::uuid AND kc_sub = $2",
            &self.alice,
        )
        .await
    }

    async fn moves(&mut self) -> usize {
        let new = |folder: &str| {
            format!(
                "INSERT INTO authz.tuple VALUES ('docs_document', '{}', 'parent', 'docs_folder', '{folder}', '', 'grant')",
                self.document
            )
        };
        let steps = [
            ("LOCK TABLE docs.placements IN EXCLUSIVE MODE".to_owned(), 1),
            (TUPLES.to_owned(), 0),
            (new(&self.folders[1]), 1),
            (AUDIT.to_owned(), 0),
        ];
        let count = steps.len();
        for (step, to) in steps {
            let body = json!({ "folderId": self.folders[to] });
            let request = Request::new("POST", format!("{}/move", self.target()), Some(body), (0, ""));
            self.killed(&step, &request).await;
            let parent = "SELECT subject_id FROM authz.tuple WHERE object_id = $1 AND relation = 'parent' AND $2 <> ''";
            assert_eq!(self.text(parent, "-").await, self.folders[to], "{step}");
        }
        count
    }

    async fn transfers(&mut self) -> usize {
        let taken = |old: &str| {
            format!(
                "SELECT 1 FROM authz.tuple WHERE object_id = '{}' AND relation = 'owner' AND subject_id = '{old}' FOR UPDATE",
                self.document
            )
        };
        let to_alice = self.scene.alice_member.clone();
        let to_admin = self.scene.admin_member.clone();
        let steps = [
            ("LOCK TABLE docs.ownerships IN EXCLUSIVE MODE".to_owned(), &to_alice),
            (TUPLES.to_owned(), &to_admin),
            (AUDIT.to_owned(), &to_alice),
            (taken(&self.alice), &to_admin),
        ];
        let count = steps.len();
        for (step, member) in steps {
            let body = json!({ "memberId": member });
            let request = Request::new(
                "POST",
                format!("{}/transfer", self.target()),
                Some(body),
                (422, "PRINCIPAL_IS_OWNER"),
            );
            self.killed(&step, &request).await;
            let owner = "SELECT string_agg(subject_id, ' ') FROM authz.tuple WHERE object_id = $1 AND relation = 'owner' AND $2 <> ''";
            let expected = if *member == to_alice { &self.alice } else { &self.admin };
            assert_eq!(self.text(owner, "-").await, *expected, "{step}");
        }
        // The former owner stays an editor; the next round starts without that.
        let share = self.share_of_alice().await;
        let revoke = Request::new("DELETE", format!("{}/shares/{share}", self.target()), None, (0, ""));
        self.done(&revoke).await;
        assert_eq!(self.read("alice").await, 403);
        count
    }

    /// The document goes to the trash and comes back; a folder is deleted permanently.
    async fn deletes(&mut self) -> usize {
        for step in ["LOCK TABLE docs.documents IN EXCLUSIVE MODE", AUDIT] {
            let trash = Request::new("DELETE", self.target(), None, (409, "DOCUMENT_TRASHED"));
            self.killed(step, &trash).await;
            assert_eq!(self.read("admin").await, 409, "in the trash, {step}");
            let restore = Request::new(
                "POST",
                format!("{}/restore", self.target()),
                None,
                (409, "DOCUMENT_NOT_TRASHED"),
            );
            self.killed(step, &restore).await;
        }
        for step in ["LOCK TABLE docs.folders IN EXCLUSIVE MODE", TUPLES, AUDIT] {
            let made = Request::new("POST", "/folders".to_owned(), Some(json!({ "name": "Gone" })), (0, ""));
            let folder = id(&self.done(&made).await.body["data"]);
            // Once its tuples are gone no one manages it any more, so the row is left for the sweep.
            let gone = if step == AUDIT { (403, "ENGINE_DENIED") } else { (404, "NOT_FOUND") };
            let delete = Request::new("DELETE", format!("/folders/{folder}"), None, gone);
            self.killed(step, &delete).await;
            let left = "SELECT count(*)::text FROM authz.tuple WHERE object_id = $2 AND $1 <> ''";
            assert_eq!(self.text(left, &folder).await, "0", "{step}");
        }
        7
    }

    /// Kills the process while the request waits at this step; then the same request runs to completion.
    async fn killed(&mut self, step: &str, request: &Request) {
        let shown = format!("{} {}, {step}", request.method, request.tail);
        let mut held = self.database.begin().await.expect("a transaction");
        sqlx::query(AssertSqlSafe(step.to_owned())).execute(&mut *held).await.expect("the lock");
        let (api, path, body) = self.prepared("admin", request).await;
        let method: Method = request.method.parse().expect("a method");
        let write = tokio::spawn(async move { api.send(method, &path, body).await });
        eventually(&shown, PATIENCE, || async {
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
                AND datname = current_database() AND usename IN ('platform_docs', 'platform_authz')";
            let waiting: i64 = sqlx::query_scalar(waiting)
                .fetch_one(&self.database)
                .await
                .map_err(|error| error.to_string())?;
            if waiting > 0 { Ok(()) } else { Err("nothing waits".to_owned()) }
        })
        .await;
        self.scene.platform.kill(Docs::KEY);
        let reply = write.await.expect("the edge answers");
        assert_eq!(reply.status, 503, "{shown}: nothing was acknowledged: {}", reply.body);
        held.rollback().await.expect("the database");
        self.holds(&shown).await;
        self.scene.platform.bring_back(Docs::KEY).await;
        assert_eq!(self.read("bob").await, self.refused().await, "{shown}: the revocation of before");
        self.done(request).await;
        self.holds(&shown).await;
        self.is_settled(&shown).await;
        assert_eq!(self.read("bob").await, self.refused().await, "{shown}: the revocation of before");
    }

    async fn prepared(&self, user: &str, request: &Request) -> (crate::harness::Api, String, Option<Value>) {
        let api = self.scene.platform.api().with_token(&self.scene.platform.token(user).await);
        let path = format!("/api/{}/v1/companies/{}{}", Docs::KEY, self.scene.company, request.tail);
        (api, path, request.body.clone())
    }

    /// Repeats the request until the module has its keys again and the dead process's lock is released.
    async fn done(&self, request: &Request) -> Reply {
        let (api, path, body) = self.prepared("admin", request).await;
        let (last, method) =
            (std::sync::Mutex::new(None), request.method.parse::<Method>().expect("a method"));
        eventually(&format!("{} {}", request.method, request.tail), PATIENCE, || async {
            let reply = api.send(method.clone(), &path, body.clone()).await;
            let (status, word) = (reply.status.as_u16(), said(&reply));
            if matches!(status, 200 | 201) || (status, word.as_str()) == request.done_before {
                *last.lock().expect("one at a time") = Some(reply);
                return Ok(());
            }
            Err(format!("{status} {}", reply.body))
        })
        .await;
        last.into_inner().expect("one at a time").expect("an answer")
    }

    async fn read(&self, user: &str) -> u16 {
        let request = Request::new("GET", self.target(), None, (0, ""));
        let (api, path, _) = self.prepared(user, &request).await;
        let reply = std::sync::Mutex::new(0);
        eventually("a reader is answered", PATIENCE, || async {
            let got = api.send(Method::GET, &path, None).await;
            *reply.lock().expect("one at a time") = got.status.as_u16();
            if got.status == 503 { Err(got.body.to_string()) } else { Ok(()) }
        })
        .await;
        reply.into_inner().expect("one at a time")
    }

    /// The refusal for a stranger to the document: a document in the trash is not found.
    async fn refused(&self) -> u16 {
        let state = "SELECT state FROM docs.documents WHERE id = $1::text::uuid AND $2 <> ''";
        if self.text(state, "-").await == "trashed" { 404 } else { 403 }
    }

    async fn text(&self, sql: &str, other: &str) -> String {
        let found = sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).bind(&self.document).bind(other);
        found.fetch_one(&self.database).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// At any time, the tuples grant the revoked subject nothing, and the document has its text and an owner.
    async fn holds(&self, when: &str) {
        let tuples = "SELECT count(*)::text FROM authz.tuple WHERE object_type LIKE 'docs%' AND subject_id = $2 AND $1 <> ''";
        assert_eq!(self.text(tuples, &self.bob).await, "0", "{when}");
        let there = "SELECT count(*)::text FROM docs.documents
            WHERE id = $1::text::uuid AND state <> 'provisioning' AND body = $2";
        assert_eq!(self.text(there, TEXT).await, "1", "{when}");
        let owned = "SELECT (count(*) BETWEEN 1 AND 2)::text FROM authz.tuple WHERE object_id = $1 AND relation = 'owner' AND $2 <> ''";
        assert_eq!(self.text(owned, "-").await, "true", "{when}");
    }

    /// Rows and tuples are settled and agree.
    async fn is_settled(&self, when: &str) {
        let unsettled = "SELECT ((SELECT count(*) FROM docs.shares WHERE state <> 'active')
            + (SELECT count(*) FROM docs.placements WHERE state <> 'active')
            + (SELECT count(*) FROM docs.ownerships WHERE state <> 'active')
            + (SELECT count(*) FROM docs.folders f WHERE state <> 'active'
                AND EXISTS (SELECT FROM authz.tuple WHERE object_id = f.id::text))
            + (SELECT count(*) FROM docs.documents WHERE transfer_to IS NOT NULL))::text WHERE $1 <> $2";
        assert_eq!(self.text(unsettled, "-").await, "0", "{when}");
        let shares = "SELECT ((SELECT count(*) FROM docs.shares WHERE document_id = $1::text::uuid)
            - (SELECT count(*) FROM authz.tuple WHERE object_id = $1 AND relation IN ('viewer', 'commenter', 'editor')))::text
            WHERE $2 <> ''";
        assert_eq!(self.text(shares, "-").await, "0", "{when}");
    }
}

/// `details.reason` for a generic code, else the code.
fn said(reply: &Reply) -> String {
    let error = &reply.body["error"];
    let reason = error["details"]["reason"].as_str().or_else(|| error["code"].as_str());
    reason.unwrap_or_default().to_owned()
}
