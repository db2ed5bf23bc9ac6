//! The SQL engine: facts and relations in one statement (`decide.sql`), a least fixpoint over (object, relation) that
//! PostgreSQL computes over the current `authz.tuple`. It keeps nothing between questions except the compiled model,
//! whose edition the statement itself checks. It is therefore always exact and is the reference for other engines.

mod lists;
mod summaries;

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use serde_json::json;
use service::config::DatabaseConfig;
use sqlx::types::Json;
use sqlx::{PgExecutor, PgPool};

use crate::engine::answers::{
    Engine, Explained, Listed, Listing, Portion, Reading, Shown, Summarized, Unanswered,
};
use crate::engine::database::{SETTINGS, unanswered};
use crate::engine::facts::{Ask, Facts, Held, Place, PlaceFacts, Question, SubjectFacts, SubjectRef};
use crate::engine::model::{Edition, Model};
use crate::engine::source::{ModelSource, Models};

/// Time limit of a question, including the wait for a connection: a server that hangs does not enforce its own limit.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Connections for lists, in addition to those for decisions.
const LIST_CONNECTIONS: u32 = 2;
/// Maximum number of attempts per question while the catalog changes; past it, registry counts as unavailable.
pub(super) const MODEL_ATTEMPTS: usize = 4;

/// The engine that asks the database.
#[derive(Debug)]
pub struct SqlEngine {
    pub(super) pool: PgPool,
    /// Connections for lists, so that no decision waits behind one.
    pub(super) lists: PgPool,
    pub(super) models: Arc<Models>,
    pub(super) budget: i64,
}

impl SqlEngine {
    /// Opens its own connections to authz's database, so that decisions do not wait behind writes. `budget` is the
    /// maximum number of (object, relation) pairs that one question visits.
    #[must_use]
    pub fn connect(database: &DatabaseConfig, budget: i64) -> Self {
        let of_lists = DatabaseConfig { max_connections: LIST_CONNECTIONS, ..database.clone() };
        let lists = service::db::pool_with(&of_lists, &SETTINGS);
        Self { lists, ..Self::over(service::db::pool_with(database, &SETTINGS), budget) }
    }

    /// Uses the caller's connections.
    #[must_use]
    pub fn over(pool: PgPool, budget: i64) -> Self {
        Self { lists: pool.clone(), pool, models: Arc::default(), budget }
    }

    /// Reads facts and relations according to the given model, whatever the catalog's revision is.
    ///
    /// # Errors
    /// The database cannot answer.
    pub async fn read_by(&self, model: &Arc<Model>, question: &Question) -> Result<Facts, Unanswered> {
        let row = self.ask(&self.pool, model, question).await.map_err(unanswered)?;
        row.facts(model, question)
    }

    /// The connections for lists, shared with summaries.
    pub(crate) fn lists(&self) -> PgPool {
        self.lists.clone()
    }

    /// The connections and the model, shared with the memory engine.
    pub(crate) fn models(&self) -> ModelSource {
        ModelSource { pool: self.pool.clone(), models: Arc::clone(&self.models) }
    }

    async fn read_now(&self, question: &Question) -> Result<Facts, Unanswered> {
        let mut model = self.models.current(&self.pool).await?;
        for _ in 0..MODEL_ATTEMPTS {
            let row = self.ask(&self.pool, &model, question).await.map_err(unanswered)?;
            if row.is_by(&model) {
                return row.facts(&model, question);
            }
            model = self.models.reload(&self.pool).await?;
        }
        Err(restless())
    }

    pub(super) async fn ask(
        &self,
        executor: impl PgExecutor<'_>,
        model: &Model,
        question: &Question,
    ) -> sqlx::Result<Row> {
        let SubjectRef { kind, id, relation } = &question.subject;
        let (types, ids, relations) = columns(&question.asks);
        // Only a subject that is a userset can match a relation of the search itself.
        let implied = if relation.is_empty() { "{}" } else { model.implied_json() };
        let places: Vec<Place> = question.places.iter().map(|place| placed(model, place)).collect();
        let places = json!(places).to_string();
        let answer = sqlx::query_file_as!(
            Row,
            "src/engine/sql/decide.sql",
            kind,
            id,
            relation,
            model.rules_json(),
            implied,
            &types,
            &ids,
            &relations,
            self.budget,
            places
        );
        answer.fetch_one(executor).await
    }
}

