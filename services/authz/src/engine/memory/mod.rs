//! The memory engine: decides with a graph that follows the change log. A question waits for its round
//! (`feed/rounds.rs`), whose statement (`feed/read_index.rs`) brings the graph to the moment of the facts that it
//! reads; the search (`graph/search.rs`) then works on that snapshot without further I/O. The SQL engine answers while
//! the table is being loaded (`graph/load.rs`), and for a question that finds that the graph cannot be continued.
//! Memory never answers without a round, because a graph that may be behind must not decide.

mod sample;

use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::id::CompanyId;
use service::config::DatabaseConfig;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::engine::answers::{
    Engine, Explained, Listed, Listing, Portion, Reading, Shown, Summarized, Unanswered,
};
use crate::engine::facts::{Ask, Facts, Path, Place, Question};
use crate::engine::feed::meter::FeedMeter;
use crate::engine::feed::read_index::ReadIndex;
use crate::engine::feed::rounds::{self, Batcher, Lost, Waiting};
use crate::engine::feed::wanted::{Moment, Wanted, locate_all};
use crate::engine::graph::View;
use crate::engine::graph::load::{Loaded, load};
use crate::engine::graph::search::{Found, Progress, Search, states};
use crate::engine::graph::{list, own, tree};
use crate::engine::sql::SqlEngine;
use sample::Sampler;

/// Time limit of a question: the round in progress and its own.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of rounds per question. An object whose anchor changes in each of them cannot be decided.
const ROUNDS: usize = 4;
/// Edges that a search looks at before it yields.
const EDGES_AT_A_TIME: usize = 4_096;
/// Maximum number of concurrent searches past their first edges, and of concurrent lists and trees. One may hold as
/// many states as its budget allows, some 100 MB, and a small machine has few cores. Others wait, within their time
/// limit.
const LARGE_SEARCHES: usize = 4;
const LARGE_READS: usize = 2;
/// Own tuples that a summary reads without a permit, and modules, counted once per company, whose relations a cheap
/// summary asks for.
const FEW_TUPLES: usize = 1_000;
const FEW_MODULES: usize = 100;
/// How long a list, a tree or a long summary waits for a permit.
const READ_PATIENCE: Duration = Duration::from_secs(3);
/// How long an explanation waits while the graph is loaded or catches up: SQL decides meanwhile, but has no tree.
const GRAPH_PATIENCE: Duration = Duration::from_secs(3);
/// Interval at which the change log is read without questions, so that no decision has much to catch up on.
const IDLE_READ: Duration = Duration::from_secs(1);
/// First pause after a failed load; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Decides from memory. Cheap to clone.
#[derive(Clone)]
pub struct MemoryEngine {
    batcher: Batcher<ReadIndex>,
    view: watch::Receiver<Option<Arc<View>>>,
    sql: Arc<SqlEngine>,
    budget: i64,
    sampler: Option<Sampler>,
    large_searches: Arc<Semaphore>,
    /// Permits of lists and trees only, so that no decision waits for one.
    large_reads: Arc<Semaphore>,
}

impl MemoryEngine {
    /// Starts loading. After `stop` the log is read only for questions.
    ///
    /// # Errors
    /// A metric family is registered twice.
    pub fn start(
        database: &DatabaseConfig,
        sql: Arc<SqlEngine>,
        budget: i64,
        metrics: &telemetry::Metrics,
        stop: CancellationToken,
    ) -> prometheus::Result<Self> {
        let meter = FeedMeter::register(metrics)?;
        let (batcher, queue) = Batcher::open();
        let (published, view) = watch::channel(None);
        let feed =
            Feed { database: database.clone(), sql: Arc::clone(&sql), published, meter: meter.clone() };
        // Requests in flight at the stop are still decided: the feed ends with the engine.
        tokio::spawn(feed.follow(queue));
        let idle = read_when_idle(batcher.clone());
        tokio::spawn(async move { stop.run_until_cancelled(idle).await });
        let sampler = Some(Sampler::new(meter));
        let large_searches = Arc::new(Semaphore::new(LARGE_SEARCHES));
        let large_reads = Arc::new(Semaphore::new(LARGE_READS));
        Ok(Self { batcher, view, sql, budget, sampler, large_searches, large_reads })
    }

