//! What every operation answers whatever it is about: without a bearer, to a stranger, to what cannot be read, switched
//! off, and when a part of the platform is away.

use serde_json::{Value, json};

use super::scene::{Call, Scene, Who};

/// Bytes past the largest body.
const TOO_LARGE: usize = 256 << 10;

/// Nobody, a bad bearer, and a login that is no member of the company.
pub(super) async fn strangers(scene: &mut Scene) {
    for (operation, _) in scene.operations() {
        let call = scene.sample(&operation);
        scene.refused(Who::Nobody, 401, "AUTH_TOKEN_MISSING", &operation, call.clone()).await;
        scene.refused(Who::Forged, 401, "AUTH_TOKEN_INVALID", &operation, call.clone()).await;
        scene.refused(Who::Bob, 403, "COMPANY_MEMBERSHIP_REQUIRED", &operation, call).await;
    }
}

/// A company that is no id, a body that is no object, and one that is too large.
pub(super) async fn malformed(scene: &mut Scene) {
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
    for (operation, call) in wrong_values() {
        scene.refused(Who::Admin, 400, "VALIDATION_ERROR", operation, call).await;
    }
}

/// Queries and bodies with wrong values.
fn wrong_values() -> Vec<(&'static str, Call)> {
    let page = || Call::asking("?page=0");
    let empty = || Call::of(json!({}));
    vec![
        ("PUT /settings", Call::of(json!({ "allowedPreviousWeeks": 521 }))),
        ("GET /projects", page()),
        ("POST /projects", empty()),
        ("GET /member-approvers", page()),
        ("PUT /member-approvers", empty()),
        ("GET /time-entries", Call::asking("?weekStart=2026-01-06")),
        ("PUT /time-entries", empty()),
        ("GET /submissions", Call::asking("?view=theirs")),
        ("POST /submissions", empty()),
        ("POST /submissions/approve-batch", empty()),
        ("PUT /time-entries/week", empty()),
        ("GET /weeks/{weekStart}/overview", Call::about("2026-01-06")),
        ("GET /reports/hours", Call::default()),
    ]
}

/// The superadmin switches the module off, and on again.
pub(super) async fn switched_off(scene: &mut Scene) {
    turn(scene, "disable").await;
    every_operation(scene, 403, "MODULE_DISABLED").await;
    turn(scene, "enable").await;
}

async fn turn(scene: &Scene, how: &str) {
    let path = format!("/api/platform/admin/modules/timesheet/{how}");
    let turned = scene.admin.post(&path, Value::Null).await;
    assert_eq!(turned.data(200)["enabled"], how == "enable");
}

/// A database that is not what the module was built for is a bug, and told as one.
pub(super) async fn without_its_tables(scene: &mut Scene) {
    scene.execute("ALTER SCHEMA timesheet RENAME TO timesheet_away".to_owned()).await;
    every_operation(scene, 500, "INTERNAL_ERROR").await;
    scene.execute("ALTER SCHEMA timesheet_away RENAME TO timesheet".to_owned()).await;
    let whole = scene.sample("GET /settings");
    scene.expect(Who::Admin, 200, "GET /settings", whole).await;
}

/// Whoever has to be asked about cannot be let in.
pub(super) async fn without_authz(scene: &mut Scene) {
    scene.platform.kill("authz");
    every_operation(scene, 503, "AUTHORIZATION_UNAVAILABLE").await;
}

/// The edge answers for a module that is away.
pub(super) async fn without_the_module(scene: &mut Scene) {
    scene.platform.kill("timesheet");
    every_operation(scene, 503, "MODULE_UNAVAILABLE").await;
}

/// As the superadmin, who would be let in.
async fn every_operation(scene: &mut Scene, status: u16, word: &str) {
    for (operation, _) in scene.operations() {
        let call = scene.sample(&operation);
        scene.refused(Who::Admin, status, word, &operation, call).await;
    }
}
