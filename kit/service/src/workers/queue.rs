//! Queues: claims due jobs, runs them outside any transaction, settles each. Delivery is at least once: a job whose
//! worker died runs again when its lease has expired. An attempt is dropped before its lease expires, so a job never
//! runs twice at the same time, unless its process was suspended for longer than the lease; that attempt's settlement
//! then changes nothing.

use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::meter::QueueMeter;
use super::slots::{Busy, Owner, Slots};
use super::together::Together;
use super::{Ask, Claimed, Ladder, Lease, Leased, Pace, Position, Workers};
use crate::panics::caught;

/// How often the age of the oldest job is read: a typical scrape interval.
const AGE_INTERVAL: Duration = Duration::from_secs(15);
/// Most consecutive claims that examine keys without filling the slots; the next poll continues where they ended.
const MAX_CLAIMS: usize = 16;
/// Keys that a claim examines. When it finds too little, the next one examines four times as many: ten thousand keys with
/// hanging receivers do not hide a job.
const FIRST_LOOK: i64 = 64;
const WIDEST_LOOK: i64 = 1_024;
/// The pause after wide claims, as a multiple of the time they took; at most one poll interval. Keys whose receivers hang,
/// and those of a company that holds its share, must neither hide the others' jobs for long nor keep the database busy.
const WIDE_REST: u32 = 10;
/// How long a claim waits for more free slots when few are free: a claim costs much the same for one job as for many.
const GATHER: Duration = Duration::from_millis(5);
/// Pause before a failed settlement is retried; doubled up to [`LAST_SETTLE_RETRY`].
const FIRST_SETTLE_RETRY: Duration = Duration::from_millis(100);
const LAST_SETTLE_RETRY: Duration = Duration::from_secs(2);

pub(super) const OUTCOMES: [&str; 4] = ["done", "retry", "postponed", "dead"];
pub(super) const CAUSES: [&str; 3] =
    [Broken::Panic.as_str(), Broken::Timeout.as_str(), Broken::LeaseLost.as_str()];

/// How a queue runs.
#[derive(Clone, Debug)]
pub struct QueueConfig {
    /// Labels the queue's log lines and metrics.
    pub name: &'static str,
    /// Most jobs that compute at once in this process. A job that takes longer than 25 ms frees its slot.
    pub slots: usize,
    /// Most running jobs with the same key, however long they take.
    pub slots_per_key: usize,
    /// How long a worker owns a job. The work gets three quarters of this, so that the outcome is stored in time.
    pub lease: Duration,
    /// How often the queue looks for due jobs without being told of any ([`Wake`]).
    pub poll: Duration,
    /// When and how often a failed job is retried.
    pub ladder: Ladder,
}

/// A queue: the type of its jobs and how to run one.
pub trait Queue: Send + Sync + 'static {
    /// What [`Self::work`] needs of a job.
    type Job: Send + Sync + 'static;
    /// What an attempt produces besides its verdict.
    type Report: Send + Sync + 'static;
    /// Why a settlement could not be stored.
    type Error: Display + Send;

    /// Makes a number of due jobs ready to be claimed, and returns true when there may be more;
    /// [`super::JobTable::make_ready`] is the statement.
    fn make_ready(&self) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Takes ready jobs under a lease; [`super::JobTable::claim`] is the statement.
    fn claim(&self, ask: Ask) -> impl Future<Output = sqlx::Result<Claimed<Self::Job>>> + Send;

    /// Runs one attempt. It holds no transaction, and is dropped after three quarters of the lease.
    fn work(&self, job: &Leased<Self::Job>) -> impl Future<Output = Worked<Self::Report>> + Send;

    /// Stores the outcome of an attempt with [`super::JobTable::settle`], in one transaction with everything that
    /// belongs to it. Retried while the lease lasts; `false` means that the lease was lost and nothing was stored.
    fn settle(
        &self,
        job: &Leased<Self::Job>,
        ended: &Ended<Self::Report>,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// Stores that several jobs are done, in one transaction; returns the ids of those whose lease was valid, and
    /// stores nothing for the others. After an error, or `None` from a queue without such a statement, each job is
    /// settled on its own.
    fn settle_done(
        &self,
        _done: &[Arc<Attempted<Self::Job, Self::Report>>],
    ) -> impl Future<Output = Result<Option<Vec<Uuid>>, Self::Error>> + Send {
        std::future::ready(Ok(None))
    }

    /// How long the oldest due job has waited past its time; [`super::JobTable::oldest`] is the statement.
    fn oldest(&self) -> impl Future<Output = sqlx::Result<Duration>> + Send;
}

