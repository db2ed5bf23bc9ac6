//! Which jobs are ready to be claimed.

use super::*;

#[tokio::test]
async fn a_claim_examines_no_key_whose_jobs_are_not_due() {
    let world = World::make().await;
    let (pool, last) = (&world.doing.pool, Uuid::max());
    for key in 0..300 {
        add(&world.owner, Uuid::from_u128(key), "done", "1 hour").await;
    }
    for _ in 0..40 {
        add(&world.owner, last, "done", "0 s").await;
    }
    let two_keys = Ask { look: 2, ..ask(16, 4) };
    assert!(!make_ready(pool).await, "nothing else is due");
    let claimed = claim(pool, &two_keys).await;
    let keys: Vec<_> = claimed.jobs.iter().map(|job| job.lease.key).collect();
    assert_eq!((keys, claimed.is_partial), (vec![last; 4], false), "it examined one key");
    let due = "UPDATE org.jobs SET next_attempt_at = now() WHERE lease_token IS NULL";
    sqlx::query(due).execute(&world.owner).await.expect("all are due");
    make_ready(pool).await;
    let claimed = claim(pool, &two_keys).await;
    let keys: Vec<_> = claimed.jobs.iter().map(|job| job.lease.key).collect();
    assert_eq!((keys, claimed.is_partial), (vec![Uuid::from_u128(0), Uuid::from_u128(1)], true), "control");
    world.service.end().await;
}

#[tokio::test]
async fn keys_whose_jobs_are_not_due_do_not_delay_a_key_with_many_that_are() {
    let world = World::make().await;
    for key in 0..300 {
        add(&world.owner, Uuid::from_u128(key), "done", "1 hour").await;
    }
    let mut due = Vec::new();
    for _ in 0..40 {
        due.push(add(&world.owner, Uuid::max(), "done", "0 s").await);
    }
    world
        .service
        .core
        .workers
        .queue(QueueConfig { poll: NEVER, ..config(16, 4, LEASE) }, world.doing.clone());
    for id in due {
        until(&world.owner, id, "done 1").await;
    }
    world.service.end().await;
}

#[tokio::test]
async fn a_full_portion_of_due_jobs_is_followed_by_the_next() {
    let world = World::make().await;
    let sql = "INSERT INTO org.jobs(id, tenant, what, next_attempt_at) \
               SELECT gen_random_uuid(), gen_random_uuid(), 'done', now() - n * interval '1 s' FROM generate_series(0, 1000) n";
    sqlx::query(sql).execute(&world.owner).await.expect("1,001 due jobs");
    assert!(make_ready(&world.doing.pool).await, "a full portion");
    let left = "SELECT array_agg(next_attempt_at = (SELECT max(next_attempt_at) FROM org.jobs)) FROM org.jobs WHERE NOT is_ready";
    let left: Vec<bool> = sqlx::query_scalar(left).fetch_one(&world.owner).await.expect("the rest");
    assert_eq!(left, [true], "the one that is due last");
    let again = "UPDATE org.jobs SET is_ready = false";
    sqlx::query(again).execute(&world.owner).await.expect("as before");
    // Without another poll: the portions follow each other.
    world.service.core.workers.queue(QueueConfig { poll: NEVER, ..config(4, 4, LEASE) }, world.doing.clone());
    let all_ready = async {
        let mut pace = tokio::time::interval(Duration::from_millis(5));
        let left = "SELECT count(*) FROM org.jobs WHERE NOT is_ready AND attempt_count = 0";
        while sqlx::query_scalar::<_, i64>(left).fetch_one(&world.owner).await.expect("a count") > 0 {
            pace.tick().await;
        }
    };
    soon(all_ready).await;
    world.service.end().await;
}

#[tokio::test]
async fn a_due_job_becomes_ready_within_a_poll_however_often_the_queue_is_woken() {
    let world = World::make().await;
    let id = add(&world.owner, Uuid::from_u128(1), "third", "0 s").await;
    let poll = Duration::from_millis(200);
    let wake =
        world.service.core.workers.queue(QueueConfig { poll, ..config(4, 4, LEASE) }, world.doing.clone());
    let woken = async {
        let mut pace = tokio::time::interval(Duration::from_millis(5));
        loop {
            pace.tick().await;
            wake.wake();
        }
    };
    tokio::select! {
        () = woken => {}
        () = until(&world.owner, id, "done 3") => {}
    }
    world.service.end().await;
}

#[tokio::test]
async fn a_job_whose_lease_has_expired_is_claimed_again() {
    let world = World::make().await;
    let (expired, leased) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let mut jobs = BTreeMap::new();
    for key in [expired, leased] {
        jobs.insert(key, add(&world.owner, key, "done", "0 s").await);
    }
    assert_eq!(claim(&world.doing.pool, &ask(4, 4)).await.jobs.len(), 2);
    let run_out = "UPDATE org.jobs SET leased_until = now() - interval '1 s' WHERE tenant = $1";
    sqlx::query(run_out).bind(expired).execute(&world.owner).await.expect("the lease runs out");
    world.service.core.workers.queue(config(4, 4, LEASE), world.doing.clone());
    until(&world.owner, jobs[&expired], "done 2").await;
    assert_eq!(state(&world.owner, jobs[&leased]).await, "pending 1", "the other one has its lease");
    world.service.end().await;
}

#[tokio::test]
async fn jobs_that_the_previous_release_writes_are_found_and_not_taken_early() {
    let world = World::make().await;
    let (pool, owner) = (&world.doing.pool, &world.owner);
    let without = "ALTER TABLE org.jobs DROP CONSTRAINT jobs_are_ready";
    sqlx::query(without).execute(owner).await.expect("as a table that the previous release writes");
    // It claims and settles ready jobs without resetting `is_ready`.
    let leased = add(owner, Uuid::from_u128(1), "done", "0 s").await;
    let put_off = add(owner, Uuid::from_u128(2), "done", "0 s").await;
    let settled = add(owner, Uuid::from_u128(3), "done", "0 s").await;
    for (id, statement) in [
        (leased, "lease_token = gen_random_uuid(), leased_until = now() + interval '1 hour'"),
        (put_off, "next_attempt_at = now() + interval '1 hour'"),
        (settled, "state = 'done', settled_at = now()"),
    ] {
        let sql = format!("UPDATE org.jobs SET {statement} WHERE id = $1");
        sqlx::query(AssertSqlSafe(sql)).bind(id).execute(owner).await.expect("an old statement");
    }
    make_ready(pool).await;
    assert!(claim(pool, &ask(4, 4)).await.jobs.is_empty());
    // It adds jobs without `is_ready`.
    let id = Uuid::from_u128(4);
    let old = "INSERT INTO org.jobs(id, tenant, what) VALUES ($1, $1, 'done')";
    sqlx::query(old).bind(id).execute(owner).await.expect("an old statement");
    world.service.core.workers.queue(config(4, 4, LEASE), world.doing.clone());
    until(owner, id, "done 1").await;
    let over =
        "UPDATE org.jobs SET next_attempt_at = now(), leased_until = leased_until - interval '2 hours'";
    sqlx::query(over).execute(owner).await.expect("their time comes");
    for id in [leased, put_off] {
        until(owner, id, "done 1").await;
    }
    assert_eq!(state(owner, settled).await, "done 0");
    world.service.end().await;
}
