//! Checks read-your-writes and torn states with a journal: writers change grants, memberships and accounts in other
//! services' tables, readers ask two authz services on that database for decisions and summaries in turn. Each answer
//! must be right for a state between the last one acknowledged before the question was sent and the last one begun
//! before the answer came. Many tuples are imported meanwhile. The tests run for seconds; `AUTHZ_JOURNAL_SECONDS` makes
//! them longer, `AUTHZ_JOURNAL_IMPORT` is the number of tuples.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use contract::id::CompanyId;
use serde_json::{Value, json};

use crate::app::{App, Rows, in_company, with};
use crate::can::with_crm;
use crate::cases::told;

const WRITERS: usize = 4;
const READERS: usize = 8;

/// A number from the environment.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    std::env::var_os(variable).and_then(|text| text.to_str()?.parse().ok()).unwrap_or(default)
}

/// Imports tuples in commits of at most 250,000.
async fn import(rows: &Rows, tuples: u64) {
    for first in (1..=tuples).step_by(250_000) {
        crate::bulk::add(rows, first..=tuples.min(first + 249_999)).await;
    }
}

fn duration() -> Duration {
    Duration::from_secs(number("AUTHZ_JOURNAL_SECONDS", 4))
}

/// The cycle of one writer: each statement, and the answer that is right after it.
fn steps(subject: &str, company: CompanyId) -> Vec<(String, &'static str)> {
    let member = |active: bool| {
        format!(
            "UPDATE org.members SET is_active = {active} WHERE user_id = '{subject}' AND company_id = '{company}'"
        )
    };
    let tuple = format!("('company', '{company}', 'member', 'user', '{subject}', '', 'org')");
    let account = |column: &str| format!("UPDATE identity.users SET {column} WHERE kc_sub = '{subject}'");
    let own = format!("object_type = 'crm_deal' AND object_id = '1' AND subject_id = '{subject}'");
    vec![
        (format!("DELETE FROM authz.tuple WHERE {own}"), "ENGINE_DENIED"),
        (
            format!(
                "INSERT INTO authz.tuple VALUES ('crm_deal', '1', 'viewer', 'user', '{subject}', '', 'grant')"
            ),
            "ALLOWED",
        ),
        (
            format!(
                "{}; DELETE FROM authz.tuple WHERE object_type = 'company' AND subject_id = '{subject}'",
                member(false)
            ),
            "COMPANY_ACCESS_BLOCKED",
        ),
        (format!("{}; INSERT INTO authz.tuple VALUES {tuple}", member(true)), "ALLOWED"),
        (account("idp_enabled = false"), "IDP_DISABLED"),
        (account("idp_enabled = true"), "ALLOWED"),
        (account("lifecycle = 'suspended'"), "USER_LIFECYCLE_DISABLED"),
        (account("lifecycle = 'active'"), "ALLOWED"),
    ]
}

/// The progress of a writer: state `n` is the answer after its `n`-th statement, state 0 the initial one.
#[derive(Default)]
struct Journal {
    begun: AtomicUsize,
    acknowledged: AtomicUsize,
}