/// The result of an attempt.
#[derive(Clone, Debug)]
pub struct Worked<R> {
    /// Whether to retry the job.
    pub verdict: Verdict,
    /// Data for the settlement.
    pub report: R,
}

/// Whether to retry a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is done.
    Done,
    /// It failed and may succeed later, no earlier than the receiver asked for. Dead after the last attempt.
    Retry {
        /// The wait that the receiver asked for.
        asked: Option<Duration>,
    },
    /// It was not tried and is due again after this wait. Does not count as an attempt.
    Later {
        /// From the database's current time.
        after: Duration,
    },
    /// It failed permanently.
    Dead,
}

/// The outcome to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// It is done.
    Done,
    /// It is due again after this wait.
    Again {
        /// From the database's current time.
        after: Duration,
    },
    /// It is due again after this wait, without counting an attempt.
    Postponed {
        /// From the database's current time.
        after: Duration,
    },
    /// It is abandoned.
    Dead,
}

impl Settlement {
    const fn outcome(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Again { .. } => "retry",
            Self::Postponed { .. } => "postponed",
            Self::Dead => "dead",
        }
    }
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub struct Ended<R> {
    /// The outcome to store.
    pub settlement: Settlement,
    /// The attempt's report, or why there is none.
    pub report: Result<R, Broken>,
}

/// A job and how its attempt ended.
#[derive(Clone, Debug)]
pub struct Attempted<J, R> {
    /// The job.
    pub job: Leased<J>,
    /// The end of its attempt.
    pub ended: Ended<R>,
}

/// Why an attempt has no report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// It panicked.
    Panic,
    /// It took longer than its lease allows, or hung while others waited for its room.
    Timeout,
    /// The job's last attempt was lost with its worker.
    LeaseLost,
}

impl Broken {
    /// `panic`, `timeout` or `lease_lost`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Panic => "panic",
            Self::Timeout => "timeout",
            Self::LeaseLost => "lease_lost",
        }
    }
}

/// Tells a queue of this process that there are new jobs, so that they do not wait for the next poll. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Wake(Arc<Notify>);

impl Wake {
    /// Wakes the queue. Call it after the commit.
    pub fn wake(&self) {
        self.0.notify_one();
    }
}

impl Workers {
    /// Runs `queue` until the service stops, then finishes the jobs in progress.
    pub fn queue<Q: Queue>(&self, config: QueueConfig, queue: Q) -> Wake {
        let (queue, wake) = (Arc::new(queue), Arc::new(Notify::new()));
        let meter = self.meter.of_queue(config.name);
        self.observe(&config, Arc::clone(&queue), meter.clone());
        let slots = Slots::new(config.slots, config.slots_per_key);
        let worker = QueueWorker {
            common: Arc::new(Common {
                service: self.service,
                config,
                queue,
                meter,
                together: Together::new(),
            }),
            stop: self.stop.clone(),
            wake: Arc::clone(&wake),
            jobs: JoinSet::new(),
            slots,
            ready_at: None,
            position: Position::default(),
            may_look_wide_at: None,
            is_unexamined: false,
            is_failing: false,
        };
        // Not `spawn`, which would drop the jobs without waiting for them to end.
        self.tasks.spawn(worker.run(self.abort.clone()));
        Wake(wake)
    }

