//! Timesheet rows for the calls.

use std::time::Duration;

use contract::Clock;
use serde_json::json;

use crate::module_scene::{Call, Module, Who, id};

pub(super) type Scene = crate::module_scene::Scene<Timesheet>;

/// Ids of the rows that every test has.
#[derive(Default)]
pub(super) struct Timesheet {
    pub(super) project: String,
    /// Alice's submission, which is pending.
    pub(super) submission: String,
}

impl Module for Timesheet {
    const KEY: &'static str = "timesheet";
    const DOCUMENT: &'static str = include_str!("../../../modules/timesheet/openapi.json");
    const READ: &'static str = "GET /settings";

    async fn prepare(scene: &mut Scene) {
        scene.rows.project = make_project(scene, "WEB").await;
        let week = json!({ "weekStart": monday(-1) });
        scene.rows.submission = id(&scene.expect(Who::Alice, 201, "POST /submissions", Call::of(week)).await);
    }

    fn sample(scene: &Scene, operation: &str) -> Call {
        let week = monday(-1);
        match operation {
            "GET /settings" | "GET /projects" | "GET /member-approvers" | "GET /submissions" => {
                Call::default()
            }
            "PUT /settings" => Call::of(json!({ "allowedPreviousWeeks": 8 })),
            "POST /projects" => Call::of(json!({ "code": "SAMPLE", "name": "A project" })),
            "PUT /projects/{projectId}" => {
                Call::about(&scene.rows.project).with(json!({ "code": "WEB", "name": "Web shop" }))
            }
            "PUT /member-approvers" => {
                Call::of(json!({ "memberId": scene.alice_member, "approverMemberId": scene.admin_member }))
            }
            "GET /time-entries" => Call::asking(&format!("?weekStart={week}")),
            "PUT /time-entries" => {
                Call::of(json!({ "projectId": scene.rows.project, "entryDate": week, "realHours": 1 }))
            }
            "POST /submissions" => Call::of(json!({ "weekStart": week })),
            "POST /submissions/{submissionId}/approve"
            | "POST /submissions/{submissionId}/revert"
            | "GET /submissions/{submissionId}/entries" => Call::about(&scene.rows.submission),
            "POST /submissions/{submissionId}/reject" => {
                Call::about(&scene.rows.submission).with(json!({ "reason": "Tuesday is missing" }))
            }
            "POST /submissions/approve-batch" => {
                Call::of(json!({ "submissionIds": [scene.rows.submission] }))
            }
            "PUT /time-entries/week" => Call::of(json!({ "weekStart": week, "entries": [] })),
            "GET /weeks/{weekStart}/overview" => Call::about(&week),
            "GET /reports/hours" => Call::asking(&format!("?from={week}&to={week}")),
            _ => panic!("{operation} is not known to this test"),
        }
    }

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
}

pub(super) async fn make_project(scene: &mut Scene, code: &str) -> String {
    let body = json!({ "code": code, "name": "A project" });
    id(&scene.expect(Who::Admin, 201, "POST /projects", Call::of(body)).await)
}

/// The Monday `weeks` weeks from the current one, in UTC.
pub(super) fn monday(weeks: i32) -> String {
    day(weeks, 0)
}

/// A day of the week `weeks` weeks from the current one; 0 is Monday. Tests avoid the boundaries of the window of open
/// weeks, because the week may change while they run.
pub(super) fn day(weeks: i32, day: i32) -> String {
    const DAY: Duration = Duration::from_hours(24);
    let today = Clock::system().now().date();
    let days = weeks * 7 + day - i32::from(today.weekday().number_days_from_monday());
    let far = DAY * days.unsigned_abs();
    (if days < 0 { today - far } else { today + far }).to_string()
}
