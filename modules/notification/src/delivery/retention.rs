//! Removes settled jobs and their attempts when their time is over; messages are kept.

use sqlx::PgPool;

/// Jobs removed by one statement: few row locks at a time.
const BATCH: i64 = 1_000;
/// How long jobs are kept, by state.
const KEPT_DAYS: [(&str, i32); 2] = [("done", 30), ("dead", 90)];

/// Removes what is over; tells how many.
pub(super) async fn sweep(pool: &PgPool) -> sqlx::Result<u64> {
    let mut removed = 0;
    for (state, days) in KEPT_DAYS {
        loop {
            let batch = sqlx::query!(
                "DELETE FROM notification.delivery_jobs WHERE id = ANY(ARRAY(
                   SELECT id FROM notification.delivery_jobs
                   WHERE state = $1 AND state <> 'pending' AND settled_at < now() - make_interval(days => $2)
                   ORDER BY settled_at LIMIT $3 FOR UPDATE SKIP LOCKED))",
                state,
                days,
                BATCH
            )
            .execute(pool)
            .await?
            .rows_affected();
            removed += batch;
            if i64::try_from(batch).is_ok_and(|batch| batch < BATCH) {
                break;
            }
        }
    }
    Ok(removed)
}
