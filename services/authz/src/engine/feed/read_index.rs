//! The feed's statement: reads what changed since the last one and the facts of a round, both from one moment, over a
//! connection of its own. The changes are applied to the graph before any question is answered. A change that cannot be
//! applied discards the graph, because a graph that misses one change stays wrong.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use serde::Deserialize;
use service::config::DatabaseConfig;
use sqlx::ConnectOptions;
use sqlx::postgres::PgConnection;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Sleep, sleep};
use uuid::Uuid;

use crate::engine::answers::Unanswered;
use crate::engine::database::{SETTINGS, unanswered};
use crate::engine::facts::{ModuleFacts, SubjectFacts};
use crate::engine::feed::cursor;
use crate::engine::feed::meter::FeedMeter;
use crate::engine::feed::rounds::{Lost, Source};
use crate::engine::feed::wanted::{Moment, Rows, Wanted};
use crate::engine::graph::View;
use crate::engine::graph::load::{self, Loaded, Origin};
use crate::engine::graph::rules::Bound;
use crate::engine::graph::words::Full;
use crate::engine::graph::{Graph, TupleRow};
use crate::engine::model::Edition;
use crate::engine::source::ModelSource;

/// Time limit of a round that must connect first.
const ROUND_TIMEOUT: Duration = Duration::from_millis(500);
/// Time limit of any other round. A slower one has more to read than a decision can wait for (a bulk write) or a slow
/// database; either way SQL decides until memory has caught up.
const ROUND_PATIENCE: Duration = Duration::from_millis(250);
/// Changes applied before the task yields while memory catches up.
const CHANGES_AT_A_TIME: usize = 2_048;
/// How long catching up waits for a connection, and for a row: PostgreSQL sorts all changes before it sends the first.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
const ROW_PATIENCE: Duration = Duration::from_mins(1);
/// A cursor that no change can follow.
const NOTHING_SINCE: &str = "9223372036854775807:9223372036854775807:";
/// Time limit of the catch-up statement: reading an hour of writes from the log takes less.
const CATCH_UP_TIMEOUT: &str = "SET LOCAL statement_timeout = '5min'";
/// Maximum age of a cursor: the log keeps an hour. This process's clock is not enough (the machine may sleep or be
/// restored from a snapshot), so the log's watermark is checked too.
const MAX_CURSOR_AGE: Duration = Duration::from_mins(30);
/// A graph that could not be updated for this long is discarded; SQL decides while the table is reloaded.
const MAX_SILENCE: Duration = Duration::from_secs(10);
/// Maximum number of attempts per round while the catalog changes; past it, registry counts as unavailable.
const MODEL_ATTEMPTS: usize = 4;

/// The graph, its cursor in the change log, and the connection that reads it.
pub(crate) struct ReadIndex {
    database: DatabaseConfig,
    models: ModelSource,
    connection: Option<PgConnection>,
    origin: Origin,
    cursor: String,
    read_at: Instant,
    graph: Graph,
    view: Arc<View>,
    published: watch::Sender<Option<Arc<View>>>,
    compaction: Option<Compaction>,
    /// Ends a round that takes too long. All rounds share one timer: resetting it wakes no thread of the runtime.
    patience: Option<Pin<Box<Sleep>>>,
    meter: FeedMeter,
}

/// A new base under construction, and the changes since it was started.
struct Compaction {
    work: JoinHandle<Result<Graph, Full>>,
    since: Vec<Change>,
}

/// A row of the change log.
struct Change {
    add: bool,
    row: Row,
}

#[derive(Deserialize)]
struct Row {
    object_type: String,
    object_id: String,
    relation: String,
    subject_type: String,
    subject_id: String,
    subject_relation: String,
}

/// The result of the statement. The rows have the order of their keys.
struct Answer {
    snapshot: String,
    epoch: Uuid,
    trimmed: String,
    started: f64,
    wiring: String,
    catalog: Option<String>,
    look_age_s: Option<f64>,
    changes: Vec<String>,
    subjects: Vec<Option<String>>,
    companies: Vec<Option<bool>>,
    members: Vec<Option<bool>>,
    modules: Vec<Option<i32>>,
}

