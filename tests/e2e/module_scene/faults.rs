//! Responses that every operation has in common: without a bearer, to a stranger, to unreadable input, with the module
//! disabled, and when a part of the platform is down.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};

use super::{Module, Scene, Who};

/// Bytes past the largest body of any module.
const TOO_LARGE: usize = 2 << 20;

/// No bearer, an invalid one, and a login that is not a member of the company.
pub(crate) async fn strangers<M: Module>(scene: &mut Scene<M>) {
    for (operation, _) in scene.operations() {
        let call = scene.sample(&operation);
        scene.refused(Who::Nobody, 401, "AUTH_TOKEN_MISSING", &operation, call.clone()).await;
        scene.refused(Who::Forged, 401, "AUTH_TOKEN_INVALID", &operation, call.clone()).await;
        scene.refused(Who::Bob, 403, "COMPANY_MEMBERSHIP_REQUIRED", &operation, call).await;
    }
}

/// An invalid company id, a body that is not an object, and one that is too large.
pub(crate) async fn malformed<M: Module>(scene: &mut Scene<M>) {
    for (operation, documented) in scene.operations() {
        let call = scene.sample(&operation);
        scene.called_at("x", Who::Admin, (400, "BAD_REQUEST"), &operation, call.clone()).await;
        if call.body.is_some() {
            scene.refused(Who::Admin, 400, "BAD_REQUEST", &operation, call.clone().with(json!([]))).await;
        }
        if documented.contains(&413) {
            let large = call.with(json!({ "padding": "x".repeat(TOO_LARGE) }));
            scene.refused(Who::Admin, 413, "PAYLOAD_TOO_LARGE", &operation, large).await;
        }
    }
    for (operation, call) in M::wrong_values() {
        scene.refused(Who::Admin, 400, "VALIDATION_ERROR", operation, call).await;
    }
}

/// The superadmin disables the module, and enables it again.
pub(crate) async fn switched_off<M: Module>(scene: &mut Scene<M>) {
    turn(scene, "disable").await;
    every_operation(scene, 403, "MODULE_DISABLED").await;
    turn(scene, "enable").await;
}

async fn turn<M: Module>(scene: &Scene<M>, how: &str) {
    let path = format!("/api/platform/admin/modules/{}/{how}", M::KEY);
    let turned = scene.admin.post(&path, Value::Null).await;
    assert_eq!(turned.data(200)["enabled"], how == "enable");
}

/// A database that does not match the module is a bug, and reported as one.
pub(crate) async fn without_its_tables<M: Module>(scene: &mut Scene<M>) {
    scene.execute(format!("ALTER SCHEMA {0} RENAME TO {0}_away", M::KEY)).await;
    for (operation, _) in scene.operations() {
        if !M::WITHOUT_TABLES.contains(&operation.as_str()) {
            let call = scene.sample(&operation);
            scene.refused(Who::Admin, 500, "INTERNAL_ERROR", &operation, call).await;
        }
    }
    scene.execute(format!("ALTER SCHEMA {0}_away RENAME TO {0}", M::KEY)).await;
    let whole = scene.sample(M::READ);
    scene.expect(Who::Admin, 200, M::READ, whole).await;
}

/// Six calls at once of each operation that limits them, while the tables that it reads in its turn are locked: two are
/// refused.
pub(crate) async fn too_many_at_once<M: Module>(scene: &mut Scene<M>, tables: fn(&str) -> &'static str) {
    let limited = scene.operations().into_iter().filter(|(_, documented)| documented.contains(&429));
    for (operation, _) in limited.collect::<Vec<_>>() {
        let owner = scene.platform.owner();
        let mut held = owner.begin().await.expect("a transaction");
        let lock = format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", tables(&operation));
        sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut *held).await.expect("the owner may");
        let (company, call) = (scene.company.clone(), scene.sample(&operation));
        let mut asked: FuturesUnordered<_> =
            (0..6).map(|_| scene.ask(&company, Who::Admin, &operation, call.clone())).collect();
        let mut replies = Vec::new();
        for _ in 0..2 {
            replies.push(asked.next().await.expect("six"));
        }
        held.rollback().await.expect("let go");
        replies.extend(asked.collect::<Vec<_>>().await);
        let statuses: Vec<u16> = replies.iter().map(|reply| reply.status.as_u16()).collect();
        assert_eq!(statuses, [429, 429, 200, 200, 200, 200], "{operation}");
        for reply in &replies {
            scene.count(&operation, reply);
        }
        owner.close().await;
    }
}

/// Without authz, no caller can be admitted.
pub(crate) async fn without_authz<M: Module>(scene: &mut Scene<M>) {
    scene.platform.kill("authz");
    every_operation(scene, 503, "AUTHORIZATION_UNAVAILABLE").await;
}

/// The gateway answers for a module that is down.
pub(crate) async fn without_the_module<M: Module>(scene: &mut Scene<M>) {
    scene.platform.kill(M::KEY);
    every_operation(scene, 503, "MODULE_UNAVAILABLE").await;
}

/// As the superadmin, who would otherwise be admitted.
async fn every_operation<M: Module>(scene: &mut Scene<M>, status: u16, word: &str) {
    for (operation, _) in scene.operations() {
        let call = scene.sample(&operation);
        scene.refused(Who::Admin, status, word, &operation, call).await;
    }
}
