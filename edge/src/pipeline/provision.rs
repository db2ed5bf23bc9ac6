//! A subject's first request creates its identity record, once per process: single flight, and a failure is never
//! cached. Later refreshes of the profile run in the background. A restored database may lack records made since its
//! backup, so a restore clears everything cached here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use contract::Subject;
use foldhash::quality::RandomState;
use futures_util::future::BoxFuture;
use http::Method;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::config::Service;
use crate::metrics::ids::RequestIds;
use crate::pipeline::authenticate::Caller;
use crate::pipeline::questions as ask;
use crate::pipeline::refusal::Refusal;
use crate::pipeline::routes::Guard;
use crate::pipeline::worker::Worker;

/// How long requests for capabilities and the catalog wait: they must be answered while identity is unavailable.
const SHORT_PATIENCE: Duration = Duration::from_millis(250);
/// The minimum time between two refreshes of a subject's profile.
const REFRESH_AFTER: Duration = Duration::from_mins(5);
/// Subjects per generation. Two generations are kept, so the oldest half is evicted at once and at most a million are
/// known.
const GENERATION: usize = 500_000;
/// Subjects that each worker caches.
const MAX_LATELY: usize = 10_000;

/// `None` while the question to identity is pending.
type Outcome = Option<Result<(), &'static str>>;

/// One worker's view of the subjects this process has provisioned. The worker caches the subjects it saw lately, so
/// that workers do not contend for one lock.
#[derive(Debug)]
pub(crate) struct Provisioned {
    lately: Mutex<Lately>,
    all: Arc<Subjects>,
}

/// One worker's cache, and the value of `Subjects::forgotten` it was filled under.
#[derive(Debug, Default)]
struct Lately {
    forgotten: u64,
    subjects: HashMap<Subject, Instant, RandomState>,
}

/// All workers' subjects.
#[derive(Debug, Default)]
pub(crate) struct Subjects {
    known: Mutex<Known>,
    /// How often all subjects were forgotten.
    forgotten: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    young: HashMap<Subject, Instant>,
    old: HashMap<Subject, Instant>,
    pending: HashMap<Subject, watch::Receiver<Outcome>>,
}

/// The result of looking up a subject.
enum Look {
    Fresh,
    Stale,
    Pending(watch::Receiver<Outcome>),
    First(Question, watch::Receiver<Outcome>),
}

/// The question to identity about a subject, which other requests may wait for. If it is dropped without an answer (its
/// task panicked, or the runtime stops), it removes its entry and wakes the waiters.
#[derive(Debug)]
struct Question {
    all: Arc<Subjects>,
    subject: Subject,
    tell: watch::Sender<Outcome>,
}

impl Question {
    fn answer(self, outcome: Result<(), &'static str>, forgotten: u64) {
        self.all.settle(&self.subject, outcome.is_ok().then_some(forgotten));
        self.tell.send_replace(Some(outcome));
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let unanswered = self.tell.borrow().is_none();
        if unanswered {
            // Before the sender is dropped: from then on the entry may belong to another question.
            self.all.settle(&self.subject, None);
        }
    }
}

/// Waits until the caller's identity record exists; `now` is the request's arrival.
pub(crate) async fn ensure(
    worker: &Arc<Worker>,
    caller: &Caller<'_>,
    guard: Option<Guard>,
    ids: &RequestIds,
    now: Instant,
) -> Result<(), Refusal> {
    match worker.provisioned.look(&caller.claims.subject, now) {
        Look::Fresh => Ok(()),
        look @ (Look::Stale | Look::Pending(_) | Look::First(..)) => {
            ask_identity(worker, caller, guard, ids, look).await
        }
    }
}

#[cold]
#[inline(never)]
fn ask_identity<'a>(
    worker: &'a Arc<Worker>,
    caller: &'a Caller<'_>,
    guard: Option<Guard>,
    ids: &'a RequestIds,
    look: Look,
) -> BoxFuture<'a, Result<(), Refusal>> {
    let ask = |question| spawn(worker, caller, ids.clone(), question);
    let outcome = match look {
        Look::Fresh => None,
        Look::Stale => {
            ask(None);
            None
        }
        Look::Pending(outcome) => Some(outcome),
        Look::First(question, outcome) => {
            ask(Some(question));
            Some(outcome)
        }
    };
    Box::pin(async move {
        let Some(outcome) = outcome else { return Ok(()) };
        if guard == Some(Guard::BearerAtOnce) {
            // These routes answer even if provisioning fails.
            let waited = timeout(SHORT_PATIENCE, settled(outcome)).await;
            tracing::trace!(?waited, "continued without waiting for identity");
            return Ok(());
        }
        let settled = settled(outcome).await;
        settled.map_err(|reason| Refusal::Unavailable { dependency: Service::Identity, reason })
    })
}