/// The result of the statement for one question.
struct AnswerOfOne {
    snapshot: String,
    epoch: Uuid,
    trimmed: String,
    started: f64,
    wiring: String,
    catalog: Option<String>,
    look_age_s: Option<f64>,
    changes: Vec<String>,
    subject: Option<String>,
    company: Option<bool>,
    member: Option<bool>,
    module: Option<i32>,
}

impl ReadIndex {
    /// Continues from the snapshot at which the table was loaded.
    pub(crate) async fn begin(
        database: DatabaseConfig,
        models: ModelSource,
        loaded: Loaded,
        published: watch::Sender<Option<Arc<View>>>,
        meter: FeedMeter,
    ) -> Result<Self, Unanswered> {
        let Loaded { mut graph, snapshot, origin } = loaded;
        let model = models.models.current(&models.pool).await?;
        let rules = Arc::new(Bound::new(model, &mut graph).map_err(|full| too_full(&full))?);
        let view = Arc::new(View { graph: graph.clone(), rules });
        let (connection, compaction, read_at) = (None, None, Instant::now());
        let cursor = snapshot;
        Ok(Self {
            database,
            models,
            connection,
            origin,
            cursor,
            read_at,
            graph,
            view,
            published,
            compaction,
            patience: None,
            meter,
        })
    }

    async fn round(&mut self, wanted: Wanted) -> Result<Moment, Lost> {
        if self.read_at.elapsed() > MAX_CURSOR_AGE {
            return Err(Lost::Everything(lost("the cursor in the change log is too old")));
        }
        for _ in 0..MODEL_ATTEMPTS {
            let answer = self.ask(&wanted).await?;
            self.continues(&answer).map_err(|why| Lost::Everything(lost(why)))?;
            self.apply(&answer.changes).await.map_err(Lost::Everything)?;
            self.cursor.clone_from(&answer.snapshot);
            if self.is_bound_to(Edition::told(answer.catalog.clone(), answer.started)).await? {
                self.publish();
                return Ok(answer.moment(Arc::clone(&self.view), wanted));
            }
        }
        let cause = "the catalog changes without a pause".to_owned();
        Err(Lost::Round(Unanswered { dependency: "registry", cause }))
    }

