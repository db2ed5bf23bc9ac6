//! Concurrent requests for the same row: only one of them acts.

use std::time::Duration;

use axum::response::IntoResponse;
use service::ApiError;
use service::two_store::Swept;

use super::module::Share;
use super::scene::Scene;

/// Number of concurrent requests, more than the connections of the module's pool.
const MANY: usize = 8;

async fn all<T: Send + 'static>(
    work: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let running: Vec<_> = work.into_iter().map(tokio::spawn).collect();
    let mut done = Vec::new();
    for one in running {
        done.push(one.await.expect("it ends"));
    }
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_equal_creations_one_is_done_and_the_others_conflict() {
    let scene = Scene::start().await;
    for round in 0..5 {
        let holder = format!("holder-{round}");
        let calls = (0..MANY).map(|_| {
            let (module, holder) = (scene.module.clone(), holder.clone());
            async move { module.share(&holder, None).await.into_response().status().as_u16() }
        });
        let mut statuses = all(calls).await;
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409, 409, 409, 409, 409, 409, 409], "round {round}");
        assert_eq!(scene.audited(&holder, "share.created").await, 1);
        assert_eq!(scene.changes(&holder, "tuples.granted").await, 1);
    }
    scene.at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_creations_under_one_key_one_is_done_and_all_get_its_answer() {
    let scene = Scene::start().await;
    for round in 0..5 {
        let holder = format!("holder-{round}");
        let calls = (0..MANY).map(|_| {
            let (module, holder) = (scene.module.clone(), holder.clone());
            async move {
                let response = module.share(&holder, Some(&holder)).await.into_response();
                let replayed = response.headers().contains_key("idempotency-replayed");
                let status = response.status().as_u16();
                (status, axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body"), replayed)
            }
        });
        let answers = all(calls).await;
        let first = answers.first().expect("an answer");
        assert!(answers.iter().all(|answer| (answer.0, &answer.1) == (201, &first.1)), "{answers:?}");
        assert_eq!(answers.iter().filter(|answer| !answer.2).count(), 1, "one did it: {answers:?}");
        assert_eq!(scene.audited(&holder, "share.created").await, 1);
        assert_eq!(scene.changes(&holder, "tuples.granted").await, 1);
    }
    scene.at_rest().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_equal_removals_one_is_done_and_the_others_find_nothing() {
    let scene = Scene::start().await;
    for round in 0..5 {
        let holder = format!("holder-{round}");
        scene.module.share(&holder, None).await.expect("shared");
        let (_, id) = scene.share_of(&holder).await.expect("the share");
        let calls = (0..MANY).map(|_| {
            let module = scene.module.clone();
            async move { module.unshare(id).await.map_err(|error| error.parts().status.as_u16()) }
        });
        let done = all(calls).await;
        assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1, "{done:?}");
        assert!(done.iter().all(|done| done.is_ok() || matches!(done, Err(404))), "{done:?}");
        assert_eq!(scene.audited(&holder, "share.deleted").await, 1);
    }
    scene.at_rest().await;
}

/// Concurrent creations, removals and sweeps: whatever each answers, rows and tuples agree in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creations_removals_and_sweeps_agree_in_the_end() {
    let scene = Scene::start().await;
    for round in 0..10 {
        let holder = format!("holder-{}", round % 2);
        let (sharing, removing, sweeping) =
            (scene.module.clone(), scene.module.clone(), scene.module.clone());
        let id = scene.share_of(&holder).await.map(|(_, id)| id);
        let again = holder.clone();
        let share = tokio::spawn(async move { sharing.share(&again, None).await.map(drop) });
        let remove = tokio::spawn(async move {
            match id {
                Some(id) => removing.unshare(id).await.map(drop),
                None => Ok(()),
            }
        });
        let sweep =
            tokio::spawn(async move { sweeping.store.sweep::<Share>(Duration::ZERO).await.map(drop) });
        for done in [share, remove, sweep] {
            let done = done.await.expect("it ends");
            let expected = matches!(done, Ok(()) | Err(ApiError::Conflict { .. } | ApiError::NotFound(_)));
            assert!(expected, "{done:?}");
        }
        scene.sweep().await;
        scene.at_rest().await;
    }
}

#[tokio::test]
async fn a_sweep_leaves_young_rows_and_those_that_a_request_works_on() {
    let scene = Scene::start().await;
    let make = |holder: &str| {
        format!(
            "INSERT INTO crm.shares(id, company_id, holder, state, attempts)
             VALUES (gen_random_uuid(), '{}', '{holder}', 'pending', 1)",
            scene.company()
        )
    };
    scene.rows.run(make("young")).await;
    let hour = Duration::from_hours(1);
    assert_eq!(scene.module.store.sweep::<Share>(hour).await.expect("swept"), Swept::default());
    let (_, id) = scene.share_of("young").await.expect("the share");
    let mut request = scene.pool().acquire().await.expect("a connection");
    let lock = |verb: &str| format!("SELECT pg_advisory_{verb}(hashtextextended('crm.shares:{id}', 0))");
    sqlx::raw_sql(sqlx::AssertSqlSafe(lock("lock"))).execute(&mut *request).await.expect("locked");
    assert_eq!(scene.sweep().await, Swept { left: 1, ..Swept::default() });
    sqlx::raw_sql(sqlx::AssertSqlSafe(lock("unlock"))).execute(&mut *request).await.expect("unlocked");
    assert_eq!(scene.sweep().await, Swept { removed: 1, ..Swept::default() });
}

#[tokio::test]
async fn a_sweep_settles_more_rows_than_one_batch_holds() {
    let scene = Scene::start().await;
    let count = service::two_store::SWEEP_BATCH + 1;
    scene
        .rows
        .run(format!(
            "INSERT INTO crm.shares(id, company_id, holder, state)
             SELECT gen_random_uuid(), '{}', 'holder-' || n, 'pending' FROM generate_series(1, {count}) n",
            scene.company()
        ))
        .await;
    assert_eq!(scene.sweep().await, Swept { removed: 101, ..Swept::default() });
    scene.at_rest().await;
}