impl Engine for SqlEngine {
    fn read<'a>(&'a self, question: &'a Question) -> Reading<'a, Facts> {
        Box::pin(in_time(self.read_now(question)))
    }

    fn list<'a>(&'a self, question: &'a Question, listing: &'a Listing) -> Reading<'a, Listed> {
        Box::pin(in_time(self.list_now(question, listing)))
    }

    fn summarize<'a>(&'a self, portion: &'a Portion<'a>) -> Reading<'a, Summarized> {
        Box::pin(in_time(self.summarize_now(portion)))
    }

    fn summarize_cheaply<'a>(&'a self, _: &'a Portion<'a>) -> Reading<'a, Option<Summarized>> {
        Box::pin(async { Ok(None) })
    }

    /// Refuses: a tree needs the graph, which this engine does not have.
    fn explain<'a>(
        &'a self,
        _question: &'a Question,
        _ask: &'a Ask,
        _shown: Shown,
    ) -> Reading<'a, Explained> {
        let cause = "the graph is not in memory yet".to_owned();
        Box::pin(std::future::ready(Err(Unanswered { dependency: "engine", cause })))
    }
}

async fn in_time<T>(answer: impl Future<Output = Result<T, Unanswered>>) -> Result<T, Unanswered> {
    tokio::time::timeout(ANSWER_TIMEOUT, answer).await.unwrap_or_else(|_| Err(too_late()))
}

/// The catalog changed in every attempt.
pub(super) fn restless() -> Unanswered {
    Unanswered { dependency: "registry", cause: "the catalog changes without a pause".to_owned() }
}

/// The result of the statement.
pub(super) struct Row {
    snapshot: String,
    catalog: Option<String>,
    started: f64,
    look_age_s: Option<f64>,
    subject: Option<Json<SubjectFacts>>,
    places: Option<Json<Vec<PlaceFacts>>>,
    held: Option<Vec<bool>>,
    exhausted: bool,
}

impl Row {
    /// Whether the model was compiled from the current catalog.
    pub(super) fn is_by(&self, model: &Model) -> bool {
        Edition::told(self.catalog.clone(), self.started).as_ref() == Some(model.edition())
    }

    pub(super) fn facts(self, model: &Arc<Model>, question: &Question) -> Result<Facts, Unanswered> {
        let places = self.places.map(|Json(places)| places).unwrap_or_default();
        let held = self.held.unwrap_or_default();
        if places.len() != question.places.len() || held.len() != question.asks.len() {
            let cause = "the statement answered another question".to_owned();
            return Err(Unanswered { dependency: "postgres", cause });
        }
        let verdict = |held| match (held, self.exhausted) {
            (true, _) => Held::Yes,
            (false, false) => Held::No,
            (false, true) => Held::Unknown,
        };
        let held: HashMap<Ask, Held> =
            question.asks.iter().cloned().zip(held.into_iter().map(verdict)).collect();
        Ok(Facts {
            model: Arc::clone(model),
            snapshot: self.snapshot,
            look_age_s: self.look_age_s,
            subject: self.subject.map(|Json(subject)| subject),
            places,
            held,
            paths: HashMap::new(),
        })
    }
}

/// Fills in the deciding module according to the model.
fn placed(model: &Model, place: &Place) -> Place {
    Place { module: place.module_by(model).map(ToOwned::to_owned), ..place.clone() }
}

fn columns(asks: &[Ask]) -> (Vec<String>, Vec<String>, Vec<String>) {
    let types = asks.iter().map(|ask| ask.object.kind.clone()).collect();
    let ids = asks.iter().map(|ask| ask.object.id.clone()).collect();
    (types, ids, asks.iter().map(|ask| ask.relation.clone()).collect())
}

fn too_late() -> Unanswered {
    tracing::warn!(timeout = ?ANSWER_TIMEOUT, "timed out reading the facts of a decision");
    Unanswered { dependency: "postgres", cause: format!("no answer within {ANSWER_TIMEOUT:?}") }
}
