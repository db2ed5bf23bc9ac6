//! The table `tasks.tasks`. A `pending` task is not visible yet; a task being deleted stays visible until authz has
//! revoked its tuples.

use contract::Subject;
use contract::decision::ObjectRef;
use contract::grants::Tuple;
use contract::id::CompanyId;
use serde_json::{Map, Value};
use service::page::{self, Cursor, Slice};
use service::two_store::{NewRow, TupleRow};
use service::{ApiError, AuditEvent, AuditedTx, CompanyTx, ObjectPermit, Permit, changes};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{Content, Status, Task, TaskId};
use crate::KEY;
use crate::operations::TASK;

struct Row {
    id: Uuid,
    title: String,
    notes: String,
    status: String,
    owner_sub: String,
    created_at: OffsetDateTime,
}

impl Row {
    fn task(self, company: CompanyId) -> Result<Task, ApiError> {
        let owner = Subject::parse(&self.owner_sub).ok_or_else(|| ApiError::internal("no subject"))?;
        let status = Status::of_word(&self.status)?;
        Ok(Task {
            id: self.id.into(),
            company_id: company,
            owner,
            created_at: self.created_at.into(),
            content: Content { title: self.title, notes: self.notes, status },
        })
    }
}

/// One slice of the company's tasks, newest first; only those of `owner`, if given.
pub(super) async fn list(
    pool: &PgPool,
    permit: &Permit,
    owner: Option<&Subject>,
    cursor: &Cursor<Uuid>,
) -> Result<Slice<Task>, ApiError> {
    let rows = sqlx::query_as!(
        Row,
        "SELECT id, title, notes, status, owner_sub, created_at FROM tasks.tasks
         WHERE company_id = $1 AND state <> 'pending' AND ($2::text IS NULL OR owner_sub = $2)
           AND ($3::uuid IS NULL OR id < $3)
         ORDER BY id DESC LIMIT $4",
        permit.company.as_uuid(),
        owner.map(Subject::as_str),
        cursor.after,
        cursor.limit()
    )
    .fetch_all(pool)
    .await?;
    page::slice(cursor, rows, |row| row.id, |row| row.task(permit.company))
}

/// The permitted task.
pub(super) async fn find(pool: &PgPool, permit: &ObjectPermit) -> Result<Option<Task>, ApiError> {
    let (company, id) = (permit.company, permit.path.id::<TaskId>("taskId")?);
    let row = sqlx::query_as!(
        Row,
        "SELECT id, title, notes, status, owner_sub, created_at FROM tasks.tasks
         WHERE company_id = $1 AND id = $2 AND state <> 'pending'",
        company.as_uuid(),
        id.as_uuid()
    );
    row.fetch_optional(pool).await?.map(|row| row.task(company)).transpose()
}

/// Locks a task of the company until the transaction ends.
pub(super) async fn lock(tx: &mut CompanyTx, id: TaskId) -> Result<Option<Task>, ApiError> {
    let company = tx.company();
    let row = sqlx::query_as!(
        Row,
        "SELECT id, title, notes, status, owner_sub, created_at FROM tasks.tasks
         WHERE company_id = $1 AND id = $2 AND state <> 'pending' FOR UPDATE",
        company.as_uuid(),
        id.as_uuid()
    );
    row.fetch_optional(tx.conn()).await?.map(|row| row.task(company)).transpose()
}

/// Writes the content of a task that is locked by [`lock`].
pub(super) async fn save(tx: &mut CompanyTx, task: &Task) -> Result<(), ApiError> {
    sqlx::query!(
        "UPDATE tasks.tasks SET title = $3, notes = $4, status = $5 WHERE company_id = $1 AND id = $2",
        tx.company().as_uuid(),
        task.id.as_uuid(),
        task.content.title,
        task.content.notes,
        task.content.status.word()
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// A task to create.
pub(super) struct NewTask {
    pub(super) company: CompanyId,
    pub(super) owner: Subject,
    pub(super) content: Content,
}

impl NewRow for NewTask {
    type Row = Task;

    async fn insert(&self, tx: &mut AuditedTx) -> Result<Uuid, ApiError> {
        let id = TaskId::mint().as_uuid();
        sqlx::query!(
            "INSERT INTO tasks.tasks(id, company_id, owner_sub, title, notes, status) VALUES ($1, $2, $3, $4, $5, $6)",
            id,
            self.company.as_uuid(),
            self.owner.as_str(),
            self.content.title,
            self.content.notes,
            self.content.status.word()
        )
        .execute(tx.conn())
        .await?;
        Ok(id)
    }
}

impl TupleRow for Task {
    const TABLE: &'static str = "tasks.tasks";
    const NOUN: &'static str = "task";
    type Shown = Self;

    async fn find(conn: &mut PgConnection, company: CompanyId, id: Uuid) -> Result<Option<Self>, ApiError> {
        let row = sqlx::query_as!(
            Row,
            "SELECT id, title, notes, status, owner_sub, created_at FROM tasks.tasks
             WHERE company_id = $1 AND id = $2",
            company.as_uuid(),
            id
        );
        row.fetch_optional(conn).await?.map(|row| row.task(company)).transpose()
    }

    fn tuples(&self) -> Vec<Tuple> {
        let task = || ObjectRef { kind: TASK.to_owned(), id: self.id.to_string() };
        vec![Tuple::anchor(task(), self.company_id, KEY), Tuple::user(task(), "owner", &self.owner)]
    }

    fn shown(&self) -> Self {
        self.clone()
    }

    async fn granted(&self, _tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        Ok(self.event("task.created", changes(None, &self.content)?))
    }

    async fn revoked(&self, _tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        Ok(self.event("task.deleted", Map::new()))
    }
}

impl Task {
    fn event(&self, action: &'static str, payload: Map<String, Value>) -> AuditEvent {
        AuditEvent {
            company: Some(self.company_id),
            action,
            subject: self.subject(),
            payload: payload.into(),
        }
    }
}
