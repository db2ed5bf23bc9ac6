//! Loads the whole table at one moment: the transaction that copies every tuple first reads its snapshot, so that the
//! change log continues exactly where the copy ends. A log that another database wrote (a restore) is reset first.

use futures_util::TryStreamExt;
use service::config::DatabaseConfig;
use sqlx::postgres::PgConnection;
use sqlx::{ConnectOptions, Connection};
use uuid::Uuid;

use crate::engine::graph::words::Full;
use crate::engine::graph::{Graph, GraphBuilder, TupleRow};

/// Copying the largest supported table takes far less; the limit ends a copy that hangs.
const SETTINGS: [(&str, &str); 1] = [("statement_timeout", "10min")];
const COPY: &str = "COPY (SELECT object_type, object_id, relation, subject_type, subject_id, subject_relation FROM \
                    authz.tuple) TO STDOUT (FORMAT binary)";

/// The identity of a change log. Restored, truncated and failed-over databases have another epoch. A restarted server
/// may run on restored files, and a copy may have replaced a database; both keep the epoch. While a trigger of the
/// tuples was disabled, they changed without the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) epoch: Uuid,
    /// Start time of the server, as bits; only compared.
    pub(crate) started: u64,
    database: i64,
    /// The transactions that last changed the triggers of the tuples, ordered by trigger name. Only compared, with what
    /// `read_index.sql` and `read_one.sql` read.
    pub(crate) wiring: String,
}

/// All tuples, and where the change log continues.
pub(crate) struct Loaded {
    pub(crate) graph: Graph,
    pub(crate) snapshot: String,
    pub(crate) origin: Origin,
}

/// Why loading failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error(transparent)]
    Full(#[from] Full),
    #[error("the copy of the tuples cannot be read")]
    Garbled,
    #[error(
        "the change log is not this database's own: a restore is not over, or `platform authz rebuild` is needed"
    )]
    Foreign,
    #[error(
        "the tuples do not write the change log: a restore is not over, or `platform authz rebuild` is needed"
    )]
    Unwired,
}

