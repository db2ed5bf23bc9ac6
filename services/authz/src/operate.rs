//! Operator commands that work on the database without a running service: check a relation, explain it, list tuples,
//! add or remove one with its audit row, and make every reader of the change log start over. They require a connection
//! as the owner of the schemas; no route exposes them.

use std::sync::Arc;

use contract::decision::ObjectRef;
use contract::grants::ANCHOR_RELATION;
use contract::settings::nearest;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection, PgPool};

use crate::engine::facts::{Ask, Held, Question, SubjectRef};
use crate::engine::{DEFAULT_BUDGET, FixedGraph, Known, Model, Models, SqlEngine, Tree, Unanswered};
use crate::grants;

/// Maximum number of tuples per listing.
pub const MAX_LISTED: i64 = 10_000;

/// Why no operator command changes the platform role.
const PLATFORM_ROLE: &str = "the platform role has a ledger and a guard for its last holder: a superadmin grants it \
     with POST /api/platform/admin/platform-roles and revokes it with DELETE \
     /api/platform/admin/platform-roles/platform-superadmin/SUBJECT";

/// Why an operator command failed.
#[derive(Debug, thiserror::Error)]
pub enum OperateError {
    /// The input is malformed or the change is not allowed here.
    #[error("{0}")]
    Refused(String),
    /// The database cannot answer.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    /// The engine cannot answer.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
}

fn refused<T>(message: impl Into<String>) -> Result<T, OperateError> {
    Err(OperateError::Refused(message.into()))
}

/// A tuple as text: `type:id#relation@type:id[#relation]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TupleText {
    ask: Ask,
    subject: SubjectRef,
}

impl TupleText {
    /// Parses a tuple.
    ///
    /// # Errors
    /// The text does not have this form.
    pub fn parse(text: &str) -> Result<Self, OperateError> {
        let parts = text.split_once('@').and_then(|(object, subject)| {
            let (object, relation) = object.split_once('#')?;
            Some((parse_object(object)?, relation, parse_subject(subject)?))
        });
        match parts {
            Some((object, relation, subject)) if !relation.is_empty() => {
                Ok(Self { ask: Ask::new(object, relation), subject })
            }
            _ => refused(format!("\"{text}\" is not type:id#relation@type:id[#relation]")),
        }
    }
}

/// Parses `type:id`.
#[must_use]
pub fn parse_object(text: &str) -> Option<ObjectRef> {
    let (kind, id) = text.split_once(':').filter(|(kind, id)| !kind.is_empty() && !id.is_empty())?;
    Some(crate::decision::canonical(&ObjectRef { kind: kind.to_owned(), id: id.to_owned() }))
}

/// Parses `type:id[#relation]`.
#[must_use]
pub fn parse_subject(text: &str) -> Option<SubjectRef> {
    let (name, relation) = text.split_once('#').unwrap_or((text, ""));
    let ObjectRef { kind, id } = parse_object(name)?;
    Some(SubjectRef { kind, id, relation: relation.to_owned() })
}

/// Returns the current model, which must know the types and relations of object and subject: a misspelled one would
/// look like "not held".
async fn model_that_knows(
    pool: &PgPool,
    ask: &Ask,
    subject: &SubjectRef,
) -> Result<Arc<Model>, OperateError> {
    let model = Models::default().current(pool).await?;
    must_know("object", &model, &ask.object.kind, &ask.relation)?;
    must_know_subject(&model, subject)?;
    Ok(model)
}

fn must_know_subject(model: &Model, subject: &SubjectRef) -> Result<(), OperateError> {
    match (subject.kind.as_str(), subject.relation.as_str()) {
        (kind, "") if model.types().any(|known| known == kind) => Ok(()),
        (kind, "") => no_type("subject", model, kind),
        (kind, relation) => must_know("subject", model, kind, relation),
    }
}

fn must_know(what: &str, model: &Model, kind: &str, relation: &str) -> Result<(), OperateError> {
    match model.knows(kind, relation) {
        Known::Yes => Ok(()),
        Known::NoType => no_type(what, model, kind),
        Known::NoRelation => {
            let relations = model.relations(kind);
            let near = did_you_mean(relation, relations.iter().copied());
            let has = if relations.is_empty() { "none".to_owned() } else { relations.join(", ") };
            refused(format!("{what}: {kind} has no relation \"{relation}\"{near}; it has {has}"))
        }
    }
}

fn no_type(what: &str, model: &Model, kind: &str) -> Result<(), OperateError> {
    let near = did_you_mean(kind, model.types());
    let types = model.types().collect::<Vec<_>>().join(", ");
    refused(format!("{what}: no type is named \"{kind}\"{near}; the types are {types}"))
}

fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(name, known).map(|near| format!(" (did you mean \"{near}\"?)")).unwrap_or_default()
}

/// Checks that the current model knows the types and relations of a tuple to add.
///
/// # Errors
/// The model does not know one of them, or the database cannot answer.
pub async fn must_fit(pool: &PgPool, tuple: &TupleText) -> Result<(), OperateError> {
    let TupleText { ask, subject } = tuple;
    model_that_knows(pool, ask, subject).await.map(|_| ())
}

/// Whether a relation is held, according to the SQL engine.
///
/// # Errors
/// The model does not know a type or the relation, the database cannot answer, or the budget is exceeded.
pub async fn check(pool: &PgPool, ask: &Ask, subject: &SubjectRef) -> Result<bool, OperateError> {
    let model = model_that_knows(pool, ask, subject).await?;
    let question = Question { subject: subject.clone(), places: Vec::new(), asks: vec![ask.clone()] };
    let facts = SqlEngine::over(pool.clone(), DEFAULT_BUDGET).read_by(&model, &question).await?;
    match facts.holds(ask) {
        Held::Yes => Ok(true),
        Held::No => Ok(false),
        Held::Unknown => refused("the search was given up at its budget"),
    }
}

/// Why a relation is or is not held, according to all tuples in memory.
#[derive(Clone, Debug)]
pub struct Why {
    /// Whether the relation is held.
    pub held: bool,
    /// The tuples that satisfy it; empty when it is not held.
    pub path: String,
    /// How it is derived; absent when no tuple names the object.
    pub tree: Option<Tree>,
}

/// Explains one relation.
///
/// # Errors
/// The model does not know a type or the relation, the database cannot answer, or the budget is exceeded.
pub async fn explain(pool: &PgPool, ask: &Ask, subject: &SubjectRef) -> Result<Why, OperateError> {
    let model = model_that_knows(pool, ask, subject).await?;
    let connection = pool.acquire().await?.detach();
    let graph = FixedGraph::load(&model, connection).await?;
    match graph.check(subject, std::slice::from_ref(ask)).pop() {
        Some((Held::Yes, path)) => Ok(Why { held: true, path, tree: graph.tree(subject, ask) }),
        Some((Held::No, path)) => Ok(Why { held: false, path, tree: graph.tree(subject, ask) }),
        Some((Held::Unknown, _)) | None => refused("the search was given up at its budget"),
    }
}

/// Lists the tuples of an object, of a subject, of both or all, in order and with their source.
///
/// # Errors
/// The database cannot answer.
pub async fn list(
    connection: &mut PgConnection,
    object: Option<&ObjectRef>,
    subject: Option<&SubjectRef>,
    limit: i64,
) -> Result<Vec<String>, OperateError> {
    let rows = sqlx::query_scalar!(
        r#"SELECT format('%s:%s#%s@%s:%s%s  %s', object_type, object_id, relation, subject_type, subject_id,
               CASE WHEN subject_relation = '' THEN '' ELSE '#' || subject_relation END, source) AS "tuple!"
             FROM authz.tuple
            WHERE ($1::text IS NULL OR object_type = $1 AND object_id = $2)
              AND ($3::text IS NULL OR subject_type = $3 AND subject_id = $4 AND subject_relation = $5)
            ORDER BY object_type, object_id, relation, subject_type, subject_id, subject_relation LIMIT $6"#,
        object.map(|object| object.kind.as_str()),
        object.map(|object| object.id.as_str()),
        subject.map(|subject| subject.kind.as_str()),
        subject.map(|subject| subject.id.as_str()),
        subject.map(|subject| subject.relation.as_str()),
        limit.clamp(1, MAX_LISTED),
    );
    Ok(rows.fetch_all(connection).await?)
}

