//! Responses of setting, project, approver, hour and read operations under their own rules.

use serde_json::{Value, json};

use super::scene::{Scene, day, make_project, monday};
use crate::module_scene::{Call, NOTHING, Who};

pub(super) async fn settings_and_projects(scene: &mut Scene) {
    for operation in ["GET /settings", "PUT /settings", "GET /projects", "PUT /projects/{projectId}"] {
        let call = scene.sample(operation);
        scene.expect(Who::Admin, 200, operation, call).await;
    }
    make_project(scene, "APP").await;
    let taken = json!({ "code": "APP", "name": "Another" });
    scene.refused(Who::Admin, 409, "PROJECT_CODE_TAKEN", "POST /projects", Call::of(taken.clone())).await;
    let change = "PUT /projects/{projectId}";
    let own = Call::about(&scene.rows.project.clone());
    scene.refused(Who::Admin, 409, "PROJECT_CODE_TAKEN", change, own.clone().with(taken.clone())).await;
    scene.refused(Who::Admin, 400, "VALIDATION_ERROR", change, own.with(json!({ "code": "app" }))).await;
    scene.refused(Who::Admin, 404, "NOT_FOUND", change, Call::about(NOTHING).with(taken)).await;
}

pub(super) async fn approvers(scene: &mut Scene) {
    const ASSIGN: &str = "PUT /member-approvers";
    let (alice, admin) = (scene.alice_member.clone(), scene.admin_member.clone());
    let pair =
        |member: &str, approver: &str| Call::of(json!({ "memberId": member, "approverMemberId": approver }));
    scene.expect(Who::Admin, 200, ASSIGN, pair(&alice, &admin)).await;
    scene.refused(Who::Admin, 422, "APPROVER_IS_SELF", ASSIGN, pair(&alice, &alice)).await;
    scene.refused(Who::Admin, 422, "MEMBER_UNKNOWN", ASSIGN, pair(&alice, NOTHING)).await;
    let list = scene.expect(Who::Admin, 200, "GET /member-approvers", Call::default()).await;
    assert_eq!(list["total"], 1, "{list}");
}

pub(super) async fn entries(scene: &mut Scene) {
    const PUT: &str = "PUT /time-entries";
    let web = scene.rows.project.clone();
    let (app, old) = (make_project(scene, "HOURS").await, make_project(scene, "OLD").await);
    let inactive = json!({ "code": "OLD", "name": "Over", "status": "inactive" });
    scene.expect(Who::Admin, 200, "PUT /projects/{projectId}", Call::about(&old).with(inactive)).await;
    let hours = |project: &str, date: &str, real: u8, billable: u8| {
        let body =
            json!({ "projectId": project, "entryDate": date, "realHours": real, "billableHours": billable });
        Call::of(body)
    };
    let (open, locked) = (day(-2, 0), day(-1, 0));
    scene.expect(Who::Alice, 200, PUT, hours(&web, &open, 13, 8)).await;
    for (call, word) in [
        (hours(&web, &monday(-30), 1, 1), "WEEK_OUT_OF_WINDOW"),
        (hours(NOTHING, &open, 1, 1), "PROJECT_UNKNOWN"),
        (hours(&old, &open, 1, 1), "PROJECT_INACTIVE"),
        (hours(&app, &open, 12, 0), "DAILY_HOURS_EXCEEDED"),
        (hours(&app, &open, 1, 2), "BILLABLE_EXCEEDS_ACTUAL"),
        (hours(&app, &open, 1, 1), "BILLABLE_ABOVE_EIGHT_HOURS"),
    ] {
        scene.refused(Who::Alice, 422, word, PUT, call).await;
    }
    scene.refused(Who::Alice, 409, "WEEK_LOCKED", PUT, hours(&web, &locked, 1, 1)).await;
    let own =
        scene.expect(Who::Alice, 200, "GET /time-entries", Call::asking(&format!("?weekStart={open}"))).await;
    assert_eq!(own["items"].as_array().map(Vec::len), Some(1), "only what was accepted: {own}");
}

pub(super) async fn whole_weeks(scene: &mut Scene) {
    const SAVE: &str = "PUT /time-entries/week";
    let web = scene.rows.project.clone();
    let week = |start: &str, rows: Vec<Value>| Call::of(json!({ "weekStart": start, "entries": rows }));
    let row = |hours: u8| json!({ "projectId": web, "entryDate": day(-3, 0), "realHours": hours });
    let other =
        json!({ "projectId": make_project(scene, "WHOLE").await, "entryDate": day(-3, 0), "realHours": 24 });
    scene.expect(Who::Alice, 200, SAVE, week(&monday(-3), vec![row(1)])).await;
    scene.refused(Who::Alice, 422, "WEEK_OUT_OF_WINDOW", SAVE, week(&monday(-30), vec![])).await;
    scene
        .refused(Who::Alice, 422, "DAILY_HOURS_EXCEEDED", SAVE, week(&monday(-3), vec![row(1), other]))
        .await;
    scene.refused(Who::Alice, 409, "WEEK_LOCKED", SAVE, week(&monday(-1), vec![])).await;
}

/// The last check before parts are stopped: it gives the company more hours than a file may have.
pub(super) async fn reads(scene: &mut Scene) {
    const REPORT: &str = "GET /reports/hours";
    let (project, week) = (scene.rows.project.clone(), monday(-1));
    for operation in ["GET /weeks/{weekStart}/overview", REPORT] {
        let call = scene.sample(operation);
        scene.expect(Who::Admin, 200, operation, call).await;
    }
    let (company, rows) = (scene.company.clone(), 50_001);
    let members = format!("SELECT md5(n::text)::uuid AS id FROM generate_series(1, {rows}) n");
    scene
        .execute(format!(
            "INSERT INTO timesheet.member_weeks SELECT '{company}', id, '{week}' FROM ({members}) m;
             INSERT INTO timesheet.entries(id, company_id, member_id, week_start, project_id, entry_date, real_hours,
               billable_hours) SELECT id, '{company}', id, '{week}', '{project}', '{week}', 1, 1 FROM ({members}) m"
        ))
        .await;
    let file = Call { header: Some(("accept", "text/csv")), ..scene.sample(REPORT) };
    scene.refused(Who::Admin, 422, "REPORT_TOO_LONG", REPORT, file).await;
}
