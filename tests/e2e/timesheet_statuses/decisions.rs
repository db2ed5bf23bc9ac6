//! Responses of submission operations under their own rules. Alice's week of [`Timesheet::submission`] goes through
//! every state.

use serde_json::{Value, json};

use super::scene::{Scene, day, monday};
use crate::module_scene::{Call, NOTHING, Who, id};

const SUBMIT: &str = "POST /submissions";
const APPROVE: &str = "POST /submissions/{submissionId}/approve";
const REJECT: &str = "POST /submissions/{submissionId}/reject";
const REVERT: &str = "POST /submissions/{submissionId}/revert";
const ENTRIES: &str = "GET /submissions/{submissionId}/entries";
const BATCH: &str = "POST /submissions/approve-batch";

fn week(weeks: i32) -> Call {
    Call::of(json!({ "weekStart": monday(weeks) }))
}

/// A call about a submission, with the body that only a rejection reads.
fn about(submission: &str) -> Call {
    Call::about(submission).with(json!({ "reason": "Tuesday is missing" }))
}

/// Lists, a submission's content, and who may see it.
pub(super) async fn submissions(scene: &mut Scene) {
    let own = scene.rows.submission.clone();
    for view in ["mine", "approvals", "all"] {
        scene.expect(Who::Admin, 200, "GET /submissions", Call::asking(&format!("?view={view}"))).await;
    }
    scene.expect(Who::Alice, 200, ENTRIES, Call::about(&own)).await;
    scene.refused(Who::Admin, 404, "NOT_FOUND", ENTRIES, Call::about(NOTHING)).await;
    for step in [APPROVE, REJECT, REVERT] {
        scene.refused(Who::Admin, 404, "NOT_FOUND", step, about(NOTHING)).await;
        scene.refused(Who::Admin, 400, "BAD_REQUEST", step, about("x")).await;
    }
    let admins = id(&scene.expect(Who::Admin, 201, SUBMIT, week(-1)).await);
    scene.refused(Who::Alice, 403, "NOT_READER", ENTRIES, Call::about(&admins)).await;
    for step in [APPROVE, REJECT, REVERT] {
        scene.refused(Who::Alice, 403, "NOT_APPROVER", step, about(&admins)).await;
    }
    for step in [APPROVE, REJECT] {
        scene.refused(Who::Alice, 403, "SELF_APPROVAL", step, about(&own)).await;
        scene.refused(Who::Admin, 403, "SELF_APPROVAL", step, about(&admins)).await;
    }
    scene.refused(Who::Admin, 403, "NOT_SUBMITTER", REVERT, about(&own)).await;
}

/// The complete lifecycle of a week: submitted, approved, reverted, submitted again, rejected, approved together with
/// others.
pub(super) async fn moves(scene: &mut Scene) {
    let first = scene.rows.submission.clone();
    scene.refused(Who::Alice, 409, "SUBMISSION_PENDING", SUBMIT, week(-1)).await;
    scene.expect(Who::Admin, 200, APPROVE, about(&first)).await;
    scene.refused(Who::Admin, 409, "SUBMISSION_NOT_PENDING", APPROVE, about(&first)).await;
    scene.refused(Who::Admin, 409, "SUBMISSION_NOT_PENDING", REJECT, about(&first)).await;
    scene.refused(Who::Alice, 409, "SUBMISSION_APPROVED", SUBMIT, week(-1)).await;
    scene.expect(Who::Admin, 200, REVERT, about(&first)).await;
    scene.refused(Who::Admin, 409, "SUBMISSION_NOT_REVERTIBLE", REVERT, about(&first)).await;
    let second = id(&scene.expect(Who::Alice, 201, SUBMIT, week(-1)).await);
    for step in [APPROVE, REJECT, REVERT] {
        scene.refused(Who::Admin, 409, "SUBMISSION_SUPERSEDED", step, about(&first)).await;
    }
    scene.refused(Who::Admin, 400, "VALIDATION_ERROR", REJECT, Call::about(&second).with(json!({}))).await;
    scene.expect(Who::Admin, 200, REJECT, about(&second)).await;
    let third = id(&scene.expect(Who::Alice, 201, SUBMIT, week(-1)).await);
    let batch = Call::of(json!({ "submissionIds": [third, NOTHING] }));
    let done = scene.expect(Who::Admin, 200, BATCH, batch).await;
    let shown = |at: usize| done["items"][at]["approved"].clone();
    assert_eq!((shown(0), shown(1)), (Value::from(true), Value::from(false)), "{done}");
}

/// Idempotency keys: the stored response, another body, and a first request that is still running.
pub(super) async fn keys(scene: &mut Scene) {
    let with_key = |call: Call, key| Call { header: Some(("idempotency-key", key)), ..call };
    let made = scene.expect(Who::Alice, 201, SUBMIT, with_key(week(-2), "first")).await;
    let again = scene.expect(Who::Alice, 201, SUBMIT, with_key(week(-2), "first")).await;
    assert_eq!(made, again);
    scene.refused(Who::Alice, 422, "IDEMPOTENCY_KEY_REUSED", SUBMIT, with_key(week(-3), "first")).await;
    let owner = scene.platform.owner();
    let mut unfinished = owner.begin().await.expect("a transaction");
    let sql = "INSERT INTO timesheet.idempotency_keys SELECT company_id, operation, actor, 'unfinished', fingerprint,
        status, response, resource_id, created_at, expires_at FROM timesheet.idempotency_keys WHERE idem_key = 'first'";
    sqlx::query(sql).execute(&mut *unfinished).await.expect("the key is written");
    scene.refused(Who::Alice, 409, "IDEMPOTENCY_IN_PROGRESS", SUBMIT, with_key(week(-2), "unfinished")).await;
    unfinished.rollback().await.expect("nothing stays");
    owner.close().await;
}

/// Hours that were valid when they were written, but violate the current rules.
pub(super) async fn rules_at_submission(scene: &mut Scene) {
    let project = scene.rows.project.clone();
    for (rule, free, tight, billable, word) in [
        ("enforceBillableWithinActual", false, true, 5, "BILLABLE_EXCEEDS_ACTUAL"),
        ("allowBillableAboveEightHours", true, false, 9, "BILLABLE_ABOVE_EIGHT_HOURS"),
    ] {
        let real = if billable > 8 { billable } else { 1 };
        scene.expect(Who::Admin, 200, "PUT /settings", Call::of(json!({ rule: free }))).await;
        let hours = json!({ "projectId": project, "entryDate": day(-3, 1), "realHours": real,
            "billableHours": billable });
        scene.expect(Who::Alice, 200, "PUT /time-entries", Call::of(hours)).await;
        scene.expect(Who::Admin, 200, "PUT /settings", Call::of(json!({ rule: tight }))).await;
        scene.refused(Who::Alice, 422, word, SUBMIT, week(-3)).await;
    }
    scene.refused(Who::Alice, 422, "WEEK_OUT_OF_WINDOW", SUBMIT, week(-30)).await;
}