    fn observe<Q: Queue>(&self, config: &QueueConfig, queue: Arc<Q>, meter: QueueMeter) {
        self.every(config.name, Pace::every(AGE_INTERVAL), move || {
            let (queue, meter) = (Arc::clone(&queue), meter.clone());
            async move { queue.oldest().await.map(|age| meter.oldest(age)) }
        });
    }
}

struct Common<Q: Queue> {
    service: &'static str,
    config: QueueConfig,
    queue: Arc<Q>,
    meter: QueueMeter,
    together: Together<Q>,
}

struct QueueWorker<Q: Queue> {
    common: Arc<Common<Q>>,
    stop: CancellationToken,
    wake: Arc<Notify>,
    jobs: JoinSet<()>,
    slots: Slots,
    /// When due jobs are next made ready; `None` for at once.
    ready_at: Option<Instant>,
    /// Where the last claim ended.
    position: Position,
    /// When claims may again examine more keys than usual.
    may_look_wide_at: Option<Instant>,
    /// Whether the last claim found nothing and left keys unexamined because a wide claim was not allowed yet.
    is_unexamined: bool,
    /// Whether the last claim failed.
    is_failing: bool,
}

impl<Q: Queue> QueueWorker<Q> {
    async fn run(mut self, abort: CancellationToken) {
        abort.run_until_cancelled(self.work()).await;
        self.jobs.shutdown().await;
        self.common.meter.running(0);
    }

