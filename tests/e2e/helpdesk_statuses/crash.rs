//! `kill -9` in the middle of each write that spans the module's rows and authz's tuples. Database locks hold the write
//! at its point: nothing is half done afterwards, and the same request completes it.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use super::scene::{Helpdesk, Scene};
use crate::harness::{Api, Reply, eventually, given_or};
use crate::module_scene::Module;

/// Time limit of a step.
const PATIENCE: Duration = Duration::from_mins(1);

/// Where a write is when its process dies.
#[derive(Clone, Copy, Debug)]
enum At {
    /// The row is committed; authz has not changed the tuple.
    BeforeTheTuple,
    /// authz has changed the tuple; the row is not settled.
    BeforeTheRow,
}

impl At {
    /// The table whose lock holds the write there: authz's tuples, or the audit table of the settlement.
    const fn lock(self) -> &'static str {
        match self {
            Self::BeforeTheTuple => "LOCK TABLE authz.tuple IN EXCLUSIVE MODE",
            Self::BeforeTheRow => "LOCK TABLE audit.helpdesk__events IN EXCLUSIVE MODE",
        }
    }
}

#[tokio::test]
async fn a_binding_survives_kill_9_in_the_middle_of_its_making_and_its_removal() {
    let mut scene = Scene::start("helpdesk-crash").await;
    let (alice, admin) = (scene.alice_member.clone(), scene.admin_member.clone());
    settled(&scene, "POST", "/bindings", Some(&admin), 201).await;
    let rounds: usize = given_or("CRASH_ROUNDS", 1);
    let begun = Instant::now();
    for round in 0..rounds {
        for at in [At::BeforeTheTuple, At::BeforeTheRow] {
            killed(&mut scene, at, "POST", "/bindings", Some(&alice)).await;
            settled(&scene, "POST", "/bindings", Some(&alice), 201).await;
            agrees(&scene, 2, &format!("round {round}, made, {at:?}")).await;
            let tail = format!("/bindings/members/{alice}");
            killed(&mut scene, at, "DELETE", &tail, None).await;
            settled(&scene, "DELETE", &tail, None, 200).await;
            agrees(&scene, 1, &format!("round {round}, removed, {at:?}")).await;
        }
    }
    println!("{} kills in {:.1?}: every write came to its end, nothing half", rounds * 4, begun.elapsed());
}

/// A request that is not sent yet.
struct Request {
    api: Api,
    method: Method,
    path: String,
    body: Option<Value>,
}

impl Request {
    async fn of(scene: &Scene, method: &str, tail: &str, member: Option<&str>) -> Self {
        let token = scene.platform.token("admin").await;
        Self {
            api: scene.platform.api().with_token(&token),
            method: method.parse().expect("a method"),
            path: format!("/api/{}/v1/companies/{}{tail}", Helpdesk::KEY, scene.company),
            body: member.map(|member| json!({ "memberId": member })),
        }
    }

    async fn send(&self) -> Reply {
        self.api.send(self.method.clone(), &self.path, self.body.clone()).await
    }
}

/// Kills the process while it waits at this point.
async fn killed(scene: &mut Scene, at: At, method: &str, tail: &str, member: Option<&str>) {
    let owner = scene.platform.owner();
    let mut held = owner.begin().await.expect("a transaction");
    sqlx::query(at.lock()).execute(&mut *held).await.expect("the lock");
    let request = Request::of(scene, method, tail, member).await;
    let write = tokio::spawn(async move { request.send().await });
    eventually("the write waits", PATIENCE, || async {
        // It waits for one of the two locked tables, under the role of the service that writes there.
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted
            AND relation IN ('authz.tuple'::regclass, 'audit.helpdesk__events'::regclass)";
        let waiting: i64 =
            sqlx::query_scalar(waiting).fetch_one(&owner).await.map_err(|error| error.to_string())?;
        if waiting > 0 { Ok(()) } else { Err("nothing waits".to_owned()) }
    })
    .await;
    scene.platform.kill(Helpdesk::KEY);
    let reply = write.await.expect("the edge answers");
    assert_eq!(reply.status, 503, "nothing was acknowledged: {}", reply.body);
    held.rollback().await.expect("the database");
    owner.close().await;
    scene.platform.bring_back(Helpdesk::KEY).await;
}

/// Repeats the request until the module has its keys again and the dead process's lock is released.
async fn settled(scene: &Scene, method: &str, tail: &str, member: Option<&str>, status: u16) {
    let request = Request::of(scene, method, tail, member).await;
    eventually(&format!("{method} {tail}"), PATIENCE, || async {
        let reply = request.send().await;
        if reply.status == status { Ok(()) } else { Err(format!("{} {}", reply.status, reply.body)) }
    })
    .await;
}

/// Checks that rows, guard and tuples have this number of administrators.
async fn agrees(scene: &Scene, administrators: i64, when: &str) {
    let owner = scene.platform.owner();
    let found: (i64, i64, i64, i64) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM helpdesk.bindings), (SELECT count(*) FROM helpdesk.bindings WHERE state = 'active'),
           (SELECT active_bindings::bigint FROM helpdesk.admin_guard),
           (SELECT count(*) FROM authz.tuple WHERE object_type = 'company_module' AND relation = 'admin'
              AND object_id LIKE '%/helpdesk')",
    )
    .fetch_one(&owner)
    .await
    .expect("the counts");
    owner.close().await;
    let all = administrators;
    assert_eq!(found, (all, all, all, all), "{when}");
}