    /// Reads the facts of a question and their moment.
    async fn moment(&self, mut view: Arc<View>, question: &Question) -> Result<(Facts, Arc<Moment>), Lost> {
        let mut located = locate_all(&view, question);
        for _ in 0..ROUNDS {
            let asked = self.batcher.ask(Wanted::of(question, &located));
            let moment =
                tokio::time::timeout(ANSWER_TIMEOUT, asked).await.unwrap_or_else(|_| Err(self.too_late()))?;
            // The places stay where they are unless the graph changed.
            if !Arc::ptr_eq(&view, &moment.view) {
                view = Arc::clone(&moment.view);
                located = locate_all(&view, question);
            }
            if let Some(facts) = moment.facts(question, located) {
                return Ok((facts, moment));
            }
            located = locate_all(&view, question);
        }
        let cause = "the object is anchored elsewhere in every round".to_owned();
        Err(Lost::Round(Unanswered { dependency: "engine", cause }))
    }

    /// The error of a timed-out question. Without a graph, the question waited for a reload, and SQL answers it.
    fn too_late(&self) -> Lost {
        tracing::warn!(timeout = ?ANSWER_TIMEOUT, "a question waited too long for its round");
        let cause = format!("no answer within {ANSWER_TIMEOUT:?}");
        let why = Unanswered { dependency: "postgres", cause };
        if self.loaded().is_some() { Lost::Round(why) } else { Lost::Everything(why) }
    }

    fn loaded(&self) -> Option<Arc<View>> {
        self.view.borrow().clone()
    }

    /// Waits for a graph until the deadline.
    async fn loaded_before(&self, deadline: tokio::time::Instant) -> Option<Arc<View>> {
        if tokio::time::Instant::now() >= deadline {
            return None;
        }
        let mut views = self.view.clone();
        let loaded = tokio::time::timeout_at(deadline, views.wait_for(Option::is_some)).await;
        loaded.ok()?.ok()?.clone()
    }

    async fn decide(&self, view: Arc<View>, question: &Question) -> Result<Facts, Lost> {
        let (mut facts, moment) = self.moment(view, question).await?;
        let found = self.found(self.search(&moment.view, question)).await;
        add(&mut facts, question.asks.iter().cloned(), found);
        if let Some(sampler) = self.sampler.as_ref().filter(|sampler| sampler.is_due()) {
            sampler.compare(self.clone_without_sampler(), question.clone(), facts.clone(), moment);
        }
        Ok(facts)
    }

    fn clone_without_sampler(&self) -> Self {
        Self { sampler: None, ..self.clone() }
    }

    fn search<'a>(&self, view: &'a View, question: &'a Question) -> Search<'a> {
        let budget = states(self.budget);
        Search::new(&view.graph, &view.rules, &question.subject, &question.asks, budget)
    }

    async fn found(&self, mut search: Search<'_>) -> Vec<Found> {
        let mut turn = None;
        loop {
            match search.advance(EDGES_AT_A_TIME) {
                Progress::Done(found) => return found,
                Progress::More if turn.is_none() => turn = self.large_searches.acquire().await.ok(),
                Progress::More => tokio::task::yield_now().await,
            }
        }
    }

    /// Waits for the permit of a list or a tree. The work holds it to its end, even when the requester has given up.
    async fn read_permit(&self) -> Result<OwnedSemaphorePermit, Lost> {
        let permit = tokio::time::timeout(READ_PATIENCE, Arc::clone(&self.large_reads).acquire_owned()).await;
        let crowded = || Unanswered { dependency: "engine", cause: "too many lists at once".to_owned() };
        permit.ok().and_then(Result::ok).ok_or_else(|| Lost::Round(crowded()))
    }

    async fn explained(
        &self,
        view: Arc<View>,
        question: &Question,
        ask: &Ask,
        shown: Shown,
    ) -> Result<Explained, Lost> {
        let permit = self.read_permit().await?;
        let (mut facts, moment) = self.moment(view, question).await?;
        let found = self.found(self.search(&moment.view, question)).await;
        add(&mut facts, question.asks.iter().cloned(), found);
        let (view, subject, ask, budget) =
            (Arc::clone(&moment.view), question.subject.clone(), ask.clone(), states(self.budget));
        // Up to two hundred searches, which must not delay other decisions.
        let planted = move || {
            let tree = tree::plant(&view.graph, &view.rules, &subject, &ask, shown, budget);
            drop(permit);
            tree
        };
        let tree = tokio::task::spawn_blocking(planted).await.map_err(|_| Lost::Round(too_long("tree")))?;
        Ok(Explained { facts, tree })
    }