async fn settled(mut outcome: watch::Receiver<Outcome>) -> Result<(), &'static str> {
    let settled = outcome.wait_for(Option::is_some).await.map_err(|_| "interrupted")?;
    settled.unwrap_or(Err("interrupted"))
}

/// The task outlives the request that started it, because other requests wait for the same answer.
fn spawn(worker: &Arc<Worker>, caller: &Caller<'_>, ids: RequestIds, question: Option<Question>) {
    let worker = Arc::clone(worker);
    let (claims, token) = (Arc::clone(&caller.claims), Bytes::copy_from_slice(caller.token));
    worker.tasks.clone().spawn(async move {
        let forgotten = worker.provisioned.all.forgotten();
        let about = ask::About { claims: &claims, token: &token };
        let outcome = provision(&worker, about, &ids).await;
        if let Err(reason) = outcome {
            tracing::warn!(reason, correlation_id = %ids.correlation, "identity did not provision a subject");
        }
        match question {
            Some(question) => question.answer(outcome, forgotten),
            None => worker.provisioned.all.settle(&claims.subject, outcome.is_ok().then_some(forgotten)),
        }
    });
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Person<'a> {
    kc_sub: &'a str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preferred_username: Option<&'a str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    kc_sub: Subject,
}

async fn provision(worker: &Worker, about: ask::About<'_>, ids: &RequestIds) -> Result<(), &'static str> {
    let claims = about.claims;
    let person = Person {
        kc_sub: claims.subject.as_str(),
        kind: if claims.is_service_account() { "service" } else { "user" },
        email: claims.email.as_deref(),
        display_name: claims.name.as_deref(),
        preferred_username: claims.preferred_username.as_deref(),
    };
    let body = serde_json::to_vec(&person).map_err(|_| "bad_question")?;
    let question = ask::Question {
        service: Service::Identity,
        method: Method::POST,
        path: "/internal/identity/provision",
        body: Bytes::from(body),
    };
    let asked = ask::ask::<Answer>(worker, about, question, ids).await;
    match asked {
        Ok(answer) if answer.kc_sub == claims.subject => Ok(()),
        Ok(_) => Err("malformed_answer"),
        Err(Refusal::Unavailable { reason, .. }) => Err(reason),
        Err(_) => Err("bad_question"),
    }
}

impl Provisioned {
    pub(crate) fn of(all: Arc<Subjects>) -> Self {
        Self { lately: Mutex::default(), all }
    }

    fn look(&self, subject: &Subject, now: Instant) -> Look {
        let mut lately = self.lately.lock().unwrap_or_else(PoisonError::into_inner);
        let forgotten = self.all.forgotten();
        if lately.forgotten != forgotten {
            *lately = Lately { forgotten, ..Lately::default() };
        }
        let subjects = &mut lately.subjects;
        if subjects.get(subject).is_some_and(|refreshed| now.duration_since(*refreshed) < REFRESH_AFTER) {
            return Look::Fresh;
        }
        let (look, refreshed) = self.all.look(subject, now);
        if let Some(refreshed) = refreshed {
            if subjects.len() >= MAX_LATELY {
                subjects.clear();
            }
            subjects.insert(subject.clone(), refreshed);
        }
        look
    }
}

impl Subjects {
    /// The state of a subject, and when its profile was last refreshed if it is provisioned.
    #[cold]
    fn look(self: &Arc<Self>, subject: &Subject, now: Instant) -> (Look, Option<Instant>) {
        let mut known = self.lock();
        if let Some(refreshed) = known.recall(subject) {
            if now.duration_since(refreshed) < REFRESH_AFTER {
                return (Look::Fresh, Some(refreshed));
            }
            // The next request finds it fresh: one refresh at a time, and none sooner than 5 min after a failed one.
            known.remember(subject, now);
            return (Look::Stale, Some(now));
        }
        // Do not wait for a task that ended without an outcome (the runtime is stopping).
        if let Some(outcome) = known.pending.get(subject).filter(|outcome| outcome.has_changed().is_ok()) {
            return (Look::Pending(outcome.clone()), None);
        }
        let (tell, outcome) = watch::channel(None);
        known.pending.insert(subject.clone(), outcome.clone());
        let question = Question { all: Arc::clone(self), subject: subject.clone(), tell };
        (Look::First(question, outcome), None)
    }

    /// Ends a question. `provisioned` is set if identity has the subject; it holds the value of `forgotten` when the
    /// question was asked. An answer from before the last `forget` is not cached.
    fn settle(&self, subject: &Subject, provisioned: Option<u64>) {
        let mut known = self.lock();
        known.pending.remove(subject);
        if provisioned == Some(self.forgotten()) {
            known.remember(subject, Instant::now());
        }
    }

    fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Forgets every subject, for all workers: the next request of each subject recreates a missing record.
    pub(crate) fn forget(&self) {
        let mut known = self.lock();
        (known.young, known.old) = (HashMap::new(), HashMap::new());
        // After the maps are cleared: a worker that sees the new number finds no subject here.
        self.forgotten.fetch_add(1, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn recall(&mut self, subject: &Subject) -> Option<Instant> {
        if let Some(refreshed) = self.young.get(subject) {
            return Some(*refreshed);
        }
        let refreshed = self.old.remove(subject)?;
        self.remember(subject, refreshed);
        Some(refreshed)
    }

    fn remember(&mut self, subject: &Subject, refreshed: Instant) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(subject.clone(), refreshed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_question_that_panics_or_is_dropped_leaves_no_entry_behind_and_is_asked_again() {
        let (all, now) = (Arc::<Subjects>::default(), Instant::now());
        let subject = Subject::parse("alice").expect("a subject");
        let begin = |outcome: Option<Result<(), &'static str>>| {
            let (Look::First(question, waiting), None) = all.look(&subject, now) else {
                panic!("the first question about this subject")
            };
            assert!(matches!(all.look(&subject, now).0, Look::Pending(_)), "others wait for it");
            let task = tokio::spawn(async move {
                tokio::task::yield_now().await;
                question.answer(outcome.expect("a bug in the question's task"), 0);
            });
            (task, waiting)
        };
        let (dropped, waiting) = begin(None);
        dropped.abort();
        assert!(dropped.await.is_err_and(|error| error.is_cancelled()));
        assert_eq!(all.lock().pending.len(), 0, "after it was dropped");
        assert_eq!(settled(waiting).await, Err("interrupted"));
        let (panicked, waiting) = begin(None);
        assert!(panicked.await.is_err_and(|error| error.is_panic()));
        assert_eq!(all.lock().pending.len(), 0, "after a panic");
        assert_eq!(settled(waiting).await, Err("interrupted"));
        let (answered, waiting) = begin(Some(Ok(())));
        answered.await.expect("a clean end");
        assert_eq!(settled(waiting).await, Ok(()));
        assert_eq!(all.lock().pending.len(), 0);
        assert!(matches!(all.look(&subject, now).0, Look::Fresh), "it is provisioned");
    }

    #[test]
    fn what_was_forgotten_is_asked_again_by_every_worker_and_older_answers_are_not_remembered() {
        let (all, now) = (Arc::<Subjects>::default(), Instant::now());
        let workers = [Provisioned::of(Arc::clone(&all)), Provisioned::of(Arc::clone(&all))];
        let [alice, bob] = ["alice", "bob"].map(|name| Subject::parse(name).expect("a subject"));
        all.settle(&alice, Some(0));
        assert!(workers.iter().all(|worker| matches!(worker.look(&alice, now), Look::Fresh)));
        let Look::First(question, _waiting) = workers[0].look(&bob, now) else {
            panic!("the first question about bob")
        };
        all.forget();
        question.answer(Ok(()), 0);
        for subject in [&alice, &bob] {
            assert!(matches!(workers[1].look(subject, now), Look::First(..)), "of {subject}");
            all.settle(subject, Some(1));
            assert!(workers.iter().all(|worker| matches!(worker.look(subject, now), Look::Fresh)));
        }
    }
}
