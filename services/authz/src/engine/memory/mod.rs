//! The memory engine: decides by a graph that follows the change log. A question waits for its round (`rounds.rs`), whose
//! statement (`read_index.rs`) brings the graph to the moment of the facts it reads; the search (`search.rs`) then works on
//! that snapshot and asks nobody. While the table is being loaded (`load.rs`), and for a question that finds that the graph
//! cannot be continued, the SQL engine answers. Without a round memory does not: what may be behind never decides.

mod cursor;
mod graph;
mod load;
mod meter;
mod names;
mod reach;
mod read_index;
mod rounds;
mod rules;
mod sample;
mod search;
mod tree;
mod wanted;
mod words;

#[cfg(test)]
mod handover;

use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::decision::ObjectRef;
use contract::grants::company_module_id;
use service::config::DatabaseConfig;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{Engine, Explained, Listed, Listing, Reading, SqlEngine, Unanswered};
use crate::facts::{Ask, Facts, Place, Question};
use load::{Loaded, load};
use meter::FeedMeter;
use read_index::ReadIndex;
use rounds::{Desk, Lost, Waiting};
use sample::Sampler;
use search::{Found, Progress, Search, states};
use wanted::{Moment, View, Wanted, locate, locate_all};

pub use fixed::FixedGraph;
pub use graph::TupleRow;
pub(super) use read_index::Catalog;
pub use tree::{Branch, Tree};
pub use words::Full;

mod fixed;

/// How long a question may take: the round that is on its way, and its own.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// An object that is anchored elsewhere in every round is a dependency that cannot answer.
const ROUNDS: usize = 4;
/// How many edges a search looks at before it lets others work.
const EDGES_AT_A_TIME: usize = 4_096;
/// How often the change log is read when nobody asks, so that no decision finds a long way to go.
const IDLE_READ: Duration = Duration::from_secs(1);
/// First pause after a load that failed; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Decides from memory. Cheap to clone.
#[derive(Clone)]
pub struct MemoryEngine {
    desk: Desk<ReadIndex>,
    view: watch::Receiver<Option<Arc<View>>>,
    sql: Arc<SqlEngine>,
    budget: i64,
    sampler: Option<Sampler>,
}

impl MemoryEngine {
    /// Begins to load; nobody reads the log any more when nobody asks after `stop`.
    ///
    /// # Errors
    /// A metric family registered twice.
    pub fn start(
        database: &DatabaseConfig,
        sql: Arc<SqlEngine>,
        budget: i64,
        metrics: &telemetry::Metrics,
        stop: CancellationToken,
    ) -> prometheus::Result<Self> {
        let meter = FeedMeter::register(metrics)?;
        let (desk, queue) = Desk::open();
        let (published, view) = watch::channel(None);
        let feed =
            Feed { database: database.clone(), sql: Arc::clone(&sql), published, meter: meter.clone() };
        // Requests in flight at the stop are decided still: the feed ends with the engine.
        tokio::spawn(feed.follow(queue));
        let idle = read_when_idle(desk.clone());
        tokio::spawn(async move { stop.run_until_cancelled(idle).await });
        let sampler = Some(Sampler::new(meter));
        Ok(Self { desk, view, sql, budget, sampler })
    }

