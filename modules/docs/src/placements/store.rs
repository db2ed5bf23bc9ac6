//! `docs.placements` and what is derived from it: `documents.folder_id`, `folders.parent_id` and the ancestors of
//! folders, which are the index of what a share of a folder opens.

use contract::id::CompanyId;
use service::{ApiError, AuditedTx};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use super::row::Placement;
use super::rules::{Child, MAX_MOVED, Site, unknown_folder};
use crate::documents::rules::DocumentId;
use crate::folders::rules::FolderId;

/// Deepest walk, in levels: a tree is at most 8 deep, and unfinished moves may add as much.
const MAX_WALK: i32 = 32;

struct Row {
    id: Uuid,
    company_id: Uuid,
    document_id: Option<Uuid>,
    folder_id: Option<Uuid>,
    parent_id: Uuid,
    next_parent_id: Option<Uuid>,
    state: String,
    moved_by: Option<String>,
    moved_as_manager: bool,
}

impl Row {
    fn placement(self) -> Result<Placement, ApiError> {
        let child = match (self.document_id, self.folder_id) {
            (Some(id), _) => Some(Child::Document(DocumentId::from(id))),
            (None, id) => id.map(|id| Child::Folder(FolderId::from(id))),
        };
        Ok(Placement {
            id: self.id,
            company: self.company_id.into(),
            child: child.ok_or_else(|| ApiError::internal("a placement without a child"))?,
            parent: self.parent_id.into(),
            next: self.next_parent_id.map(FolderId::from),
            state: self.state,
            moved_by: self.moved_by,
            moved_as_manager: self.moved_as_manager,
        })
    }
}

/// Selects placements in any state; the tail is the `WHERE` clause.
macro_rules! rows {
    ($tail:literal, $($value:expr),*) => {
        sqlx::query_as!(
            Row,
            "SELECT id, company_id, document_id, folder_id, parent_id, next_parent_id, state, moved_by, moved_as_manager
             FROM docs.placements "
                + $tail,
            $($value),*
        )
    };
}

/// Finds a placement in any state.
pub(super) async fn find(
    executor: impl PgExecutor<'_>,
    company: CompanyId,
    id: Uuid,
) -> Result<Option<Placement>, ApiError> {
    let row = rows!("WHERE company_id = $1 AND id = $2", company.as_uuid(), id);
    row.fetch_optional(executor).await?.map(Row::placement).transpose()
}

/// Finds the placement of a child in any state.
pub(crate) async fn of_child(
    executor: impl PgExecutor<'_>,
    company: CompanyId,
    child: Child,
) -> Result<Option<Placement>, ApiError> {
    let row = rows!(
        "WHERE company_id = $1 AND (document_id = $2 OR folder_id = $3)",
        company.as_uuid(),
        child.document().map(DocumentId::as_uuid),
        child.folder().map(FolderId::as_uuid)
    );
    row.fetch_optional(executor).await?.map(Row::placement).transpose()
}

/// The folders that a document or folder lies in or may lie in, nearest first: an unfinished move counts both as made and as
/// not made.
pub(crate) async fn around(
    executor: impl PgExecutor<'_>,
    company: CompanyId,
    child: Child,
) -> Result<Vec<FolderId>, ApiError> {
    let found = sqlx::query_scalar!(
        r#"WITH RECURSIVE around AS (
             SELECT e.id, 1 AS depth FROM (
               SELECT folder_id AS id FROM docs.documents WHERE company_id = $1 AND id = $2
               UNION ALL SELECT parent_id FROM docs.folders WHERE company_id = $1 AND id = $3
               UNION ALL SELECT unnest(ARRAY[parent_id, next_parent_id]) FROM docs.placements
                 WHERE company_id = $1 AND document_id = $2 AND state <> 'active' AND (state <> 'pending' OR attempts > 0)
               UNION ALL SELECT unnest(ARRAY[parent_id, next_parent_id]) FROM docs.placements
                 WHERE company_id = $1 AND folder_id = $3 AND state <> 'active' AND (state <> 'pending' OR attempts > 0)) e
             WHERE e.id IS NOT NULL
             UNION SELECT e.id, a.depth + 1 FROM around a CROSS JOIN LATERAL (
               SELECT parent_id AS id FROM docs.folders WHERE company_id = $1 AND id = a.id
               UNION ALL SELECT unnest(ARRAY[parent_id, next_parent_id]) FROM docs.placements
                 WHERE company_id = $1 AND folder_id = a.id AND state <> 'active' AND (state <> 'pending' OR attempts > 0)) e
             WHERE a.depth < $4 AND e.id IS NOT NULL)
           SELECT id AS "id!" FROM around GROUP BY id ORDER BY min(depth), id"#,
        company.as_uuid(),
        child.document().map(DocumentId::as_uuid),
        child.folder().map(FolderId::as_uuid),
        MAX_WALK
    );
    Ok(found.fetch_all(executor).await?.into_iter().map(FolderId::from).collect())
}

