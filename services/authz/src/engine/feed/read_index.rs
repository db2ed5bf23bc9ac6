//! The feed's statement: what changed since the last one, and the facts of a round, of one moment. It has a connection of
//! its own. What it reads is applied to the graph before anybody is answered; a change that could not be applied ends the
//! graph, because a graph that misses one is wrong for ever.

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

/// How long a round may take that has to connect first.
const ROUND_TIMEOUT: Duration = Duration::from_millis(500);
/// How long any other may take. One that would take longer has more to read than a decision can wait for (a bulk write), or
/// has a database that is slow; either way SQL decides until memory has caught up.
const ROUND_PATIENCE: Duration = Duration::from_millis(250);
/// Changes that are applied before others may work, when memory catches up.
const CHANGES_AT_A_TIME: usize = 2_048;
/// How long catching up waits for a connection, and for a row: the first of very many are sorted before.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
const ROW_PATIENCE: Duration = Duration::from_mins(1);
/// A cursor after which nothing can have been written.
const NOTHING_SINCE: &str = "9223372036854775807:9223372036854775807:";
/// How long the statement of catching up may take: what an hour of writes leaves in the log is read in less.
const CATCH_UP_TIMEOUT: &str = "SET LOCAL statement_timeout = '5min'";
/// A cursor older than this is not continued: the log keeps an hour. What this process's clock says is not enough (a machine
/// that sleeps, a snapshot of it): the watermark of the log decides too.
const MAX_CURSOR_AGE: Duration = Duration::from_mins(30);
/// A graph that could not be brought up to date for so long is given up: SQL decides while the table is read instead.
const MAX_SILENCE: Duration = Duration::from_secs(10);
/// A catalog that changes more often than this in one round is a dependency that cannot answer.
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
    /// Ends a round that takes too long. One for all of them: a timer that is only put off wakes no thread of the runtime.
    patience: Option<Pin<Box<Sleep>>>,
    meter: FeedMeter,
}

/// A new base in the making, and what has changed since it began.
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

/// What the statement answers.
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

impl ReadIndex {
    /// Goes on where the table was read.
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
        // A connection on which anything but the statement itself went wrong is not used again.
        if !matches!(&answer, Err(error) if error.as_database_error().is_none()) {
            self.connection = Some(connection);
        }
        let answer = answer.map_err(|error| Lost::Round(unanswered(error)))?;
        answer.ok_or_else(|| Lost::Everything(lost("the change log is not this database's own")))
    }

    /// Whether the answer goes on where the graph is: the same log, written all the while, on a server that was not started
    /// meanwhile, no earlier than the cursor, and with every row since.
    fn continues(&self, answer: &Answer) -> Result<(), &'static str> {
        if answer.epoch != self.origin.epoch {
            return Err("the change log has begun anew");
        }
        if answer.started.to_bits() != self.origin.started {
            return Err("the database was started anew");
        }
        if answer.wiring != self.origin.wiring {
            return Err("the triggers that write the change log were changed");
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
        Err(Lost::Everything(lost("the database is another one than before")))
    }

    /// In the order of the log.
    async fn apply(&mut self, changes: &[String]) -> Result<(), Unanswered> {
        for text in changes {
            self.change(text)?;
        }
        self.meter.changed(changes.len());
        self.compact().await
    }

    fn change(&mut self, text: &str) -> Result<(), Unanswered> {
        let change = Change::parse(text).ok_or_else(|| lost("a change that is not this database's"))?;
        self.graph.apply(change.add, &change.row.tuple()).map_err(|full| too_full(&full))?;
        if let Some(compaction) = &mut self.compaction {
            compaction.since.push(change);
        }
        Ok(())
    }

    /// Reads all that was written since the cursor, however much it is, and takes over a new base that is being made. Others
    /// work meanwhile; nobody is answered from what this leaves before a round after it.
    ///
    /// # Errors
    /// [`Lost::Round`]: it may be tried again, from where the graph is.
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
        self.cursor = answer.snapshot;
        self.connection = Some(connection);
        self.settle_compaction().await.map_err(Lost::Everything)?;
        tracing::info!(changes, took = ?begun.elapsed(), "the graph has caught up");
        Ok(())
    }

    /// Row by row, so that no more of them than a few are ever held.
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

    /// Waits for a new base that is being made, and takes it over.
    async fn settle_compaction(&mut self) -> Result<(), Unanswered> {
        let Some(Compaction { work, since }) = self.compaction.take() else { return Ok(()) };
        let made = work.await.map_err(|_| lost("the new base was not made"))?;
        self.take_over(made, since).await
    }

    /// Begins a new base when it is due, and takes over one that is made.
    async fn compact(&mut self) -> Result<(), Unanswered> {
        match self.compaction.take() {
            Some(Compaction { work, since }) if work.is_finished() => {
                let made = work.await.map_err(|_| lost("the new base was not made"))?;
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
        tracing::info!(tuples = self.graph.tuples(), "the graph has a new base");
        Ok(())
    }

    /// Whether the graph's model is of this edition; fetches the catalog's when it is not.
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
                // Whatever the statement was doing, its answer belongs to nobody; its connection went with it.
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

/// `None`: the log is not the database's own.
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
    let (modules, features): (Vec<String>, Vec<Option<String>>) = wanted.modules.iter().cloned().unzip();
    sqlx::query_file_as!(
        Answer,
        "src/engine/feed/read_index.sql",
        cursor,
        &wanted.subjects,
        &companies,
        &of_members,
        &members,
        &modules,
        &features as _
    )
    .fetch_optional(connection)
    .await
}

async fn statement_of_one(
    connection: &mut PgConnection,
    cursor: &str,
    wanted: &Wanted,
) -> sqlx::Result<Option<Answer>> {
    let (module, feature) =
        wanted.modules.first().map(|(module, feature)| (module, feature.as_ref())).unzip();
    sqlx::query_file_as!(
        Answer,
        "src/engine/feed/read_one.sql",
        cursor,
        wanted.subjects.first(),
        wanted.companies.first().map(|company| company.as_uuid()),
        module,
        feature.flatten()
    )
    .fetch_optional(connection)
    .await
}

impl Change {
    /// `I` or `D`, then the row as JSON. A change of a transaction that is yet to come (`F`) is none: no own log holds one.
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

impl Answer {
    /// Rows in the order in which they were asked for.
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

/// As the statement puts it together: a sign, then the lifecycle.
fn subject(text: &str) -> Option<SubjectFacts> {
    let (sign, lifecycle) = text.split_at_checked(1)?;
    Some(SubjectFacts { idp_enabled: sign == "+", lifecycle: lifecycle.to_owned() })
}

/// As the statement adds it up.
const fn module(sum: i32) -> ModuleFacts {
    ModuleFacts { installed: sum & 1 != 0, enabled: sum & 2 != 0, knows_feature: sum & 4 != 0 }
}

fn lost(cause: &str) -> Unanswered {
    Unanswered { dependency: "postgres", cause: cause.to_owned() }
}

fn too_full(full: &Full) -> Unanswered {
    tracing::error!(%full, "the graph cannot be kept in memory");
    Unanswered { dependency: "engine", cause: full.to_string() }
}
