//! The worker: what a crash left half made or half deleted is settled as the tuples say.

use std::time::Duration;

use contract::Clock;
use example_tasks::Config;
use example_tasks::tasks::rules::Task;
use serde_json::{Value, json};
use service::module::Parts;
use service::two_store::Swept;
use testkit::module::tuples::GRANTS;
use tokio_util::sync::CancellationToken;

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