    /// Whether decisions are made from memory now.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.view.borrow().is_some()
    }

    /// Returns when decisions are made from memory.
    pub async fn until_loaded(&self) {
        let mut view = self.view.clone();
        if view.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The facts of a question's moment, and that moment.
    async fn moment(&self, mut view: Arc<View>, question: &Question) -> Result<(Facts, Arc<Moment>), Lost> {
        let mut located = locate_all(&view, question);
        for _ in 0..ROUNDS {
            let asked = self.desk.ask(Wanted::of(question, &located));
            let moment =
                tokio::time::timeout(ANSWER_TIMEOUT, asked).await.unwrap_or_else(|_| Err(self.too_late()))?;
            // Where nothing changed meanwhile, everything is where it was.
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

    /// A question that was put just when the graph was given up has waited for its reload.
    fn too_late(&self) -> Lost {
        tracing::warn!(timeout = ?ANSWER_TIMEOUT, "a question waited too long for its round");
        let cause = format!("no answer within {ANSWER_TIMEOUT:?}");
        let why = Unanswered { dependency: "postgres", cause };
        if self.is_loaded() { Lost::Round(why) } else { Lost::Everything(why) }
    }

    fn loaded(&self) -> Option<Arc<View>> {
        self.view.borrow().clone()
    }

    async fn decide(&self, view: Arc<View>, question: &Question) -> Result<Facts, Lost> {
        let (mut facts, moment) = self.moment(view, question).await?;
        let found = self.search(&moment.view, question).await;
        for (ask, Found { held, path }) in question.asks.iter().zip(found) {
            if !path.is_empty() {
                facts.paths.insert(ask.clone(), path);
            }
            facts.held.insert(ask.clone(), held);
        }
        if let Some(sampler) = self.sampler.as_ref().filter(|sampler| sampler.is_due()) {
            sampler.compare(self.clone_without_sampler(), question.clone(), facts.clone(), moment);
        }
        Ok(facts)
    }

    fn clone_without_sampler(&self) -> Self {
        Self { sampler: None, ..self.clone() }
    }

    async fn search(&self, view: &View, question: &Question) -> Vec<Found> {
        let budget = states(self.budget);
        let mut search = Search::new(&view.graph, &view.rules, &question.subject, &question.asks, budget);
        loop {
            match search.advance(EDGES_AT_A_TIME) {
                Progress::Done(found) => return found,
                Progress::More => tokio::task::yield_now().await,
            }
        }
    }

    async fn explained(&self, view: Arc<View>, question: &Question, ask: &Ask) -> Result<Explained, Lost> {
        let (mut facts, moment) = self.moment(view, question).await?;
        let found = self.search(&moment.view, question).await;
        for (ask, Found { held, path }) in question.asks.iter().zip(found) {
            facts.paths.insert(ask.clone(), path);
            facts.held.insert(ask.clone(), held);
        }
        let (view, subject, ask, budget) =
            (Arc::clone(&moment.view), question.subject.clone(), ask.clone(), states(self.budget));
        // Two hundred searches, which nobody else's decision shall wait for.
        let planted = move || tree::plant(&view.graph, &view.rules, &subject, &ask, budget);
        let tree = tokio::task::spawn_blocking(planted).await.map_err(|_| Lost::Round(too_long("tree")))?;
        Ok(Explained { facts, tree })
    }

    async fn list(&self, view: Arc<View>, question: &Question, listing: &Listing) -> Result<Listed, Lost> {
        let (facts, moment) = self.moment(view, question).await?;
        let (view, subject, budget) =
            (Arc::clone(&moment.view), question.subject.clone(), states(self.budget));
        let listing = listing.clone();
        let listed = tokio::task::spawn_blocking(move || list(&view, &subject, &listing, budget)).await;
        let ids = listed.ok().flatten().ok_or_else(|| Lost::Round(too_long("list")))?;
        Ok(Listed { facts, ids })
    }
}

fn too_long(what: &str) -> Unanswered {
    Unanswered { dependency: "engine", cause: format!("the {what} is too long") }
}

/// From the subject's side; when that leads through half the platform, from the side of the module's objects.
fn list(
    view: &View,
    subject: &crate::facts::SubjectRef,
    listing: &Listing,
    budget: usize,
) -> Option<Vec<String>> {
    let View { graph, rules } = view;
    let anchor = ObjectRef {
        kind: "company_module".to_owned(),
        id: company_module_id(listing.company, &listing.module),
    };
    let in_company = |ids: Vec<String>| {
        ids.into_iter().filter(|id| is_anchored(view, listing, &anchor, id)).collect::<Vec<String>>()
    };
    let reached = reach::objects(graph, rules, subject, (&listing.object_type, &listing.relation), budget);
    let mut ids = if let Ok(nodes) = reached {
        in_company(nodes.into_iter().map(|node| graph.names.id(node)).collect())
    } else {
        let candidates = reach::anchored(graph, &anchor, &listing.object_type);
        let ids = in_company(candidates.into_iter().map(|node| graph.names.id(node)).collect());
        held(view, subject, listing, ids, budget)?
    };
    ids.sort_unstable();
    Some(ids)
}

/// To its module in this company, and to nothing else.
fn is_anchored(view: &View, listing: &Listing, anchor: &ObjectRef, id: &str) -> bool {
    let place = Place {
        object_type: Some(listing.object_type.clone()),
        object_id: Some(id.to_owned()),
        ..Place::default()
    };
    let anchors = locate(view, &place).anchors;
    !anchors.is_empty() && anchors.iter().all(|id| *id == anchor.id)
}

/// Those of the objects that the subject holds the relation on; `None`: the budget is not enough.
fn held(
    view: &View,
    subject: &crate::facts::SubjectRef,
    listing: &Listing,
    ids: Vec<String>,
    budget: usize,
) -> Option<Vec<String>> {
    let ask = |id: &String| {
        Ask::new(ObjectRef { kind: listing.object_type.clone(), id: id.clone() }, &listing.relation)
    };
    let asks: Vec<Ask> = ids.iter().map(ask).collect();
    let found = Search::new(&view.graph, &view.rules, subject, &asks, budget).run_whole()?;
    let mut kept = Vec::new();
    for (id, Found { held, .. }) in ids.into_iter().zip(found) {
        match held {
            crate::facts::Held::Yes => kept.push(id),
            crate::facts::Held::No => {}
            crate::facts::Held::Unknown => return None,
        }
    }
    Some(kept)
}

/// Where the graph cannot be continued, SQL answers the same request: its statement is sent after the question came, too.
impl Engine for MemoryEngine {
    fn read<'a>(&'a self, question: &'a Question) -> Reading<'a, Facts> {
        Box::pin(async move {
            let Some(view) = self.loaded() else { return self.sql.read(question).await };
            match self.decide(view, question).await {
                Err(Lost::Everything(_)) => self.sql.read(question).await,
                read => read.map_err(Lost::why),
            }
        })
    }

    fn list<'a>(&'a self, question: &'a Question, listing: &'a Listing) -> Reading<'a, Listed> {
        Box::pin(async move {
            let Some(view) = self.loaded() else { return Engine::list(&*self.sql, question, listing).await };
            match Self::list(self, view, question, listing).await {
                Err(Lost::Everything(_)) => Engine::list(&*self.sql, question, listing).await,
                listed => listed.map_err(Lost::why),
            }
        })
    }

    fn explain<'a>(&'a self, question: &'a Question, ask: &'a Ask) -> Reading<'a, Explained> {
        Box::pin(async move {
            let Some(view) = self.loaded() else { return self.sql.explain(question, ask).await };
            match self.explained(view, question, ask).await {
                Err(Lost::Everything(_)) => self.sql.explain(question, ask).await,
                explained => explained.map_err(Lost::why),
            }
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
    /// Loads, answers rounds, and loads again when what is in memory cannot be continued.
    async fn follow(self, mut queue: mpsc::Receiver<Waiting<ReadIndex>>) {
        loop {
            let loaded = tokio::select! {
                () = self.published.closed() => return,
                loaded = self.loaded_source() => loaded,
            };
            let Some(mut source) = loaded else { continue };
            let Some(lost) = rounds::run(&mut queue, &mut source).await else { return };
            tracing::warn!(%lost, "the graph is loaded anew");
            drop(source);
            self.published.send_replace(None);
            self.meter.loading();
            rounds::refuse_all(&mut queue, &lost);
        }
    }

    /// `None`: it could not be loaded to the end, and is to be tried again.
    async fn loaded_source(&self) -> Option<ReadIndex> {
        let begun = Instant::now();
        let loaded = self.load_patiently().await;
        let (tuples, catalog) = (loaded.graph.tuples(), self.sql.catalog());
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
        // The first round catches up with what was written during the load; only then does memory decide.
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

/// A question of nobody's. Whether it was answered is told by the meter.
async fn read_when_idle(desk: Desk<ReadIndex>) {
    let mut tick = tokio::time::interval(IDLE_READ);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        drop(desk.ask(Wanted::default()).await);
    }
}
