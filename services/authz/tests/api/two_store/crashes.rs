//! `kill -9` at every step of a creation, of one under an idempotency key, and of a removal, and at random moments.
//! After each crash either the same request is repeated, or the sweep runs and then the request. `CRASH_ROUNDS` sets
//! how often each step is tried (2; 200 for a release note); the tests print the figures.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use axum::response::IntoResponse;
use serde_json::Value;
use service::ApiError;
use service::idempotency::Once;
use uuid::Uuid;

use super::child;
use super::scene::Scene;
use crate::cases;

/// Steps of a creation in order: in the first phase's transaction; row and claim committed, authz not asked; the
/// attempt counted; the tuples granted; in the second phase's transaction; all committed but not answered.
const CREATING: [&str; 6] = ["first phase", "read 1", "asking", "answered", "settling", "settled"];
/// Steps of a removal, which reads the row in both phases.
const REMOVING: [&str; 6] = ["first phase", "read 2", "asking", "answered", "settling", "settled"];

#[expect(clippy::disallowed_methods, reason = "how long a test tries is its caller's to say")]
fn rounds() -> usize {
    std::env::var("CRASH_ROUNDS").map_or(2, |rounds| rounds.parse().expect("CRASH_ROUNDS is a number"))
}

/// The status and data of a creation's answer, and whether it was replayed.
async fn told(made: Result<Once<Value>, ApiError>) -> (u16, Value, bool) {
    let response = made.into_response();
    let replayed = response.headers().contains_key("idempotency-replayed");
    let status = response.status().as_u16();
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    let mut body: Value = serde_json::from_slice(&bytes).expect("JSON");
    (status, body["data"].take(), replayed)
}

/// The findings after the crashes at one step.
#[derive(Default)]
struct Tally {
    resumed: usize,
    kept: u64,
    removed: u64,
}

impl Tally {
    fn line(&self, what: &str, step: &str) -> String {
        let Self { resumed, kept, removed } = self;
        format!("{what:8} {step:12} {resumed:4} resumed, swept: {kept:4} kept, {removed:4} removed\n")
    }

