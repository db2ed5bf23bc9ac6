//! Lists by SQL: from the subject (`list.sql`) and from the object (`holders.sql`), each in one statement. A list and
//! its facts are read in one transaction, so that they come from one moment.

use std::sync::Arc;

use contract::grants::company_module_id;
use service::transaction;
use sqlx::PgExecutor;

use super::{MODEL_ATTEMPTS, SqlEngine, restless};
use crate::engine::answers::{Listed, Listing, Unanswered, Window};
use crate::engine::database::unanswered;
use crate::engine::facts::{Ask, Question, SubjectRef};
use crate::engine::model::Model;

/// The result of both statements.
struct Row {
    ids: Vec<String>,
    total: i64,
    exhausted: bool,
}

/// The subject of a list and the part to return.
struct Reach<'a> {
    subject: &'a SubjectRef,
    object_type: &'a str,
    relation: &'a str,
    anchor: Option<&'a str>,
    window: Window,
}

impl SqlEngine {
    pub(super) async fn list_now(
        &self,
        question: &Question,
        listing: &Listing,
    ) -> Result<Listed, Unanswered> {
        let mut model = self.models.current(&self.pool).await?;
        let anchor = company_module_id(listing.company, &listing.module);
        let reach = Reach {
            subject: &question.subject,
            object_type: &listing.object_type,
            relation: &listing.relation,
            anchor: Some(&anchor),
            window: listing.window,
        };
        for _ in 0..MODEL_ATTEMPTS {
            let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
            let mut tx = transaction::begin(&self.lists, begin).await.map_err(unanswered)?;
            let row = self.ask(&mut *tx, &model, question).await.map_err(unanswered)?;
            if !row.is_by(&model) {
                model = self.models.reload(&self.pool).await?;
                continue;
            }
            let facts = row.facts(&model, question)?;
            let (ids, total) = self.reach(&mut *tx, &model, &reach).await?;
            tx.commit().await.map_err(unanswered)?;
            return Ok(Listed { facts, ids, total });
        }
        Err(restless())
    }

    /// Ids of all objects of a type on which the subject holds a relation, according to the given model.
    ///
    /// # Errors
    /// The database cannot answer, or the budget is exceeded.
    pub async fn objects_by(
        &self,
        model: &Arc<Model>,
        subject: &SubjectRef,
        object_type: &str,
        relation: &str,
    ) -> Result<Vec<String>, Unanswered> {
        let reach = Reach { subject, object_type, relation, anchor: None, window: Window::ALL };
        self.reach(&self.lists, model, &reach).await.map(|(ids, _)| ids)
    }

    /// Ids of all subjects of a type that hold a relation, according to the given model: plain ones when `of` is empty,
    /// otherwise usersets of that relation.
    ///
    /// # Errors
    /// The database cannot answer, or the budget is exceeded.
    pub async fn subjects_by(
        &self,
        model: &Arc<Model>,
        ask: &Ask,
        (subject_type, of): (&str, &str),
    ) -> Result<Vec<String>, Unanswered> {
        let row = sqlx::query_file_as!(
            Row,
            "src/engine/sql/holders.sql",
            ask.object.kind,
            ask.object.id,
            ask.relation,
            model.rules_json(),
            subject_type,
            of,
            if of.is_empty() { "{}" } else { model.implied_json() },
            self.budget
        );
        complete(row.fetch_one(&self.lists).await.map_err(unanswered)?).map(|(ids, _)| ids)
    }

    async fn reach(
        &self,
        executor: impl PgExecutor<'_>,
        model: &Model,
        wanted: &Reach<'_>,
    ) -> Result<(Vec<String>, usize), Unanswered> {
        let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
        let row = sqlx::query_file_as!(
            Row,
            "src/engine/sql/list.sql",
            wanted.subject.kind,
            wanted.subject.id,
            wanted.subject.relation,
            model.turned_json(),
            wanted.object_type,
            wanted.relation,
            self.budget,
            wanted.anchor,
            number(wanted.window.skip),
            number(wanted.window.take)
        );
        complete(row.fetch_one(executor).await.map_err(unanswered)?)
    }
}

/// Rejects a list that may be incomplete.
fn complete(row: Row) -> Result<(Vec<String>, usize), Unanswered> {
    if row.exhausted {
        return Err(Unanswered { dependency: "engine", cause: "the list is too long".to_owned() });
    }
    Ok((row.ids, usize::try_from(row.total).unwrap_or_default()))
}
