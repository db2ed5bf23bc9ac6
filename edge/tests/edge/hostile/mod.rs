//! The hostile-request corpus: every case of `tests/hostile/*.toml` is sent to the real gateway over TLS and must end
//! as its class says, while a well-behaved client beside it gets every answer in time. The upstream records what
//! reaches it.

mod corpus;
mod frames;
mod http1;
mod script;
mod slow;
mod upstream;
mod witness;

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use corpus::{Case, Corpus, Over};
use upstream::Upstream;
use witness::Witness;

use crate::world::World;

/// The minimum size of the corpus; it may grow.
const FEWEST_CASES: usize = 250;
/// Enough cases to interfere with each other, few enough for a machine with two cores.
const AT_ONCE: usize = 8;

/// In `reaches`: whatever arrived before the end.
const ANYTHING: &str = "*";

/// The gateway and upstream of all cases.
struct Target {
    world: World,
    upstream: Upstream,
    bearer: String,
    /// The witness has another subject, so that no case uses up its share of the upstream.
    witness: String,
}

impl Target {
    async fn start(variables: &[(&str, &str)]) -> Self {
        let upstream = Upstream::start().await;
        let address = upstream.address.to_string();
        // All cases have one subject: the streams that they open at once stay within its share.
        let own = [
            ("PLATFORM_MODULE_HOST_TIMESHEET", address.as_str()),
            ("PLATFORM_GATEWAY_UPSTREAM_CONCURRENCY", "16384"),
        ];
        let variables: Vec<(&str, &str)> = variables.iter().copied().chain(own).collect();
        let world = World::with(&variables).await;
        let witness = world.bearer("witness");
        let known = world.get("/api/org/me/companies", &[("authorization", &witness)]).await;
        assert_eq!(known.status, 200, "the witness is provisioned");
        let bearer = world.bearer("alice");
        Self { world, upstream, bearer, witness }
    }
}

#[test]
fn the_corpus_is_large_enough_and_every_case_has_a_name_of_its_own() {
    let corpus = Corpus::read();
    let names: BTreeSet<&str> = corpus.cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(names.len(), corpus.cases.len(), "two cases have one name");
    assert!(names.len() >= FEWEST_CASES, "{} cases", names.len());
    for pending in &corpus.pending {
        assert!(names.contains(pending.as_str()), "{pending} is pending, and no case");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn framing() {
    run_all(&["framing", "bodies"], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paths_and_spoofed_headers() {
    run_all(&["paths", "spoofing"], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_abuse() {
    run_all(&["http2"], &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_clients() {
    let impatient = [
        ("PLATFORM_GATEWAY_HEADER_TIMEOUT", "500ms"),
        ("PLATFORM_GATEWAY_TLS_TIMEOUT", "500ms"),
        ("PLATFORM_GATEWAY_BODY_IDLE", "500ms"),
        ("PLATFORM_GATEWAY_STREAM_IDLE", "1500ms"),
        ("PLATFORM_GATEWAY_KEEP_ALIVE", "900ms"),
    ];
    run_all(&["slow"], &impatient).await;
}

/// Runs every case of the files, then checks all results together.
async fn run_all(files: &[&str], variables: &[(&str, &str)]) {
    let corpus = Corpus::read();
    let target = Arc::new(Target::start(variables).await);
    let witness = Witness::start(&target).await;
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut running = JoinSet::new();
    for case in corpus.cases.into_iter().filter(|case| files.contains(&case.file.as_str())) {
        let (target, places) = (Arc::clone(&target), Arc::clone(&places));
        running.spawn(async move {
            let _one_of_many = places.acquire().await.expect("never closed");
            let outcome = run(&target, &case).await;
            (case.id, outcome)
        });
    }
    let mut wrong = Vec::new();
    let mut mended = Vec::new();
    while let Some(ended) = running.join_next().await {
        let (id, outcome) = ended.expect("no panic");
        match (outcome, corpus.pending.contains(&id)) {
            (Ok(()), true) => mended.push(id),
            (Err(problem), false) => wrong.push(format!("{id}: {problem}")),
            (Ok(()), false) | (Err(_), true) => {}
        }
    }
    wrong.sort();
    mended.sort();
    assert!(wrong.is_empty(), "{} cases went wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(
        mended.is_empty(),
        "no longer failing, take them off tests/hostile/pending.toml:\n{}",
        mended.join("\n")
    );
    witness.end().await;
}

async fn run(target: &Target, case: &Case) -> Result<(), String> {
    match case.over {
        Over::Http1 => http1::run(target, case).await?,
        Over::Http2 => frames::run(target, case).await?,
        Over::Slow => slow::run(target, case).await?,
    }
    upstream_agrees(target, case)
}

/// Checks that exactly what the case expects reached the upstream.
fn upstream_agrees(target: &Target, case: &Case) -> Result<(), String> {
    let seen = target.upstream.seen(&case.path);
    let reached: Vec<String> = seen.iter().map(ToString::to_string).collect();
    if reached != case.reaches && case.reaches != [ANYTHING] {
        return Err(format!("the upstream saw {reached:?}, not {:?}", case.reaches));
    }
    for request in &seen {
        for (name, value) in &case.upstream {
            let found = request.header(name).join(" | ");
            if found != value.replace("<bearer>", &target.bearer) {
                return Err(format!("upstream, {name}: {found:?}, not {value:?}"));
            }
        }
        if let Some(name) = case.absent.iter().find(|name| !request.header(name).is_empty()) {
            return Err(format!("the upstream saw {name}"));
        }
    }
    target.upstream.is_whole(&case.path)
}
