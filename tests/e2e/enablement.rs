//! An enable or disable takes effect at once: on the gateway that carried it with the very next request, on a second
//! gateway process within moments, and on a gateway whose stream from registry was cut as soon as the stream is
//! restored.
//!
//! `E2E_ROUNDS` sets the number of measured rounds (default 10); the figures are printed.

use std::io::Write as _;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use crate::harness::cuttable::Cuttable;
use crate::harness::login::subject;
use crate::harness::{Api, Reply, Separate, eventually};
use crate::tour::{create_company, create_member, link};

/// Default number of rounds: enough to see that it works, not to measure it.
const ROUNDS: usize = 10;
/// Longest wait for a change on the second gateway, on a busy machine.
const LIMIT: Duration = Duration::from_secs(10);

struct Scene {
    platform: Separate,
    admin: Api,
    /// A member's clients, at the gateway that carries the changes and at the second one.
    here: Api,
    there: Api,
    /// Registry as seen by the second gateway.
    stream: Cuttable,
    projects: String,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_seen_on_every_edge() {
    let scene = set_up().await;
    measured(&scene).await;
    cut_and_caught_up(&scene).await;
    drop(scene.platform);
}

async fn set_up() -> Scene {
    let mut platform = Separate::start("enablement").await;
    let stream = Cuttable::start(platform.registry()).await;
    let second = platform.second_gateway(&stream.url()).await;
    let admin = platform.api().with_token(&platform.token("admin").await);
    let alice = platform.token("alice").await;
    let (here, there) = (platform.api().with_token(&alice), second.with_token(&alice));
    here.get("/api/org/me/companies").await.data(200);
    let company = create_company(&admin, "ACME").await;
    let member = create_member(&admin, &company, "A1").await;
    link(&admin, &member, &subject(&alice)).await;
    let projects = format!("/api/timesheet/v1/companies/{company}/projects");
    eventually("both edges pass", LIMIT, || async {
        here.get(&projects).await.expect_status(200)?;
        there.get(&projects).await.expect_status(200)
    })
    .await;
    Scene { platform, admin, here, there, stream, projects }
}

/// Both directions in turn: how long after the first gateway's response the second one shows the change.
async fn measured(scene: &Scene) {
    let asked = crate::harness::given("E2E_ROUNDS").and_then(|text| text.parse().ok());
    let mut after_answer = Vec::new();
    let mut after_request = Vec::new();
    for round in 0..asked.unwrap_or(ROUNDS) {
        let on = round % 2 == 1;
        let begun = Instant::now();
        switch(&scene.admin, on).await;
        let answered = Instant::now();
        // The very next request on the gateway that carried the change, and concurrently the second gateway.
        let (here, seen) = tokio::join!(scene.here.get(&scene.projects), shows(scene, on));
        assert!(is(&here, on), "round {round}: {}", here.body);
        after_answer.push(seen.saturating_duration_since(answered));
        after_request.push(seen - begun);
    }
    switch(&scene.admin, true).await;
    shows(scene, true).await;
    let mut out = std::io::stdout();
    writeln!(out, "second edge, after the first one's answer: {}", figures(after_answer)).expect("printed");
    writeln!(out, "second edge, after the request was sent:   {}", figures(after_request)).expect("printed");
}

/// Polls the second gateway until it shows the change; returns the time of that response.
async fn shows(scene: &Scene, on: bool) -> Instant {
    let begun = Instant::now();
    loop {
        let reply = scene.there.get(&scene.projects).await;
        let seen = Instant::now();
        if is(&reply, on) {
            return seen;
        }
        assert!(begun.elapsed() < LIMIT, "the second edge never showed it: {}", reply.body);
    }
}

/// With the stream cut, the last snapshot stays in use; once restored, the gateway catches up with what it missed.
async fn cut_and_caught_up(scene: &Scene) {
    scene.stream.cut();
    switch(&scene.admin, false).await;
    scene.here.get(&scene.projects).await.refused(403, "MODULE_DISABLED");
    for _ in 0..20 {
        // The gate of the old snapshot passes the request, and the module's own decision refuses it: nothing fails
        // open.
        let reply = scene.there.get(&scene.projects).await;
        reply.refused(403, "AUTHORIZATION_DENIED");
        assert_eq!(reply.body["error"]["details"]["reason"], "MODULE_DISABLED");
    }
    // Another module is unaffected on the gateway without a stream.
    let tickets = scene.projects.replace("timesheet", "helpdesk").replace("projects", "tickets");
    let other = scene.there.get(&tickets).await;
    assert_ne!(other.body["error"]["code"], json!("MODULE_DISABLED"), "{}", other.body);
    let whole = Instant::now();
    scene.stream.mend();
    eventually("the second edge catches up", LIMIT, || async {
        scene.there.get(&scene.projects).await.body["error"]["code"]
            .eq("MODULE_DISABLED")
            .then_some(())
            .ok_or_else(|| "the old snapshot serves on".to_owned())
    })
    .await;
    let text = format!("caught up {} ms after the stream was whole again\n", whole.elapsed().as_millis());
    std::io::stdout().write_all(text.as_bytes()).expect("printed");
    switch(&scene.admin, true).await;
    shows(scene, true).await;
}

async fn switch(admin: &Api, on: bool) {
    let verb = if on { "enable" } else { "disable" };
    let path = format!("/api/platform/admin/modules/timesheet/{verb}");
    assert_eq!(admin.send(Method::POST, &path, None).await.data(200)["enabled"], on);
}

/// Whether the response shows the module as enabled or disabled.
fn is(reply: &Reply, on: bool) -> bool {
    let off = reply.body["error"]["code"] == "MODULE_DISABLED";
    if on { reply.status.as_u16() == 200 } else { off }
}

fn figures(mut took: Vec<Duration>) -> String {
    took.sort_unstable();
    let at = |percent: usize| {
        let index = (took.len() * percent).div_ceil(100).saturating_sub(1);
        took.get(index).map_or(0.0, |one| one.as_secs_f64() * 1_000.0)
    };
    format!("{} rounds, median {:.1} ms, p99 {:.1} ms, longest {:.1} ms", took.len(), at(50), at(99), at(100))
}