    async fn work(&mut self) {
        let mut is_due = true;
        while !self.stop.is_cancelled() {
            if is_due {
                self.gather().await;
                self.fill().await;
            }
            let pause = self.pause();
            is_due = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                Some(ended) = self.jobs.join_next_with_id() => self.freed(id_of(&ended)),
                () = self.wake.notified() => true,
                () = tokio::time::sleep(pause) => true,
            };
            while let Some(ended) = self.jobs.try_join_next_with_id() {
                is_due |= self.freed(id_of(&ended));
            }
        }
        while let Some(ended) = self.jobs.join_next_with_id().await {
            self.freed(id_of(&ended));
        }
    }

    /// Frees the slot of a job; true when another job may have waited for it.
    fn freed(&mut self, id: Id) -> bool {
        let is_wanted = self.slots.end(id, Instant::now());
        self.common.meter.running(self.slots.running());
        is_wanted
    }

    /// Time until the queue is filled again. Due jobs are made ready a poll interval after the last time, not after the
    /// last wake-up; a slot, or the room of a hanging job, may become free before that, and a wide claim may be due.
    fn pause(&self) -> Duration {
        let (poll, now) = (self.common.config.poll, Instant::now());
        let is_full = self.slots.room(now) == 0;
        let hang = self.slots.cut(now);
        let look = self.may_look_wide_at.filter(|_| self.is_unexamined).map(|at| at.duration_since(now));
        let room = self.slots.next_room(now).filter(|_| is_full);
        let ready = self.ready_at.map_or(Duration::ZERO, |at| at.duration_since(now));
        [room, hang, look, Some(ready)].into_iter().flatten().fold(poll, Duration::min)
    }

    /// Waits briefly while less than a quarter of the slots is free.
    async fn gather(&mut self) {
        let until = Instant::now() + GATHER;
        while self.slots.room(Instant::now()) < self.common.config.slots / 4 {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                Some(ended) = self.jobs.join_next_with_id() => { self.freed(id_of(&ended)); }
                () = tokio::time::sleep_until(until) => return,
            }
        }
    }

    /// Claims until the slots are full or no more jobs are ready.
    async fn fill(&mut self) {
        self.make_ready().await;
        let begun = Instant::now();
        let looked_wide = self.claim_all(begun).await;
        if looked_wide {
            let rest = (begun.elapsed() * WIDE_REST).min(self.common.config.poll);
            self.may_look_wide_at = Some(Instant::now() + rest);
        }
    }

    /// Makes due jobs ready once per poll interval, however often the queue is filled in between. After a full portion
    /// the next one follows the claims, so a long backlog holds up no job that is ready.
    async fn make_ready(&mut self) {
        let now = Instant::now();
        if self.ready_at.is_some_and(|at| now < at) {
            return;
        }
        let has_more = self.common.queue.make_ready().await.unwrap_or_else(|error| {
            self.failed(&error);
            false
        });
        self.ready_at = (!has_more).then(|| now + self.common.config.poll);
    }

    /// Returns whether claims examined more keys than usual.
    async fn claim_all(&mut self, begun: Instant) -> bool {
        let mut look = FIRST_LOOK;
        self.is_unexamined = false;
        let may_look_wide = self.may_look_wide_at.is_none_or(|at| begun >= at);
        for _ in 0..MAX_CLAIMS {
            let ask = self.ask(look);
            let room = ask.room;
            if room == 0 {
                self.position = ask.position;
                break;
            }
            let claimed_at = Instant::now();
            match self.common.queue.claim(ask).await {
                Ok(claimed) => {
                    self.is_failing = false;
                    self.position = claimed.position;
                    self.common.meter.claimed(claimed.jobs.len().try_into().unwrap_or(u64::MAX));
                    let is_full = i64::try_from(claimed.jobs.len()).is_ok_and(|taken| taken >= room);
                    let (is_partial, is_empty) = (claimed.is_partial, claimed.jobs.is_empty());
                    claimed.jobs.into_iter().for_each(|job| self.start(job, claimed_at));
                    if is_full {
                        continue;
                    }
                    let is_wide = look > FIRST_LOOK;
                    self.is_unexamined = is_partial && is_empty && !is_wide && !may_look_wide;
                    if !is_partial || self.is_unexamined {
                        break;
                    }
                    if is_empty || is_wide {
                        look = (look * 4).min(WIDEST_LOOK);
                    }
                }
                Err(error) => {
                    self.failed(&error);
                    break;
                }
            }
        }
        look > FIRST_LOOK
    }

    fn ask(&mut self, look: i64) -> Ask {
        let now = Instant::now();
        let Busy { keys, running, full } = self.slots.busy(now);
        let config = &self.common.config;
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        Ask {
            room: number(self.slots.room(now)),
            look,
            per_key: number(config.slots_per_key),
            keys,
            running,
            full,
            position: std::mem::take(&mut self.position),
            lease: config.lease,
            attempts: i32::try_from(config.ladder.attempts()).unwrap_or(i32::MAX),
        }
    }

    fn start(&mut self, job: Leased<Q::Job>, claimed_at: Instant) {
        let (common, cut) = (Arc::clone(&self.common), CancellationToken::new());
        let owner = Owner { key: job.lease.key, company: job.lease.company };
        let has_another = job.lease.attempt < common.config.ladder.attempts();
        let may_cut = has_another.then(|| cut.clone());
        let task = self.jobs.spawn(async move { common.see_through(job, claimed_at, &cut).await });
        self.slots.start(task.id(), owner, claimed_at, may_cut);
        self.common.meter.running(self.slots.running());
    }

    /// Logs an outage once, not at every poll.
    fn failed(&mut self, error: &sqlx::Error) {
        let (service, queue) = (self.common.service, self.common.config.name);
        if self.is_failing {
            tracing::debug!(service, queue, %error, "still cannot claim jobs");
        } else {
            tracing::warn!(service, queue, %error, "cannot claim jobs");
        }
        self.is_failing = true;
    }
}

fn id_of(ended: &Result<(Id, ()), tokio::task::JoinError>) -> Id {
    match ended {
        Ok((id, ())) => *id,
        Err(error) => error.id(),
    }
}