    async fn ask(&mut self, wanted: &Wanted) -> Result<Answer, Lost> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let answer = statement(&mut connection, &self.cursor, wanted).await;
        // A connection with any error other than the statement's own is not reused.
        if !matches!(&answer, Err(error) if error.as_database_error().is_none()) {
            self.connection = Some(connection);
        }
        let answer = answer.map_err(|error| Lost::Round(unanswered(error)))?;
        answer.ok_or_else(|| Lost::Everything(lost("the change log is not this database's own")))
    }

    /// Checks that the answer continues from the graph: the same log, always written, on a server that has not
    /// restarted, no earlier than the cursor, and with every row since.
    fn continues(&self, answer: &Answer) -> Result<(), &'static str> {
        if answer.epoch != self.origin.epoch {
            return Err("the change log has another epoch");
        }
        if answer.started.to_bits() != self.origin.started {
            return Err("the database server has restarted");
        }
        if answer.wiring != self.origin.wiring {
            return Err("the triggers that write the change log have changed");
        }
        cursor::continues(&self.cursor, &answer.snapshot, &answer.trimmed)
    }

    async fn connect(&self) -> Result<PgConnection, Lost> {
        let failed = |error| Lost::Round(unanswered(error));
        let mut connection =
            service::db::options(&self.database, &SETTINGS).connect().await.map_err(failed)?;
        let origin = load::origin(&mut connection).await.map_err(failed)?;
        if origin.as_ref() == Some(&self.origin) {
            return Ok(connection);
        }
        Err(Lost::Everything(lost("the database is not the one that was loaded")))
    }

    /// Applies changes in the order of the log.
    async fn apply(&mut self, changes: &[String]) -> Result<(), Unanswered> {
        for text in changes {
            self.change(text)?;
        }
        self.meter.changed(changes.len());
        self.compact().await
    }

    fn change(&mut self, text: &str) -> Result<(), Unanswered> {
        let change = Change::parse(text).ok_or_else(|| lost("the change log holds an invalid change"))?;
        self.graph.apply(change.add, &change.row.tuple()).map_err(|full| too_full(&full))?;
        if let Some(compaction) = &mut self.compaction {
            compaction.since.push(change);
        }
        Ok(())
    }

    /// Reads everything written since the cursor, in any amount, and takes over a new base under construction. Yields
    /// regularly. No question is answered from the result before a further round.
    ///
    /// # Errors
    /// [`Lost::Round`] when it may be retried from the graph's position.
    pub(crate) async fn catch_up(&mut self) -> Result<(), Lost> {
        let begun = Instant::now();
        let connect = tokio::time::timeout(CONNECT_PATIENCE, self.connect());
        let mut connection =
            connect.await.unwrap_or_else(|_| Err(Lost::Round(lost("no connection in time"))))?;
        let failed = |error| Lost::Round(unanswered(error));
        load::begin(&mut connection).await.map_err(failed)?;
        sqlx::raw_sql(CATCH_UP_TIMEOUT).execute(&mut connection).await.map_err(failed)?;
        let answer =
            statement_of_one(&mut connection, NOTHING_SINCE, &Wanted::default()).await.map_err(failed)?;
        let answer =
            answer.ok_or_else(|| Lost::Everything(lost("the change log is not this database's own")))?;
        self.continues(&answer).map_err(|why| Lost::Everything(lost(why)))?;
        let changes = self.apply_all(&mut connection).await?;
        sqlx::raw_sql("COMMIT").execute(&mut connection).await.map_err(failed)?;
        self.meter.changed(changes);
        (self.cursor, self.read_at) = (answer.snapshot, begun);
        self.connection = Some(connection);
        self.settle_compaction().await.map_err(Lost::Everything)?;
        tracing::info!(changes, took = ?begun.elapsed(), "the graph caught up");
        Ok(())
    }

    /// Applies the changes row by row, so that only a few are in memory at a time.
    async fn apply_all(&mut self, connection: &mut PgConnection) -> Result<usize, Lost> {
        let failed = |error| Lost::Round(unanswered(error));
        let cursor = self.cursor.clone();
        let mut changes = sqlx::query_file_scalar!("src/engine/feed/catch_up.sql", cursor).fetch(connection);
        let mut applied = 0_usize;
        loop {
            let next = tokio::time::timeout(ROW_PATIENCE, changes.try_next()).await;
            let next = next.map_err(|_| Lost::Round(lost("no answer in time")))?;
            let Some(text) = next.map_err(failed)? else { return Ok(applied) };
            self.change(&text).map_err(Lost::Everything)?;
            applied += 1;
            if applied.is_multiple_of(CHANGES_AT_A_TIME) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Waits for a new base under construction and takes it over.
    async fn settle_compaction(&mut self) -> Result<(), Unanswered> {
        let Some(Compaction { work, since }) = self.compaction.take() else { return Ok(()) };
        let made = work.await.map_err(|_| lost("building the new base failed"))?;
        self.take_over(made, since).await
    }

    /// Starts a new base when one is due, and takes over a finished one.
    async fn compact(&mut self) -> Result<(), Unanswered> {
        match self.compaction.take() {
            Some(Compaction { work, since }) if work.is_finished() => {
                let made = work.await.map_err(|_| lost("building the new base failed"))?;
                self.take_over(made, since).await?;
            }
            None if self.graph.wants_compaction() => {
                let graph = self.graph.clone();
                let work = tokio::task::spawn_blocking(move || graph.compacted());
                self.compaction = Some(Compaction { work, since: Vec::new() });
            }
            running => self.compaction = running,
        }
        Ok(())
    }

    async fn take_over(&mut self, made: Result<Graph, Full>, since: Vec<Change>) -> Result<(), Unanswered> {
        let mut graph = made.map_err(|full| too_full(&full))?;
        for (index, Change { add, row }) in (1..).zip(&since) {
            graph.apply(*add, &row.tuple()).map_err(|full| too_full(&full))?;
            if usize::is_multiple_of(index, CHANGES_AT_A_TIME) {
                tokio::task::yield_now().await;
            }
        }
        let rules = Bound::new(Arc::clone(&self.view.rules.model), &mut graph);
        let rules = Arc::new(rules.map_err(|full| too_full(&full))?);
        self.graph = graph;
        self.view = Arc::new(View { graph: self.graph.clone(), rules });
        tracing::debug!(tuples = self.graph.tuples(), "the graph has a new base");
        Ok(())
    }

    /// Whether the graph's model has this edition; loads the current model when it does not.
    async fn is_bound_to(&mut self, edition: Option<Edition>) -> Result<bool, Lost> {
        if edition.as_ref() == Some(self.view.rules.model.edition()) {
            return Ok(true);
        }
        let ModelSource { pool, models } = &self.models;
        let known = models.current(pool).await.map_err(Lost::Round)?;
        let model = if edition.as_ref() == Some(known.edition()) {
            known
        } else {
            models.reload(pool).await.map_err(Lost::Round)?
        };
        let found = Some(model.edition().clone());
        let rules = Bound::new(model, &mut self.graph).map_err(|full| Lost::Everything(too_full(&full)))?;
        self.view = Arc::new(View { graph: self.graph.clone(), rules: Arc::new(rules) });
        Ok(edition == found)
    }

    fn publish(&mut self) {
        if self.view.graph.changes() != self.graph.changes() {
            let rules = Arc::clone(&self.view.rules);
            self.view = Arc::new(View { graph: self.graph.clone(), rules });
        }
        let view = &self.view;
        self.published.send_if_modified(|known| {
            let newer = known.as_ref().is_none_or(|known| !Arc::ptr_eq(known, view));
            if newer {
                *known = Some(Arc::clone(view));
            }
            newer
        });
        self.meter.read(self.read_at.elapsed(), self.graph.tuples());
        self.read_at = Instant::now();
    }
}

impl Source for ReadIndex {
    type Wanted = Wanted;
    type Moment = Moment;

    fn join(round: &mut Wanted, one: Wanted) {
        round.join(one);
    }

    async fn read(&mut self, wanted: Wanted) -> Result<Moment, Lost> {
        let is_connected = self.connection.is_some();
        let time = if is_connected { ROUND_PATIENCE } else { ROUND_TIMEOUT };
        let mut patience = self.patience.take().unwrap_or_else(|| Box::pin(sleep(time)));
        patience.as_mut().reset(tokio::time::Instant::now() + time);
        let outcome = tokio::select! {
            biased;
            outcome = self.round(wanted.in_order()) => outcome,
            () = &mut patience => {
                // The statement's answer is discarded together with its connection.
                tracing::warn!(timeout = ?time, "the change log did not answer in time");
                let why = lost("no answer in time");
                Err(if is_connected { Lost::Behind(why) } else { Lost::Round(why) })
            }
        };
        self.patience = Some(patience);
        match outcome {
            Err(Lost::Round(why)) => {
                self.meter.behind(self.read_at.elapsed());
                let silent = self.read_at.elapsed() > MAX_SILENCE;
                Err(if silent { Lost::Everything(why) } else { Lost::Round(why) })
            }
            other => other,
        }
    }
}

/// Runs the statement; `None` when the log is not the database's own.
async fn statement(
    connection: &mut PgConnection,
    cursor: &str,
    wanted: &Wanted,
) -> sqlx::Result<Option<Answer>> {
    if wanted.is_of_one() && cursor::is_quiet(cursor) {
        return statement_of_one(connection, cursor, wanted).await;
    }
    let companies: Vec<Uuid> = wanted.companies.iter().map(|company| company.as_uuid()).collect();
    let (of_members, members): (Vec<Uuid>, Vec<String>) =
        wanted.members.iter().map(|(company, subject)| (company.as_uuid(), subject.clone())).unzip();
    sqlx::query_file_as!(
        Answer,
        "src/engine/feed/read_index.sql",
        cursor,
        &wanted.subjects,
        &companies,
        &of_members,
        &members,
        &wanted.modules
    )
    .fetch_optional(connection)
    .await
}

async fn statement_of_one(
    connection: &mut PgConnection,
    cursor: &str,
    wanted: &Wanted,
) -> sqlx::Result<Option<Answer>> {
    let answer = sqlx::query_file_as!(
        AnswerOfOne,
        "src/engine/feed/read_one.sql",
        cursor,
        wanted.subjects.first(),
        wanted.companies.first().map(|company| company.as_uuid()),
        wanted.modules.first()
    )
    .fetch_optional(connection)
    .await?;
    Ok(answer.map(Answer::from))
}

impl Change {
    /// Parses `I` or `D` and the row as JSON. `F` marks a transaction yet to come, which the database's own log never
    /// holds.
    fn parse(text: &str) -> Option<Self> {
        let (op, row) = text.split_at_checked(1)?;
        let add = match op {
            "I" => true,
            "D" => false,
            _ => return None,
        };
        Some(Self { add, row: serde_json::from_str(row).ok()? })
    }
}

impl Row {
    fn tuple(&self) -> TupleRow<'_> {
        TupleRow {
            object_type: &self.object_type,
            object_id: &self.object_id,
            relation: &self.relation,
            subject_type: &self.subject_type,
            subject_id: &self.subject_id,
            subject_relation: &self.subject_relation,
        }
    }
}

