//! The worker: settles interrupted creations and deletions according to the tuples.

use std::pin::pin;
use std::time::Duration;

use contract::Clock;
use example_tasks::Config;
use example_tasks::tasks::rules::Task;
use futures_util::future::join_all;
use serde_json::{Value, json};
use service::module::Parts;
use service::two_store::{Swept, TupleRow};
use testkit::module::tuples::GRANTS;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::start;

#[tokio::test]
async fn the_sweep_keeps_what_has_its_tuples_and_removes_what_has_none() {
    let module = start().await;
    let config = Config::read(&module.settings).expect("the settings of a test are right");
    let worker = Parts::start(&config.module, Clock::system(), &CancellationToken::new()).expect("the parts");
    let sweep = async || worker.two_store().sweep::<Task>(Duration::ZERO).await.expect("authz answers");

    module.authz.close("POST", GRANTS);
    let lost = module.ask("POST", "/tasks", Some(json!({ "title": "lost" }))).await;
    assert_eq!(lost.status, 503);
    let tuples = module.take_tuples();
    assert_eq!(sweep().await, Swept { removed: 1, ..Swept::default() });

    let kept = module.ask("POST", "/tasks", Some(json!({ "title": "kept" }))).await.data().clone();
    module.execute("UPDATE tasks.tasks SET state = 'pending', attempts = 1".to_owned()).await;
    assert_eq!(sweep().await, Swept { kept: 1, ..Swept::default() });
    let listed = module.ask("GET", "/tasks", None).await.data()["items"].clone();
    assert_eq!((listed, tuples.all().len()), (json!([kept]), 2));

    let actors: Vec<Value> = module.audit().await.iter().map(|row| row["actor"].clone()).collect();
    assert_eq!(actors, [json!("alice-subject"), json!("system:two-store-sweep")]);
}

#[tokio::test]
async fn a_key_whose_task_the_sweep_kept_makes_no_second_one_after_it_was_deleted() {
    let module = start().await;
    let config = Config::read(&module.settings).expect("the settings of a test are right");
    let worker = Parts::start(&config.module, Clock::system(), &CancellationToken::new()).expect("the parts");
    let post = async || {
        let call =
            module.call("POST", &module.path(module.company, "/tasks")).header("idempotency-key", "k1");
        module.send("POST", "/tasks", call.json(json!({ "title": "once" }))).await
    };
    module.authz.close("POST", GRANTS);
    assert_eq!(post().await.status, 503);
    let tuples = module.take_tuples();
    let mut conn = worker.core.pool.acquire().await.expect("the database answers");
    let rows = module.database.rows("SELECT to_jsonb(id) FROM tasks.tasks".to_owned()).await;
    let id: Uuid = rows.iter().find_map(|id| id.as_str()?.parse().ok()).expect("one pending task");
    let task = Task::find(&mut conn, module.company.into(), id).await.expect("read").expect("pending");
    task.tuples().iter().for_each(|tuple| tuples.add(tuple));
    let swept = worker.two_store().sweep::<Task>(Duration::ZERO).await.expect("authz answers");
    assert_eq!(swept, Swept { kept: 1, ..Swept::default() });

    assert_eq!(module.ask("DELETE", &format!("/tasks/{id}"), None).await.status, 200);
    let again = post().await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (201, "true"), "{}", again.text);
    assert_eq!(again.data()["id"], json!(id));
    let listed = module.ask("GET", "/tasks", None).await.data()["items"].clone();
    assert_eq!((listed, tuples.all().len()), (json!([]), 0), "the key had taken its one effect already");
}

#[tokio::test]
async fn creations_that_wait_for_authz_leave_connections_for_other_requests() {
    let module = start().await;
    module.authz.hang("POST", GRANTS);
    let path = module.path(module.company, "/tasks");
    let posts = (0..8).map(|_| module.call("POST", &path).json(json!({ "title": "t" })).send());
    let mut posts = pin!(join_all(posts));
    let mut reads = 0;
    let replies = loop {
        tokio::select! {
            biased;
            replies = &mut posts => break replies,
            listed = module.ask("GET", "/tasks", None) => {
                assert_eq!(listed.status, 200, "after {reads} reads: {}", listed.text);
                reads += 1;
            }
        }
    };
    assert!(replies.iter().all(|reply| reply.status == 503) && reads > 0, "{replies:?}");
}