/// Ids of the placements in a folder, or on the way to it, whose change broke off 10 seconds ago or earlier.
pub(crate) async fn broken_off_in(
    executor: impl PgExecutor<'_>,
    company: CompanyId,
    folder: FolderId,
) -> Result<Vec<Uuid>, ApiError> {
    let found = sqlx::query_scalar!(
        "SELECT id FROM docs.placements
         WHERE company_id = $1 AND (state = 'revoking' OR state = 'exchanging')
           AND attempted_at < now() - interval '10 seconds' AND (parent_id = $2 OR next_parent_id = $2)
         ORDER BY id LIMIT 100",
        company.as_uuid(),
        folder.as_uuid()
    );
    Ok(found.fetch_all(executor).await?)
}

/// Adds a placement in its given state.
pub(crate) async fn insert(conn: &mut PgConnection, placement: &Placement) -> Result<(), ApiError> {
    sqlx::query!(
        "INSERT INTO docs.placements(id, company_id, document_id, folder_id, parent_id, state, moved_as_manager)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        placement.id,
        placement.company.as_uuid(),
        placement.child.document().map(DocumentId::as_uuid),
        placement.child.folder().map(FolderId::as_uuid),
        placement.parent.as_uuid(),
        placement.state,
        placement.moved_as_manager
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Adds the placement of a document that was created in a folder.
pub(crate) async fn add_active(
    conn: &mut PgConnection,
    company: CompanyId,
    document: DocumentId,
    folder: FolderId,
) -> Result<(), ApiError> {
    insert(conn, &Placement::active(company, Child::Document(document), folder)).await
}

/// Writes the folder that a child is moving to, if any, and who moves it.
pub(super) async fn set_moved(
    tx: &mut AuditedTx,
    placement: &Placement,
    next: Option<FolderId>,
    as_manager: bool,
) -> Result<(), ApiError> {
    let actor = tx.actor().to_owned();
    sqlx::query!(
        "UPDATE docs.placements SET next_parent_id = $3, moved_by = $4, moved_as_manager = $5
         WHERE company_id = $1 AND id = $2",
        placement.company.as_uuid(),
        placement.id,
        next.map(FolderId::as_uuid),
        actor,
        as_manager
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Writes the folder that a child is in after a move.
pub(super) async fn set_parent(
    conn: &mut PgConnection,
    placement: &Placement,
    parent: FolderId,
) -> Result<(), ApiError> {
    sqlx::query!(
        "UPDATE docs.placements SET parent_id = $3, next_parent_id = NULL, moved_by = NULL, moved_as_manager = false
         WHERE company_id = $1 AND id = $2",
        placement.company.as_uuid(),
        placement.id,
        parent.as_uuid()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Updates documents, folders and ancestors to match a placement.
pub(super) async fn follow(
    conn: &mut PgConnection,
    company: CompanyId,
    child: Child,
    parent: Option<FolderId>,
) -> Result<(), ApiError> {
    let parent = parent.map(FolderId::as_uuid);
    match child {
        Child::Document(id) => {
            sqlx::query!(
                "UPDATE docs.documents SET folder_id = $3 WHERE company_id = $1 AND id = $2",
                company.as_uuid(),
                id.as_uuid(),
                parent
            )
            .execute(conn)
            .await?;
        }
        Child::Folder(id) => {
            lock_folders(conn, company).await?;
            sqlx::query!(
                "UPDATE docs.folders SET parent_id = $3, updated_at = now() WHERE company_id = $1 AND id = $2",
                company.as_uuid(),
                id.as_uuid(),
                parent
            )
            .execute(&mut *conn)
            .await?;
            index(conn, company, id).await?;
        }
    }
    Ok(())
}

/// Serializes changes to the folder tree of a company until the transaction ends.
pub(crate) async fn lock_folders(conn: &mut PgConnection, company: CompanyId) -> Result<(), ApiError> {
    sqlx::query!(
        r#"SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 0)) AS "locked!: ()""#,
        format!("docs.folders:{company}")
    )
    .fetch_one(conn)
    .await?;
    Ok(())
}

/// Rewrites the ancestors of a folder and of all folders in it. The caller holds [`lock_folders`].
pub(crate) async fn index(
    conn: &mut PgConnection,
    company: CompanyId,
    folder: FolderId,
) -> Result<(), ApiError> {
    sqlx::query!(
        r#"WITH RECURSIVE within AS (
             SELECT id, 0 AS below FROM docs.folders WHERE company_id = $1 AND id = $2
             UNION ALL SELECT f.id, w.below + 1 FROM docs.folders f JOIN within w ON f.parent_id = w.id
             WHERE f.company_id = $1 AND w.below < 8),
           around AS (
             SELECT f.id AS folder_id, f.id AS ancestor_id, f.parent_id AS next_id, 0 AS distance
             FROM docs.folders f JOIN within w ON w.id = f.id
             UNION ALL SELECT a.folder_id, f.id, f.parent_id, a.distance + 1
             FROM around a JOIN docs.folders f ON f.id = a.next_id WHERE a.distance < 7),
           gone AS (
             DELETE FROM docs.folder_ancestors o USING within w WHERE o.folder_id = w.id
               AND NOT EXISTS (SELECT FROM around a WHERE a.folder_id = o.folder_id AND a.ancestor_id = o.ancestor_id))
           INSERT INTO docs.folder_ancestors AS o(company_id, folder_id, ancestor_id, distance)
           SELECT $1, folder_id, ancestor_id, distance FROM around
           ON CONFLICT (folder_id, ancestor_id) DO UPDATE SET distance = excluded.distance
             WHERE o.distance <> excluded.distance"#,
        company.as_uuid(),
        folder.as_uuid()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Keeps a folder from being deleted until the transaction ends. Waits for a deletion that has begun: `FOR KEY SHARE`
/// would not, because only the state changes.
///
/// # Errors
/// 422 `FOLDER_UNKNOWN` for a folder that does not exist or is being deleted.
pub(crate) async fn lock_parent(
    conn: &mut PgConnection,
    company: CompanyId,
    folder: FolderId,
) -> Result<(), ApiError> {
    let found = sqlx::query_scalar!(
        "SELECT id FROM docs.folders WHERE company_id = $1 AND id = $2 AND state = 'active' FOR SHARE",
        company.as_uuid(),
        folder.as_uuid()
    );
    found.fetch_optional(conn).await?.map(drop).ok_or_else(unknown_folder)
}

/// Computes the [`Site`] of a move, counting each unfinished move both as made and as not made. The caller holds
/// [`lock_folders`]. `moved` is the moved folder, if it exists already.
pub(crate) async fn site(
    conn: &mut PgConnection,
    company: CompanyId,
    to: FolderId,
    moved: Option<FolderId>,
) -> Result<Site, ApiError> {
    let around = sqlx::query!(
        r#"WITH RECURSIVE around AS (
             SELECT $2::uuid AS id, 1 AS depth
             UNION SELECT e.parent, a.depth + 1 FROM around a CROSS JOIN LATERAL (
               SELECT parent_id AS parent FROM docs.folders
                 WHERE company_id = $1 AND id = a.id AND parent_id IS NOT NULL
               UNION ALL SELECT parent_id FROM docs.placements
                 WHERE company_id = $1 AND folder_id = a.id AND state <> 'active'
               UNION ALL SELECT next_parent_id FROM docs.placements
                 WHERE company_id = $1 AND folder_id = a.id AND next_parent_id IS NOT NULL) e
             WHERE a.depth < $4)
           SELECT max(depth) AS "depth!", bool_or(id = $3::uuid) AS is_within FROM around"#,
        company.as_uuid(),
        to.as_uuid(),
        moved.map(FolderId::as_uuid),
        MAX_WALK
    )
    .fetch_one(&mut *conn)
    .await?;
    let (height, folders) = match moved {
        Some(moved) => extent(conn, company, moved).await?,
        None => (0, 0),
    };
    Ok(Site { depth: around.depth, height, folders, is_within: around.is_within.unwrap_or_default() })
}

/// The number of levels of a folder and the number of folders in it, both including itself. Counting stops one past
/// [`MAX_MOVED`] folders.
pub(super) async fn extent(
    conn: &mut PgConnection,
    company: CompanyId,
    folder: FolderId,
) -> Result<(i32, i64), ApiError> {
    let found = sqlx::query!(
        r#"WITH RECURSIVE within AS (
             SELECT $2::uuid AS id, 1 AS level
             UNION SELECT e.child, w.level + 1 FROM within w CROSS JOIN LATERAL (
               SELECT id AS child FROM docs.folders WHERE company_id = $1 AND parent_id = w.id
               UNION ALL SELECT folder_id FROM docs.placements
                 WHERE company_id = $1 AND parent_id = w.id AND folder_id IS NOT NULL AND state <> 'active'
               UNION ALL SELECT folder_id FROM docs.placements
                 WHERE company_id = $1 AND next_parent_id = w.id AND folder_id IS NOT NULL) e
             WHERE w.level < $3)
           SELECT max(level) AS "height!", count(*) AS "folders!" FROM (SELECT level FROM within LIMIT $4) w"#,
        company.as_uuid(),
        folder.as_uuid(),
        MAX_WALK,
        MAX_MOVED + 1
    )
    .fetch_one(conn)
    .await?;
    Ok((found.height, found.folders))
}