fn expected(steps: &[(String, &'static str)], state: usize) -> &'static str {
    state.checked_sub(1).map_or("ALLOWED", |last| steps[last % steps.len()].1)
}

fn question(company: CompanyId) -> Value {
    with(
        in_company(company),
        json!({ "moduleKey": "crm", "object": { "type": "crm_deal", "id": "1" }, "relation": "viewer" }),
    )
}

/// What the summary of a subject is in the state that has this answer to the question.
fn in_summary(reason: &'static str) -> &'static str {
    match reason {
        "ALLOWED" | "ENGINE_DENIED" => reason,
        _ => "NOTHING",
    }
}

/// Features come with the membership, and deal 1 is listed for who was granted it.
fn told_by_summary(summary: &Value) -> &'static str {
    let has_features = !summary["featureKeys"].as_array().expect("a list").is_empty();
    let objects = summary["objectAccess"].as_array().expect("a list");
    match (has_features, objects.iter().any(|one| one["objectId"] == "1")) {
        (true, true) => "ALLOWED",
        (true, false) => "ENGINE_DENIED",
        (false, false) => "NOTHING",
        (false, true) => "an object without a feature",
    }
}

/// Two services on one database; the subjects may view deal 1.
async fn world(subjects: &[&str]) -> (Arc<[App; 2]>, Rows, CompanyId) {
    let (one, rows, company) = with_crm(subjects).await;
    rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    let two = App::serve(one.database.clone(), "root").await;
    (Arc::new([one, two]), rows, company)
}

/// Asks about one writer's subject.
struct Reader<'a> {
    app: &'a App,
    subject: &'static str,
    company: CompanyId,
    journal: &'a Journal,
}

impl Reader<'_> {
    /// Asks until the stop. Returns the answers, the questions without one, what was stale, and the longest time without an
    /// answer.
    async fn read(&self, stop: &AtomicBool) -> (u64, u64, Vec<String>, Duration) {
        let (mut answers, mut unavailable, mut stale) = (0_u64, 0_u64, Vec::new());
        let (mut answered, mut longest) = (Instant::now(), Duration::ZERO);
        let steps = steps(self.subject, self.company);
        while !stop.load(Ordering::SeqCst) {
            let is_summary = answers % 2 == 1;
            let first = self.journal.acknowledged.load(Ordering::SeqCst);
            let said = self.ask(is_summary).await;
            let last = self.journal.begun.load(Ordering::SeqCst);
            let Some(said) = said else {
                unavailable += 1;
                continue;
            };
            answers += 1;
            longest = longest.max(answered.elapsed());
            answered = Instant::now();
            let right = |state| {
                let reason = expected(&steps, state);
                if is_summary { in_summary(reason) } else { reason }
            };
            if !(first..=last).any(|state| right(state) == said) {
                let subject = self.subject;
                stale.push(format!(
                    "{subject}: {said} between states {first} and {last}, summary: {is_summary}"
                ));
            }
        }
        (answers, unavailable, stale, longest)
    }

    /// Returns `None` for a 503.
    async fn ask(&self, is_summary: bool) -> Option<String> {
        let Self { app, subject, company, .. } = self;
        if !is_summary {
            let reply = app.can(subject, question(*company)).await;
            return (reply.status != 503)
                .then(|| reply.data()["reason"].as_str().expect("a reason").to_owned());
        }
        let path = format!("/internal/authz/effective-access/summary?companyId={company}");
        let reply = app.ask("GET", &path, subject, None).await;
        (reply.status != 503).then(|| told_by_summary(reply.data()).to_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_answer_is_staler_than_what_was_acknowledged() {
    let subjects = ["w0", "w1", "w2", "w3"];
    let (apps, rows, company) = world(&subjects).await;
    for subject in subjects {
        rows.tuple(&format!("crm_deal:1#viewer@user:{subject}"), "grant").await;
    }
    let journals: Arc<Vec<Journal>> = Arc::new((0..WRITERS).map(|_| Journal::default()).collect());
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for (index, subject) in subjects.into_iter().enumerate() {
        let (journals, stop, rows) = (Arc::clone(&journals), Arc::clone(&stop), rows.clone());
        writers.push(tokio::spawn(async move {
            let steps = steps(subject, company);
            while !stop.load(Ordering::SeqCst) {
                let state = journals[index].begun.fetch_add(1, Ordering::SeqCst) + 1;
                rows.run(steps[(state - 1) % steps.len()].0.clone()).await;
                journals[index].acknowledged.store(state, Ordering::SeqCst);
            }
        }));
    }
    let mut readers = Vec::new();
    for reader in 0..READERS {
        let (apps, journals, stop) = (Arc::clone(&apps), Arc::clone(&journals), Arc::clone(&stop));
        let own = reader % WRITERS;
        readers.push(tokio::spawn(async move {
            let reader = Reader {
                app: &apps[reader / WRITERS],
                subject: subjects[own],
                company,
                journal: &journals[own],
            };
            reader.read(&stop).await
        }));
    }
    let imported = number("AUTHZ_JOURNAL_IMPORT", 10_000);
    tokio::join!(tokio::time::sleep(duration()), import(&rows, imported));
    stop.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.expect("it wrote");
    }
    let (mut answers, mut unavailable, mut stale, mut longest) = (0, 0, Vec::new(), Duration::ZERO);
    for reader in readers {
        let (some, none, wrong, gap) = reader.await.expect("it read");
        (answers, unavailable, longest) = (answers + some, unavailable + none, longest.max(gap));
        stale.extend(wrong);
    }
    let acknowledged: usize =
        journals.iter().map(|journal| journal.acknowledged.load(Ordering::SeqCst)).sum();
    told(&format!(
        "{acknowledged} writes, {answers} answers, {unavailable} unavailable, {} stale; {imported} tuples imported; longest \
         time of a reader without a decision {longest:?}",
        stale.len()
    ));
    assert_eq!(stale, Vec::<String>::new());
    assert!(answers > 0 && acknowledged > 8, "{answers} answers, {acknowledged} writes");
}

/// The member is active without the grant and inactive with and without it, never active with it, so it never has
/// access.
#[tokio::test(flavor = "multi_thread")]
async fn no_decision_rests_on_a_state_that_never_was() {
    let (apps, rows, company) = world(&["w0"]).await;
    let steps = steps("w0", company);
    let cycle = [&steps[2].0, &steps[1].0, &steps[0].0, &steps[3].0].map(Clone::clone);
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let stop = Arc::clone(&stop);
        tokio::spawn(async move {
            let mut cycles = 0_u64;
            while !stop.load(Ordering::SeqCst) {
                for statement in &cycle {
                    rows.run(statement.clone()).await;
                }
                cycles += 1;
            }
            cycles
        })
    };
    let mut readers = Vec::new();
    for reader in 0..READERS {
        let (apps, stop) = (Arc::clone(&apps), Arc::clone(&stop));
        readers.push(tokio::spawn(async move {
            let (mut answers, mut allowed) = (0_u64, 0_u64);
            while !stop.load(Ordering::SeqCst) {
                let reply = apps[reader % 2].can("w0", question(company)).await;
                if reply.status == 200 {
                    answers += 1;
                    allowed += u64::from(reply.data()["allowed"] == true);
                }
            }
            (answers, allowed)
        }));
    }
    let begun = Instant::now();
    tokio::time::sleep(duration()).await;
    stop.store(true, Ordering::SeqCst);
    let cycles = writer.await.expect("it wrote");
    let (mut answers, mut allowed) = (0, 0);
    for reader in readers {
        let (some, wrong) = reader.await.expect("it read");
        (answers, allowed) = (answers + some, allowed + wrong);
    }
    told(&format!(
        "{cycles} cycles in {:?}, {answers} answers, {allowed} of a state that never was",
        begun.elapsed()
    ));
    assert_eq!(allowed, 0);
    assert!(answers > 0 && cycles > 0, "{answers} answers, {cycles} cycles");
}