/// Loads the table. Resets the change log first if another database wrote it.
pub(crate) async fn load(database: &DatabaseConfig) -> Result<Loaded, LoadError> {
    let mut connection = service::db::options(database, &SETTINGS).connect().await?;
    let renewed = sqlx::query_scalar!(r#"SELECT feed.keep_own(false) AS "renewed!""#);
    if renewed.fetch_one(&mut connection).await? {
        tracing::warn!("another database wrote the change log, as after a restore; the log was reset");
    }
    begin(&mut connection).await?;
    let snapshot = sqlx::query_scalar!(r#"SELECT pg_current_snapshot()::text AS "snapshot!""#)
        .fetch_one(&mut connection)
        .await?;
    let origin = origin(&mut connection).await?.ok_or(LoadError::Foreign)?;
    let wired = sqlx::query_scalar!(r#"SELECT feed.is_wired() AS "wired!""#);
    if !wired.fetch_one(&mut connection).await? {
        return Err(LoadError::Unwired);
    }
    let graph = copy(connection).await?;
    Ok(Loaded { graph, snapshot, origin })
}

/// Loads the tuples alone, then closes the connection.
pub(crate) async fn load_over(mut connection: PgConnection) -> Result<Graph, LoadError> {
    begin(&mut connection).await?;
    copy(connection).await
}

/// Begins a read-only transaction whose statements all see one moment.
pub(crate) async fn begin(connection: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::raw_sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").execute(connection).await.map(drop)
}

async fn copy(mut connection: PgConnection) -> Result<Graph, LoadError> {
    let mut builder = GraphBuilder::default();
    let mut rows = Rows::default();
    let mut copy = connection.copy_out_raw(COPY).await?;
    while let Some(chunk) = copy.try_next().await? {
        rows.feed(&chunk, &mut builder)?;
    }
    drop(copy);
    if !rows.ended {
        return Err(LoadError::Garbled);
    }
    sqlx::raw_sql("COMMIT").execute(&mut connection).await?;
    connection.close().await?;
    Ok(tokio::task::spawn_blocking(|| builder.finish()).await.map_err(|_| LoadError::Garbled)??)
}

/// The origin of a connection's database; `None` when another database wrote its change log.
pub(crate) async fn origin(connection: &mut PgConnection) -> sqlx::Result<Option<Origin>> {
    let row = sqlx::query!(
        r#"SELECT feed.own_epoch() AS epoch, date_part('epoch', pg_postmaster_start_time()) AS "started!",
             oid::int8 AS "database!",
             ARRAY(SELECT t.xmin FROM pg_trigger t WHERE t.tgrelid = 'authz.tuple'::regclass ORDER BY t.tgname)::text AS "wiring!"
           FROM pg_database WHERE datname = current_database()"#
    )
    .fetch_one(connection)
    .await?;
    Ok(row.epoch.map(|epoch| Origin {
        epoch,
        started: row.started.to_bits(),
        database: row.database,
        wiring: row.wiring,
    }))
}

/// A reader of the binary copy format: a header, then rows of length-prefixed columns, then -1.
#[derive(Default)]
struct Rows {
    rest: Vec<u8>,
    head_is_read: bool,
    ended: bool,
}

impl Rows {
    fn feed(&mut self, chunk: &[u8], builder: &mut GraphBuilder) -> Result<(), LoadError> {
        if self.rest.is_empty() {
            let used = self.read(chunk, builder)?;
            self.rest.extend_from_slice(chunk.get(used..).unwrap_or_default());
        } else {
            let mut all = std::mem::take(&mut self.rest);
            all.extend_from_slice(chunk);
            let used = self.read(&all, builder)?;
            self.rest.extend_from_slice(all.get(used..).unwrap_or_default());
        }
        Ok(())
    }

    /// Reads complete rows; returns the number of bytes consumed.
    fn read(&mut self, bytes: &[u8], builder: &mut GraphBuilder) -> Result<usize, LoadError> {
        const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
        let mut left = bytes;
        if !self.head_is_read {
            let mut after = left;
            let (Some(signature), Some(_flags), Some(extension)) =
                (take(&mut after, SIGNATURE.len()), take(&mut after, 4), length(&mut after))
            else {
                return Ok(0);
            };
            let extension = usize::try_from(extension).map_err(|_| LoadError::Garbled)?;
            if signature != SIGNATURE || take(&mut after, extension).is_none() {
                return Err(LoadError::Garbled);
            }
            (left, self.head_is_read) = (after, true);
        }
        while !self.ended {
            let mut after = left;
            match row(&mut after) {
                Some(Ok(columns)) => builder.push(&columns)?,
                Some(Err(End)) => self.ended = true,
                None => break,
            }
            left = after;
        }
        Ok(bytes.len() - left.len())
    }
}

/// The trailer after the last row.
struct End;

/// `None` when the row is incomplete or malformed; a malformed row shows in the end as a missing trailer.
fn row<'a>(bytes: &mut &'a [u8]) -> Option<Result<TupleRow<'a>, End>> {
    match take(bytes, 2)? {
        [0xff, 0xff] => return Some(Err(End)),
        [0, 6] => {}
        _ => return None,
    }
    let mut text = || {
        let length = usize::try_from(length(bytes)?).ok()?;
        std::str::from_utf8(take(bytes, length)?).ok()
    };
    Some(Ok(TupleRow {
        object_type: text()?,
        object_id: text()?,
        relation: text()?,
        subject_type: text()?,
        subject_id: text()?,
        subject_relation: text()?,
    }))
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = bytes.split_at_checked(count)?;
    *bytes = left;
    Some(taken)
}

fn length(bytes: &mut &[u8]) -> Option<i32> {
    let (taken, left) = bytes.split_first_chunk::<4>()?;
    *bytes = left;
    Some(i32::from_be_bytes(*taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_may_be_cut_anywhere() {
        let mut copy = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
        for id in ["1", "", "drei"] {
            copy.extend([0, 6]);
            for text in ["doc", id, "viewer", "user", "ann", ""] {
                copy.extend(i32::try_from(text.len()).expect("short").to_be_bytes());
                copy.extend(text.as_bytes());
            }
        }
        copy.extend([0xff, 0xff]);
        for cut in 0..copy.len() {
            let (mut rows, mut builder) = (Rows::default(), GraphBuilder::default());
            rows.feed(&copy[..cut], &mut builder).expect("well-formed");
            assert!(!rows.ended, "{cut}");
            rows.feed(&copy[cut..], &mut builder).expect("well-formed");
            let graph = builder.finish().expect("room");
            assert!(rows.ended && graph.tuples() == 3 && graph.node("doc", "drei").is_some(), "{cut}");
        }
    }
}