impl From<AnswerOfOne> for Answer {
    fn from(one: AnswerOfOne) -> Self {
        Self {
            snapshot: one.snapshot,
            epoch: one.epoch,
            trimmed: one.trimmed,
            started: one.started,
            wiring: one.wiring,
            catalog: one.catalog,
            look_age_s: one.look_age_s,
            changes: one.changes,
            subjects: vec![one.subject],
            companies: vec![one.company],
            members: vec![one.member],
            modules: vec![one.module],
        }
    }
}

impl Answer {
    /// Pairs the rows with the keys that were requested, which have the same order.
    fn moment(self, view: Arc<View>, asked: Wanted) -> Moment {
        Moment {
            view,
            snapshot: self.snapshot,
            look_age_s: self.look_age_s,
            subjects: rows(asked.subjects, self.subjects, |text| subject(&text)),
            companies: rows(asked.companies, self.companies, Some),
            members: rows(asked.members, self.members, Some),
            modules: rows(asked.modules, self.modules, |sum| Some(module(sum))),
        }
    }
}

fn rows<K, T, V>(keys: Vec<K>, found: Vec<Option<T>>, read: impl Fn(T) -> Option<V>) -> Rows<K, V> {
    Rows { keys, found: found.into_iter().map(|row| row.and_then(&read)).collect() }
}

/// Parses the statement's text: a sign (`+` when enabled), then the lifecycle.
fn subject(text: &str) -> Option<SubjectFacts> {
    let (sign, lifecycle) = text.split_at_checked(1)?;
    Some(SubjectFacts { idp_enabled: sign == "+", lifecycle: lifecycle.to_owned() })
}

/// Decodes the statement's sum: 1 installed, 2 enabled.
const fn module(sum: i32) -> ModuleFacts {
    ModuleFacts { installed: sum & 1 != 0, enabled: sum & 2 != 0 }
}

fn lost(cause: &str) -> Unanswered {
    Unanswered { dependency: "postgres", cause: cause.to_owned() }
}

fn too_full(full: &Full) -> Unanswered {
    tracing::error!(%full, "the graph cannot be kept in memory");
    Unanswered { dependency: "engine", cause: full.to_string() }
}
