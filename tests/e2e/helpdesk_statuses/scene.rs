//! Helpdesk rows for the calls.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Api, eventually};
use crate::module_scene::{Call, Module, Who, id};

pub(super) type Scene = crate::module_scene::Scene<Helpdesk>;

/// A notice is sent at once, which takes a while on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// Ids of the rows that every test has.
#[derive(Default)]
pub(super) struct Helpdesk {
    /// Alice's open ticket.
    pub(super) ticket: String,
    /// A vacant position of the company.
    pub(super) position: String,
    /// A group of the company, with Alice in it.
    pub(super) group: String,
}

impl Module for Helpdesk {
    const KEY: &'static str = "helpdesk";
    const DOCUMENT: &'static str = include_str!("../../../modules/helpdesk/openapi.json");
    const READ: &'static str = "GET /tickets";
    const WITHOUT_TABLES: &'static [&'static str] =
        &["GET /tier", "GET /assignable-positions", "GET /assignable-groups"];

    async fn prepare(scene: &mut Scene) {
        scene.rows.position = make_position(&scene.admin, &scene.company, "DESK").await;
        scene.rows.group = make_group(&scene.admin, &scene.company, "LINE").await;
        let join = format!("/api/org/admin/groups/{}/members", scene.rows.group);
        scene.admin.post(&join, json!({ "memberId": scene.alice_member })).await.data(201);
        scene.rows.ticket = open(scene, Who::Alice).await;
    }

    fn sample(scene: &Scene, operation: &str) -> Call {
        let (ticket, rows) = (Call::about(&scene.rows.ticket), &scene.rows);
        match operation {
            "GET /tier"
            | "GET /tickets"
            | "GET /tickets/search"
            | "GET /assignable-positions"
            | "GET /assignable-groups"
            | "GET /bindings"
            | "GET /settings" => Call::default(),
            "POST /tickets" => Call::of(json!({ "title": "A ticket", "description": "" })),
            "GET /tickets/{ticketId}"
            | "GET /tickets/{ticketId}/history"
            | "GET /tickets/{ticketId}/comments" => ticket,
            "PUT /tickets/{ticketId}/assignee" => ticket.with(json!({ "assigneePositionId": rows.position })),
            "PUT /tickets/{ticketId}/status" => ticket.with(json!({ "status": "in_progress" })),
            "POST /tickets/{ticketId}/comments" => ticket.with(json!({ "body": "It burns." })),
            "POST /bindings" => Call::of(json!({ "positionId": rows.position, "tier": "editor" })),
            "DELETE /bindings/positions/{positionId}" => Call::about(&rows.position),
            "DELETE /bindings/groups/{groupId}" => Call::about(&rows.group),
            "DELETE /bindings/members/{memberId}" => Call::about(&scene.alice_member),
            "PUT /settings" => Call::of(json!({ "reopenOnReporterComment": false })),
            _ => panic!("{operation} is not known to this test"),
        }
    }

    fn wrong_values() -> Vec<(&'static str, Call)> {
        vec![
            ("GET /tickets", Call::asking("?view=theirs")),
            ("GET /tickets/search", Call::asking("?page=0")),
            ("POST /tickets", Call::of(json!({}))),
            ("POST /bindings", Call::of(json!({ "tier": "member" }))),
            ("PUT /settings", Call::of(json!({ "autoCloseResolvedDays": 0 }))),
        ]
    }
}

/// Waits until the worker has sent every notice.
pub(super) async fn notices_are_settled(scene: &Scene) {
    let owner = scene.platform.owner();
    eventually("every notice is told", PATIENCE, || async {
        let pending = "SELECT count(*) FROM helpdesk.notices WHERE state = 'pending'";
        let pending: i64 =
            sqlx::query_scalar(pending).fetch_one(&owner).await.map_err(|error| error.to_string())?;
        if pending == 0 { Ok(()) } else { Err(format!("{pending} notices wait")) }
    })
    .await;
    owner.close().await;
}

/// Opens a ticket; returns its id.
pub(super) async fn open(scene: &mut Scene, who: Who) -> String {
    let call = scene.sample("POST /tickets");
    id(&scene.expect(who, 201, "POST /tickets", call).await)
}

/// Creates a vacant position in a company.
pub(super) async fn make_position(admin: &Api, company: &str, code: &str) -> String {
    let path = format!("/api/org/admin/companies/{company}/positions");
    let body = json!({ "code": code, "title": code, "orgUnitId": company });
    id(admin.post(&path, body).await.data(201))
}

/// Creates an empty group in a company.
pub(super) async fn make_group(admin: &Api, company: &str, code: &str) -> String {
    let path = format!("/api/org/admin/companies/{company}/groups");
    id(admin.post(&path, json!({ "code": code, "name": code })).await.data(201))
}
