//! Summaries by SQL: facts and relations (`decide.sql`), then the own tuples (`own.sql`), in one transaction.

use contract::id::CompanyId;
use service::transaction;
use sqlx::PgExecutor;
use sqlx::types::Json;
use uuid::Uuid;

use super::{MODEL_ATTEMPTS, SqlEngine, restless};
use crate::engine::answers::{OwnTuple, Portion, Summarized, Unanswered};
use crate::engine::database::unanswered;
use crate::engine::facts::{Place, Question, SubjectRef};
use crate::engine::model::Model;

/// The result of `own.sql`.
struct Row {
    tiers: Json<Vec<OwnTuple>>,
    objects: Json<Vec<OwnTuple>>,
    looked_at: i64,
}

impl SqlEngine {
    pub(super) async fn summarize_now(&self, portion: &Portion<'_>) -> Result<Summarized, Unanswered> {
        let mut model = self.models.current(&self.pool).await?;
        let place = |company: &CompanyId| Place { company: Some(*company), ..Place::default() };
        for _ in 0..MODEL_ATTEMPTS {
            let question = Question {
                subject: portion.subject.clone(),
                places: portion.companies.iter().map(place).collect(),
                asks: (portion.asks)(&model),
            };
            let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
            let mut tx = transaction::begin(&self.lists, begin).await.map_err(unanswered)?;
            let row = self.ask(&mut *tx, &model, &question).await.map_err(unanswered)?;
            if !row.is_by(&model) {
                model = self.models.reload(&self.pool).await?;
                continue;
            }
            let facts = row.facts(&model, &question)?;
            let own = own(&mut *tx, &model, portion).await.map_err(unanswered)?;
            tx.commit().await.map_err(unanswered)?;
            let looked_at = usize::try_from(own.looked_at).unwrap_or(usize::MAX);
            return Ok(Summarized { facts, tiers: own.tiers.0, objects: own.objects.0, looked_at });
        }
        Err(restless())
    }
}

async fn own(executor: impl PgExecutor<'_>, model: &Model, portion: &Portion<'_>) -> sqlx::Result<Row> {
    let SubjectRef { id, .. } = &portion.subject;
    let of =
        |companies: &[CompanyId]| companies.iter().map(|company| company.as_uuid()).collect::<Vec<Uuid>>();
    let modules: Vec<String> = model.enabled().iter().map(|module| module.key.clone()).collect();
    let tiers: Vec<String> = model.relations("company_module").into_iter().map(ToOwned::to_owned).collect();
    let base: Vec<String> = contract::fragment::base_model().into_keys().collect();
    let most = if portion.objects_of.is_empty() { 0 } else { portion.most_objects };
    sqlx::query_file_as!(
        Row,
        "src/engine/sql/own.sql",
        id,
        &of(portion.companies),
        &modules,
        &tiers,
        &of(portion.objects_of),
        &base,
        i64::try_from(most).unwrap_or(i64::MAX)
    )
    .fetch_one(executor)
    .await
}