    /// Runs the sweep first in every other round; returns whether it did.
    async fn sweep_first(&mut self, scene: &Scene, round: usize) -> bool {
        scene.until_alone().await;
        if round.is_multiple_of(2) {
            self.resumed += 1;
            return false;
        }
        let swept = scene.sweep().await;
        self.kept += swept.kept;
        self.removed += swept.removed;
        assert_eq!(swept.left, 0, "nothing is left");
        scene.at_rest().await;
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_creation_that_dies_at_any_step_is_resumed_or_swept() {
    let scene = Scene::start().await;
    let (begun, mut table) = (Instant::now(), String::new());
    for (number, step) in CREATING.into_iter().enumerate() {
        let mut tally = Tally::default();
        for round in 0..rounds() {
            let holder = format!("plain-{number}-{round}");
            child::run(&scene, &format!("share {holder}"), step).await;
            let swept = tally.sweep_first(&scene, round).await;
            let there = scene.share_of(&holder).await.is_some_and(|(state, _)| state == "active");
            let (status, ..) = told(scene.module.share(&holder, None).await).await;
            assert_eq!(status, if there { 409 } else { 201 }, "{step} {round} {swept}: done once");
            made_once(&scene, &holder).await;
        }
        table += &tally.line("create", step);
    }
    scene.at_rest().await;
    tell(&table, begun);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keyed_creation_that_dies_at_any_step_is_resumed_and_answered_once() {
    let scene = Scene::start().await;
    let (begun, mut table) = (Instant::now(), String::new());
    for (number, step) in CREATING.into_iter().enumerate() {
        let mut tally = Tally::default();
        for round in 0..rounds() {
            let holder = format!("keyed-{number}-{round}");
            child::run(&scene, &format!("share {holder} {holder}"), step).await;
            let before = scene.share_of(&holder).await;
            let swept = tally.sweep_first(&scene, round).await;
            // Either the request that died or the sweep, which kept its row, has settled it.
            let settled = scene.share_of(&holder).await.is_some_and(|(state, _)| state == "active");
            let first = told(scene.module.share(&holder, Some(&holder)).await).await;
            assert_eq!(first.0, 201, "{step} {round} {swept}: {}", first.1);
            assert_eq!(first.2, settled, "{step} {round}: replayed when it was answered before");
            let (_, id) = scene.share_of(&holder).await.expect("the share");
            assert_eq!(first.1["id"], id.to_string(), "{step} {round}");
            if let Some((_, before)) = before.filter(|_| !swept) {
                assert_eq!(id, before, "{step} {round}: the row that was begun");
            }
            let again = told(scene.module.share(&holder, Some(&holder)).await).await;
            assert_eq!(again, (201, first.1, true), "{step} {round}: the same answer again");
            made_once(&scene, &holder).await;
        }
        table += &tally.line("keyed", step);
    }
    scene.at_rest().await;
    tell(&table, begun);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_that_dies_at_any_step_is_resumed_or_swept() {
    let scene = Scene::start().await;
    let (begun, mut table) = (Instant::now(), String::new());
    for (number, step) in REMOVING.into_iter().enumerate() {
        let mut tally = Tally::default();
        for round in 0..rounds() {
            let holder = format!("gone-{number}-{round}");
            scene.module.share(&holder, None).await.expect("shared");
            let (_, id) = scene.share_of(&holder).await.expect("the share");
            child::run(&scene, &format!("unshare {id}"), step).await;
            let swept = tally.sweep_first(&scene, round).await;
            let there = scene.share_of(&holder).await.is_some();
            let removed = scene.module.unshare(id).await;
            assert_eq!(removed.is_ok(), there, "{step} {round} {swept}: gone once, {removed:?}");
            assert!(scene.share_of(&holder).await.is_none(), "{step} {round}");
            assert_eq!(scene.tuples_of(&holder).await, 0, "{step} {round}: no orphan");
            assert_eq!(scene.audited(&holder, "share.deleted").await, 1, "{step} {round}");
            assert_eq!(scene.changes(&holder, "tuples.revoked").await, 1, "{step} {round}");
        }
        table += &tally.line("remove", step);
    }
    scene.at_rest().await;
    tell(&table, begun);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_without_a_bearer_that_dies_at_any_step_is_finished_by_its_repetition() {
    let scene = Scene::start().await;
    let (begun, mut table) = (Instant::now(), String::new());
    for (number, step) in REMOVING.into_iter().enumerate() {
        let mut tally = Tally::default();
        for round in 0..rounds() {
            let holder = format!("withdrawn-{number}-{round}");
            scene.module.share(&holder, None).await.expect("shared");
            let (_, id) = scene.share_of(&holder).await.expect("the share");
            child::run(&scene, &format!("withdraw {id}"), step).await;
            tally.sweep_first(&scene, round).await;
            scene.module.withdraw(id).await.expect("finished");
            scene.module.withdraw(id).await.expect("what is gone is removed");
            assert!(scene.share_of(&holder).await.is_none(), "{step} {round}");
            assert_eq!(scene.tuples_of(&holder).await, 0, "{step} {round}: no orphan");
            assert_eq!(scene.audited(&holder, "share.deleted").await, 1, "{step} {round}");
            assert_eq!(scene.changes(&holder, "tuples.revoked").await, 1, "{step} {round}");
        }
        table += &tally.line("withdraw", step);
    }
    scene.at_rest().await;
    tell(&table, begun);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_module_that_is_killed_at_random_moments_leaves_nothing_behind() {
    let scene = Scene::start().await;
    let (begun, mut tally) = (Instant::now(), Tally::default());
    for round in 0..rounds() * 3 {
        let prefix = format!("random-{round}");
        let mut child = child::start(&scene, &format!("churn {prefix}"), "never");
        let told = child.stdout.take().expect("its standard output");
        // A random time, not a wait for an event: the child is busy from its first line on.
        let moment = Duration::from_micros(u64::from(Uuid::new_v4().as_fields().1) * 2);
        let ended = tokio::task::spawn_blocking(move || {
            let mut lines = BufReader::new(told).lines().map_while(Result::ok);
            assert!(lines.any(|line| line == "ready"), "the child began");
            std::thread::park_timeout(moment);
            child.kill().expect("killed");
            child.wait().expect("a child ends")
        });
        assert!(child::was_killed(ended.await.expect("waited")), "it works until it is killed");
        if tally.sweep_first(&scene, round).await {
            continue;
        }
        for (holder, id) in unsettled(&scene).await {
            let (state, _) = scene.share_of(&holder).await.expect("the share");
            if state == "revoking" {
                scene.module.unshare(id).await.expect("resumed");
            } else {
                assert_eq!(told_of(&scene, &holder).await, 201, "resumed");
            }
        }
        scene.at_rest().await;
    }
    let shares: i64 = sqlx::query_scalar("SELECT count(*) FROM audit.crm__events")
        .fetch_one(scene.pool())
        .await
        .expect("the audit");
    tell(&format!("{}{shares} audited changes\n", tally.line("random", "kills")), begun);
}

async fn told_of(scene: &Scene, holder: &str) -> u16 {
    let number: u32 = holder.rsplit('-').next().and_then(|text| text.parse().ok()).expect("a number");
    let key = number.is_multiple_of(2).then_some(holder);
    told(scene.module.share(holder, key).await).await.0
}

async fn unsettled(scene: &Scene) -> Vec<(String, Uuid)> {
    let sql = "SELECT holder, id FROM crm.shares WHERE state <> 'active'";
    sqlx::query_as(sql).fetch_all(scene.pool()).await.expect("the shares")
}

/// Checks for one active row, both tuples, and one effect in each store.
async fn made_once(scene: &Scene, holder: &str) {
    let state = scene.share_of(holder).await.map(|(state, _)| state);
    assert_eq!(state.as_deref(), Some("active"), "{holder}");
    assert_eq!(scene.tuples_of(holder).await, 2, "{holder}");
    assert_eq!(scene.audited(holder, "share.created").await, 1, "{holder}");
    assert_eq!(scene.changes(holder, "tuples.granted").await, 1, "{holder}");
}

fn tell(table: &str, begun: Instant) {
    cases::told(&format!("{table}{} rounds a step, {:.1?}", rounds(), begun.elapsed()));
}