/// Adds or removes a tuple with its audit row; returns false when nothing changed.
///
/// # Errors
/// The tuple is a platform role or is kept by a service, or the database cannot answer.
pub async fn change(
    connection: &mut PgConnection,
    add: bool,
    tuple: &TupleText,
    operator: &str,
) -> Result<bool, OperateError> {
    let TupleText { ask: Ask { object, relation }, subject } = tuple;
    if object.kind == "system" && relation == "superadmin" {
        return refused(PLATFORM_ROLE);
    }
    if add && is_derived(&tuple.ask, subject) {
        return refused(kept_by_org(tuple));
    }
    let mut tx = connection.begin().await?;
    // Orders this change with grants: a grant that depends on the tuple commits before its removal or is refused.
    grants::lock_objects(&mut tx, std::iter::once((object.kind.clone(), object.id.clone()))).await?;
    let values = [&object.kind, &object.id, relation, &subject.kind, &subject.id, &subject.relation];
    let [object_type, object_id, relation, subject_type, subject_id, subject_relation] = values;
    let is_changed = if add {
        let added = sqlx::query!(
            "INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, subject_relation, source)
             VALUES ($1, $2, $3, $4, $5, $6, 'operator') ON CONFLICT DO NOTHING",
            object_type, object_id, relation, subject_type, subject_id, subject_relation
        )
        .execute(&mut *tx)
        .await?;
        added.rows_affected() > 0
    } else {
        let source = sqlx::query_scalar!(
            "DELETE FROM authz.tuple WHERE object_type = $1 AND object_id = $2 AND relation = $3
                AND subject_type = $4 AND subject_id = $5 AND subject_relation = $6 RETURNING source",
            object_type,
            object_id,
            relation,
            subject_type,
            subject_id,
            subject_relation
        )
        .fetch_optional(&mut *tx)
        .await?;
        if let Some(kept) = source.as_deref().and_then(|source| kept(source, tuple)) {
            tx.rollback().await?;
            return refused(kept);
        }
        source.is_some()
    };
    if !is_changed {
        return Ok(false);
    }
    let action = if add { "tuples.added" } else { "tuples.removed" };
    let payload = json!({ "tuple": values });
    audit(&mut tx, operator, action, &format!("{object_type}:{object_id}"), &payload).await?;
    tx.commit().await?;
    Ok(true)
}

/// Whether org derives tuples of this kind from its rows.
fn is_derived(ask: &Ask, subject: &SubjectRef) -> bool {
    let kind = (ask.object.kind.as_str(), ask.relation.as_str());
    let is_users = subject.kind == "user" && subject.relation.is_empty();
    is_users && [("company", "member"), ("position", "holder"), ("group", "member")].contains(&kind)
}

/// Why an operator must not remove a tuple of this source: its service would not notice and would restore it only at
/// its next start.
fn kept(source: &str, tuple: &TupleText) -> Option<String> {
    match source {
        "org" => Some(kept_by_org(tuple)),
        "default" if tuple.ask.relation == ANCHOR_RELATION => {
            let object = &tuple.ask.object;
            Some(format!(
                "registry keeps the tuple that makes {}:{} its company's module",
                object.kind, object.id
            ))
        }
        _ => None,
    }
}

fn kept_by_org(TupleText { ask: Ask { object, relation }, subject }: &TupleText) -> String {
    format!(
        "org keeps {}:{}#{relation}@{}:{} from its members, positions and groups: change those, and the tuple follows",
        object.kind, object.id, subject.kind, subject.id
    )
}

/// Makes every reader of the change log reload all tuples: empties the log and restarts it as this database's own. Also
/// restores the triggers that write the log if a restore left them out.
///
/// # Errors
/// The database cannot answer.
pub async fn rebuild(connection: &mut PgConnection, operator: &str) -> Result<(), OperateError> {
    let mut tx = connection.begin().await?;
    // Locks the table before the log, as every writer of tuples does.
    if !sqlx::query_scalar!(r#"SELECT feed.is_wired() AS "wired!""#).fetch_one(&mut *tx).await? {
        sqlx::query!("SELECT feed.wire()").execute(&mut *tx).await?;
    }
    let epoch = sqlx::query_scalar!(r#"SELECT feed.begin_anew() AS "epoch!""#).fetch_one(&mut *tx).await?;
    audit(&mut tx, operator, "feed.rebuilt", "feed:epoch", &json!({ "epoch": epoch })).await?;
    Ok(tx.commit().await?)
}

/// Restarts the change log if another database wrote it, as after a restore; returns whether it did. Every run of the
/// migrations calls this.
///
/// # Errors
/// The database cannot answer.
pub async fn keep_own_log(connection: &mut PgConnection) -> Result<bool, OperateError> {
    let renewed = sqlx::query_scalar!(r#"SELECT feed.keep_own(true) AS "renewed!""#);
    let renewed = renewed.fetch_one(connection).await?;
    if renewed {
        tracing::warn!("another database wrote the change log, as after a restore; the log was reset");
    }
    Ok(renewed)
}

async fn audit(
    connection: &mut PgConnection,
    operator: &str,
    action: &str,
    subject: &str,
    payload: &Value,
) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO audit.authz__events(actor, action, subject, payload) VALUES ($1, $2, $3, $4)",
        format!("operator:{operator}"),
        action,
        subject,
        payload
    )
    .execute(connection)
    .await?;
    Ok(())
}