    async fn list(&self, view: Arc<View>, question: &Question, listing: &Listing) -> Result<Listed, Lost> {
        let permit = self.read_permit().await?;
        let (facts, moment) = self.moment(view, question).await?;
        let (view, subject, budget) =
            (Arc::clone(&moment.view), question.subject.clone(), states(self.budget));
        let listing = listing.clone();
        let listed = move || {
            let page = list::page(&view, &subject, &listing, budget);
            drop(permit);
            page
        };
        let listed = tokio::task::spawn_blocking(listed).await;
        let list::Listed { ids, total } =
            listed.ok().flatten().ok_or_else(|| Lost::Round(too_long("list")))?;
        Ok(Listed { facts, ids, total })
    }

    async fn summarized(&self, view: Arc<View>, portion: &Portion<'_>) -> Result<Summarized, Lost> {
        let place = |company: &CompanyId| Place { company: Some(*company), ..Place::default() };
        let places = portion.companies.iter().map(place).collect();
        let mut question = Question { subject: portion.subject.clone(), places, asks: Vec::new() };
        let (mut facts, moment) = self.moment(view, &question).await?;
        question.asks = (portion.asks)(&moment.view.rules.model);
        let found = self.found(self.search(&moment.view, &question).without_paths()).await;
        add(&mut facts, question.asks, found);
        let own::Own { tiers, objects, looked_at } = self.own(&moment, portion).await?;
        Ok(Summarized { facts, tiers, objects, looked_at })
    }

    async fn own(&self, moment: &Moment, portion: &Portion<'_>) -> Result<own::Own, Lost> {
        let graph = &moment.view.graph;
        let Some(subject) = own::node(graph, &portion.subject) else { return Ok(own::Own::default()) };
        let wanted = own::Wanted::of(portion);
        if portion.objects_of.is_empty() || own::count(graph, subject) <= FEW_TUPLES {
            return Ok(own::read(&moment.view, subject, &wanted));
        }
        let (permit, view) = (self.read_permit().await?, Arc::clone(&moment.view));
        let read = move || {
            let own = own::read(&view, subject, &wanted);
            drop(permit);
            own
        };
        tokio::task::spawn_blocking(read).await.map_err(|_| Lost::Round(too_long("summary")))
    }
}

/// Whether a portion asks for few relations and its subject has few own tuples.
fn is_cheap(view: &View, portion: &Portion<'_>) -> bool {
    let modules = view.rules.model.enabled().len();
    let tuples =
        own::node(&view.graph, &portion.subject).map_or(0, |subject| own::count(&view.graph, subject));
    modules.saturating_mul(portion.companies.len()) <= FEW_MODULES && tuples <= FEW_TUPLES
}

fn add(facts: &mut Facts, asks: impl IntoIterator<Item = Ask>, found: Vec<Found>) {
    for (ask, Found { held, path, is_cut }) in asks.into_iter().zip(found) {
        if !path.is_empty() {
            facts.paths.insert(ask.clone(), Path { text: path, is_cut });
        }
        facts.held.insert(ask, held);
    }
}

fn too_long(what: &str) -> Unanswered {
    Unanswered { dependency: "engine", cause: format!("the {what} is too long") }
}

/// Falls back to SQL when the graph cannot be continued. The SQL statement, too, is sent after the question arrived.
impl Engine for MemoryEngine {
    fn read<'a>(&'a self, question: &'a Question) -> Reading<'a, Facts> {
        Box::pin(async move {
            let Some(view) = self.loaded() else { return self.sql.read(question).await };
            match self.decide(view, question).await {
                Err(lost) if lost.ends_rounds() => self.sql.read(question).await,
                read => read.map_err(Lost::why),
            }
        })
    }

    fn list<'a>(&'a self, question: &'a Question, listing: &'a Listing) -> Reading<'a, Listed> {
        Box::pin(async move {
            let Some(view) = self.loaded() else { return Engine::list(&*self.sql, question, listing).await };
            match Self::list(self, view, question, listing).await {
                Err(lost) if lost.ends_rounds() => Engine::list(&*self.sql, question, listing).await,
                listed => listed.map_err(Lost::why),
            }
        })
    }

    fn summarize<'a>(&'a self, portion: &'a Portion<'a>) -> Reading<'a, Summarized> {
        Box::pin(async move {
            let Some(view) = self.loaded() else { return self.sql.summarize(portion).await };
            match self.summarized(view, portion).await {
                Err(lost) if lost.ends_rounds() => self.sql.summarize(portion).await,
                summarized => summarized.map_err(Lost::why),
            }
        })
    }

    fn summarize_cheaply<'a>(&'a self, portion: &'a Portion<'a>) -> Reading<'a, Option<Summarized>> {
        Box::pin(async move {
            let Some(view) = self.loaded().filter(|view| is_cheap(view, portion)) else { return Ok(None) };
            match self.summarized(view, portion).await {
                Err(lost) if lost.ends_rounds() => Ok(None),
                summarized => summarized.map(Some).map_err(Lost::why),
            }
        })
    }

    fn explain<'a>(&'a self, question: &'a Question, ask: &'a Ask, shown: Shown) -> Reading<'a, Explained> {
        Box::pin(async move {
            let deadline = tokio::time::Instant::now() + GRAPH_PATIENCE;
            while let Some(view) = self.loaded_before(deadline).await {
                match self.explained(view, question, ask, shown).await {
                    Err(lost) if lost.ends_rounds() => {}
                    explained => return explained.map_err(Lost::why),
                }
            }
            self.sql.explain(question, ask, shown).await
        })
    }
}