impl<Q: Queue> Common<Q> {
    /// Runs one attempt and its settlement.
    async fn see_through(&self, job: Leased<Q::Job>, claimed_at: Instant, cut: &CancellationToken) {
        let ended = self.attempt(&job, claimed_at, cut).await;
        if let Err(broken) = ended.report {
            self.meter.broken(broken.as_str());
        }
        let (service, queue, id) = (self.service, self.config.name, job.lease.id);
        let outcome = ended.settlement.outcome();
        let settled = self.store(Arc::new(Attempted { job, ended }));
        if matches!(timeout_at(claimed_at + self.config.lease, settled).await, Ok(true)) {
            return self.meter.settled(outcome);
        }
        tracing::warn!(service, queue, %id, "an attempt was not settled within its lease");
        self.meter.late();
    }

    async fn attempt(
        &self,
        job: &Leased<Q::Job>,
        claimed_at: Instant,
        cut: &CancellationToken,
    ) -> Ended<Q::Report> {
        let (service, queue, id) = (self.service, self.config.name, job.lease.id);
        if job.lease.is_spent {
            tracing::warn!(service, queue, %id, "the last attempt was lost with its worker; abandoning the job");
            return Ended { settlement: Settlement::Dead, report: Err(Broken::LeaseLost) };
        }
        let deadline = claimed_at + self.config.lease.saturating_mul(3) / 4;
        let work = cut.run_until_cancelled(caught(self.queue.work(job)));
        let (verdict, report) = match timeout_at(deadline, work).await {
            Ok(Some(Ok(Worked { verdict, report }))) => (verdict, Ok(report)),
            Ok(Some(Err(panic))) => {
                tracing::error!(service, queue, %id, panic, "a job panicked");
                (Verdict::Retry { asked: None }, Err(Broken::Panic))
            }
            ended => {
                let was_cut = matches!(ended, Ok(None));
                tracing::warn!(service, queue, %id, was_cut, "a job took too long");
                (Verdict::Retry { asked: None }, Err(Broken::Timeout))
            }
        };
        Ended { settlement: self.settlement(&job.lease, verdict), report }
    }

    fn settlement(&self, lease: &Lease, verdict: Verdict) -> Settlement {
        match verdict {
            Verdict::Done => Settlement::Done,
            Verdict::Dead => Settlement::Dead,
            Verdict::Later { after } => Settlement::Postponed { after },
            Verdict::Retry { asked } => {
                let wait = self.config.ladder.after(lease.attempt, asked, random_of(lease));
                wait.map_or(Settlement::Dead, |after| Settlement::Again { after })
            }
        }
    }

    /// Settles the attempt together with others that are done at this moment, or on its own.
    async fn store(&self, attempted: Arc<Attempted<Q::Job, Q::Report>>) -> bool {
        if attempted.ended.settlement == Settlement::Done {
            let stored = self.together.settle(&*self.queue, Arc::clone(&attempted)).await;
            if let Some(stored) = stored {
                return stored;
            }
        }
        self.settle(&attempted.job, &attempted.ended).await
    }

    /// Retries until the outcome is stored: a brief database outage costs no second attempt.
    async fn settle(&self, job: &Leased<Q::Job>, ended: &Ended<Q::Report>) -> bool {
        let (service, queue, id) = (self.service, self.config.name, job.lease.id);
        let mut pause = FIRST_SETTLE_RETRY;
        loop {
            match caught(self.queue.settle(job, ended)).await {
                Ok(Ok(stored)) => return stored,
                Ok(Err(error)) => {
                    tracing::warn!(service, queue, %id, %error, "an attempt is not settled yet");
                }
                Err(panic) => {
                    tracing::error!(service, queue, %id, panic, "a settlement panicked");
                    self.meter.broken(Broken::Panic.as_str());
                }
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(LAST_SETTLE_RETRY);
        }
    }
}

/// A random number from the token: tokens are random, so each attempt of each job has its own.
fn random_of(lease: &Lease) -> u64 {
    let mut hasher = DefaultHasher::new();
    (lease.id, lease.token).hash(&mut hasher);
    hasher.finish()
}