/// The task that follows the change log.
struct Feed {
    database: DatabaseConfig,
    sql: Arc<SqlEngine>,
    published: watch::Sender<Option<Arc<View>>>,
    meter: FeedMeter,
}

impl Feed {
    /// Loads and answers rounds. Catches up when too much was written for one round, and reloads when the graph cannot
    /// be continued.
    async fn follow(self, mut queue: mpsc::Receiver<Waiting<ReadIndex>>) {
        loop {
            let loaded = tokio::select! {
                () = self.published.closed() => return,
                loaded = self.loaded_source() => loaded,
            };
            let Some(mut source) = loaded else { continue };
            loop {
                let Some(lost) = rounds::run(&mut queue, &mut source).await else { return };
                self.published.send_replace(None);
                rounds::refuse_all(&mut queue, &lost);
                if let Lost::Everything(why) = &lost {
                    tracing::warn!(%why, "reloading the graph");
                    break;
                }
                if !rounds::refusing(&mut queue, &lost, self.caught_up(&mut source)).await {
                    break;
                }
            }
            self.published.send_replace(None);
            self.meter.loading();
        }
    }

    /// Catches up while SQL decides. Returns false when the graph cannot be continued.
    async fn caught_up(&self, source: &mut ReadIndex) -> bool {
        self.meter.catching_up();
        loop {
            let caught_up = match source.catch_up().await {
                Ok(()) => rounds::Source::read(source, Wanted::default()).await.map(drop),
                Err(lost) => Err(lost),
            };
            match caught_up {
                Ok(()) => {
                    self.meter.deciding();
                    return true;
                }
                Err(Lost::Everything(why)) => {
                    tracing::warn!(%why, "the graph cannot catch up; reloading it");
                    return false;
                }
                // Too much was written meanwhile, or the database does not answer.
                Err(Lost::Behind(_) | Lost::Round(_)) => tokio::time::sleep(FIRST_PAUSE).await,
            }
        }
    }

    /// Loads the graph and brings it up to date; `None` when that failed and must be retried.
    async fn loaded_source(&self) -> Option<ReadIndex> {
        let begun = Instant::now();
        let loaded = self.load_patiently().await;
        let (tuples, catalog) = (loaded.graph.tuples(), self.sql.models());
        let (published, meter) = (self.published.clone(), self.meter.clone());
        let mut source =
            match ReadIndex::begin(self.database.clone(), catalog, loaded, published, meter).await {
                Ok(source) => source,
                Err(error) => {
                    tracing::warn!(%error, "the graph cannot be used yet");
                    tokio::time::sleep(FIRST_PAUSE).await;
                    return None;
                }
            };
        // The first round catches up with writes during the load; only then does memory decide.
        if let Err(lost) = rounds::Source::read(&mut source, Wanted::default()).await {
            tracing::warn!(?lost, "the graph cannot be brought up to date");
            tokio::time::sleep(FIRST_PAUSE).await;
            return None;
        }
        self.meter.loaded(begun.elapsed());
        tracing::info!(tuples, took = ?begun.elapsed(), "the graph is in memory");
        Some(source)
    }

    async fn load_patiently(&self) -> Loaded {
        let mut pause = FIRST_PAUSE;
        loop {
            match load(&self.database).await {
                Ok(loaded) => return loaded,
                Err(error) => tracing::warn!(%error, "the tuples cannot be loaded yet; SQL decides"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Asks for an empty round at intervals. The meter records whether it was answered.
async fn read_when_idle(batcher: Batcher<ReadIndex>) {
    let mut tick = tokio::time::interval(IDLE_READ);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        drop(batcher.ask(Wanted::default()).await);
    }
}
