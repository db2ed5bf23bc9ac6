//! The specification's table of the organization routes, route × status: the tests produce exactly the statuses that
//! each row lists, through the gateway over TLS and against PostgreSQL. States that no route produces (a group of
//! another source) are set up in the database; 503 is produced by stopping authz. The table is printed.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::login::subject;
use crate::harness::{Api, Separate};
use crate::statuses::{Rows, Table, filled};
use crate::tour::{create_company, create_member, link};

/// Method, path, success, errors: verbatim, the rows of "Organization administration", then those of "Decisions and
/// self-scoped reads" that org answers.
const SPECIFICATION: &str = "\
POST | /api/org/admin/units | 201 | 400, 401, 403, 409, 422, 503
GET | /api/org/admin/units/{id} | 200 | 400, 401, 403, 404, 503
GET | /api/org/admin/units/{id}/subtree | 200 | 400, 401, 403, 404, 503
POST | /api/org/admin/members | 201 | 400, 401, 403, 409, 422, 503
GET | /api/org/admin/members | 200 | 400, 401, 403, 503
PUT | /api/org/admin/members/{id} | 200 | 400, 401, 403, 404, 409, 503
POST | /api/org/admin/members/{id}/link-user | 200 | 400, 401, 403, 404, 409, 503
DELETE | /api/org/admin/members/{id}/link-user | 200 | 400, 401, 403, 404, 503
GET | /api/org/admin/companies/{companyId}/positions | 200 | 400, 401, 403, 503
POST | /api/org/admin/companies/{companyId}/positions | 201 | 400, 401, 403, 422, 503
POST | /api/org/admin/positions/{id}/assignments | 201 | 400, 401, 403, 404, 503
POST | /api/org/admin/assignments/{id}/end | 200 | 401, 403, 404, 409, 503
GET | /api/org/admin/companies/{companyId}/groups | 200 | 400, 401, 403, 503
POST | /api/org/admin/companies/{companyId}/groups | 201 | 400, 401, 403, 503
GET | /api/org/admin/groups/{id}/members | 200 | 401, 403, 503
POST | /api/org/admin/groups/{id}/members | 201 | 400, 401, 403, 404, 409, 503
DELETE | /api/org/admin/groups/{id}/members/{memberId} | 200 | 401, 403, 404, 409, 503
GET | /api/org/me/companies | 200 | 401
GET | /api/org/companies/{companyId}/members | 200 | 400, 401, 403
GET | /api/org/companies/{companyId}/members/by-subject/{subject} | 200 | 400, 401, 403, 503
";

/// A non-existent id.
const NOTHING: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
/// Rows of the table.
const ROWS: usize = 20;

#[tokio::test]
async fn every_status_of_every_row_is_produced_and_no_other() {
    let mut scene = Scene::start().await;
    let rows = scene.table.rows();
    assert_eq!(rows.len(), ROWS);
    scene.guards(&rows).await;
    scene.units().await;
    scene.members().await;
    scene.links().await;
    scene.positions().await;
    scene.groups().await;
    scene.reads().await;
    scene.without_authz(&rows).await;
    scene.table.print_and_compare();
}

/// The table: each route with its statuses.
fn rows() -> Rows {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(" | ").collect();
        let statuses = format!("{}, {}", cells[2], cells[3]);
        let statuses = statuses.split(", ").map(|status| status.parse().expect("a status")).collect();
        (format!("{} {}", cells[0], cells[1]), statuses)
    };
    SPECIFICATION.lines().map(row).collect()
}

/// A company with a member, and all callers.
struct Scene {
    platform: Separate,
    admin: Api,
    alice: Api,
    bob: Api,
    alice_subject: String,
    bob_subject: String,
    company: String,
    table: Table,
}

impl Scene {
    async fn start() -> Self {
        let platform = Separate::start("statuses").await;
        let admin = platform.api().with_token(&platform.token("admin").await);
        let (alice, bob) = (platform.token("alice").await, platform.token("bob").await);
        let company = create_company(&admin, "ACME").await;
        let scene = Self {
            alice: platform.api().with_token(&alice),
            bob: platform.api().with_token(&bob),
            alice_subject: subject(&alice),
            bob_subject: subject(&bob),
            table: Table::new(rows()),
            platform,
            admin,
            company,
        };
        for api in [&scene.alice, &scene.bob] {
            api.get("/api/org/me/companies").await.data(200);
        }
        let member = create_member(&scene.admin, &scene.company, "ALICE").await;
        link(&scene.admin, &member, &scene.alice_subject).await;
        scene
    }

    /// Makes a call as the superadmin and counts its status for the row `route`.
    async fn expect(
        &mut self,
        status: u16,
        code: &str,
        route: &str,
        ids: &[&str],
        body: Option<Value>,
    ) -> Value {
        let caller = self.admin.clone();
        self.expect_of(&caller, (status, code), route, ids, body).await
    }

    /// As above, as another caller. `ids` fill the path's parameters in order; the part of `route` after `?` is a
    /// query.
    async fn expect_of(
        &mut self,
        caller: &Api,
        (status, code): (u16, &str),
        route: &str,
        ids: &[&str],
        body: Option<Value>,
    ) -> Value {
        let (method, path) = route.split_once(' ').expect("a method and a path");
        let path = filled(path, ids);
        let reply = caller.send(method.parse::<Method>().expect("a method"), &path, body).await;
        assert_eq!(reply.status.as_u16(), status, "{method} {path}: {}", reply.body);
        assert_eq!(
            reply.body["error"]["code"].as_str().unwrap_or_default(),
            code,
            "{method} {path}: {}",
            reply.body
        );
        self.table.count(route.split('?').next().expect("a route"), status);
        reply.body["data"].clone()
    }

    /// Every row without a bearer, with an invalid one, and as a subject without the role.
    async fn guards(&mut self, rows: &Rows) {
        let (nobody, forged) = (self.platform.api(), self.platform.api().with_token("a.b.c"));
        let bob = self.bob.clone();
        for (route, listed) in rows {
            let body = route.starts_with('P').then(|| json!({}));
            let ids = [self.company.clone(), NOTHING.to_owned()];
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            self.expect_of(&nobody, (401, "AUTH_TOKEN_MISSING"), route, &ids, body.clone()).await;
            self.expect_of(&forged, (401, "AUTH_TOKEN_INVALID"), route, &ids, body.clone()).await;
            if listed.contains(&403) {
                let code = if route.contains("/admin/") { "PLATFORM_ROLE_REQUIRED" } else { "FORBIDDEN" };
                self.expect_of(&bob, (403, code), route, &ids, body).await;
            }
        }
    }

    async fn units(&mut self) {
        const CREATE: &str = "POST /api/org/admin/units";
        let company = self.company.clone();
        let unit = |code: &str| json!({"typeKey": "department", "parentId": company, "code": code, "name": "A unit"});
        let made = self.expect(201, "", CREATE, &[], Some(unit("sales"))).await;
        assert_eq!(made["code"], "SALES");
        self.expect(400, "VALIDATION_ERROR", CREATE, &[], Some(json!({}))).await;
        self.expect(409, "CONFLICT", CREATE, &[], Some(unit("Sales"))).await;
        let twice = json!({"typeKey": "company", "code": "acme", "name": "Twice"});
        self.expect(409, "CONFLICT", CREATE, &[], Some(twice)).await;
        let unknown = json!({"typeKey": "galaxy", "parentId": company, "code": "g", "name": "G"});
        self.expect(422, "VALIDATION_FAILED", CREATE, &[], Some(unknown)).await;
        for route in ["GET /api/org/admin/units/{id}", "GET /api/org/admin/units/{id}/subtree"] {
            self.expect(200, "", route, &[&company], None).await;
            self.expect(400, "BAD_REQUEST", route, &["x"], None).await;
            self.expect(404, "NOT_FOUND", route, &[NOTHING], None).await;
        }
    }

    async fn members(&mut self) {
        const CREATE: &str = "POST /api/org/admin/members";
        const CHANGE: &str = "PUT /api/org/admin/members/{id}";
        let company = self.company.clone();
        let member =
            |company: &str, code: &str| json!({"companyId": company, "code": code, "displayName": code});
        let first = text(&self.expect(201, "", CREATE, &[], Some(member(&company, "m1"))).await["id"]);
        self.expect(400, "VALIDATION_ERROR", CREATE, &[], Some(json!({"code": "m2"}))).await;
        self.expect(409, "CONFLICT", CREATE, &[], Some(member(&company, "M1"))).await;
        self.expect(422, "VALIDATION_FAILED", CREATE, &[], Some(member(NOTHING, "m1"))).await;
        let list = format!("GET /api/org/admin/members?companyId={company}");
        self.expect(200, "", &list, &[], None).await;
        self.expect(400, "VALIDATION_ERROR", "GET /api/org/admin/members", &[], None).await;

        self.expect(200, "", CHANGE, &[&first], Some(json!({"email": "m@example.test"}))).await;
        self.expect(400, "VALIDATION_ERROR", CHANGE, &[&first], Some(json!({"email": "no address"}))).await;
        self.expect(400, "BAD_REQUEST", CHANGE, &["x"], Some(json!({}))).await;
        self.expect(404, "NOT_FOUND", CHANGE, &[NOTHING], Some(json!({}))).await;
        // An address belongs to one linked member of a company.
        let (first_subject, second) =
            (self.bob_subject.clone(), create_member(&self.admin, &company, "m2").await);
        link(&self.admin, &first, &first_subject).await;
        let carol = subject(&self.platform.token("carol").await);
        self.platform
            .api()
            .with_token(&self.platform.token("carol").await)
            .get("/api/org/me/companies")
            .await
            .data(200);
        link(&self.admin, &second, &carol).await;
        self.expect(409, "CONFLICT", CHANGE, &[&second], Some(json!({"email": "M@example.test"}))).await;
        for member in [&first, &second] {
            let path = format!("/api/org/admin/members/{member}/link-user");
            self.admin.send(Method::DELETE, &path, None).await.data(200);
        }
    }

    async fn links(&mut self) {
        const LINK: &str = "POST /api/org/admin/members/{id}/link-user";
        const UNLINK: &str = "DELETE /api/org/admin/members/{id}/link-user";
        let (alice, bob) = (self.alice_subject.clone(), self.bob_subject.clone());
        let company = self.company.clone();
        let member = create_member(&self.admin, &company, "l1").await;
        let body = |subject: &str| Some(json!({ "kcSub": subject }));
        self.expect(400, "VALIDATION_ERROR", LINK, &[&member], Some(json!({}))).await;
        self.expect(400, "BAD_REQUEST", LINK, &["x"], body(&bob)).await;
        self.expect(404, "NOT_FOUND", LINK, &[NOTHING], body(&bob)).await;
        self.expect(404, "NOT_FOUND", LINK, &[&member], body("nobody-was-ever-called-this")).await;
        self.expect(409, "CONFLICT", LINK, &[&member], body(&alice)).await;
        self.expect(200, "", LINK, &[&member], body(&bob)).await;
        self.expect(409, "CONFLICT", LINK, &[&member], body(&alice)).await;
        self.expect(200, "", UNLINK, &[&member], None).await;
        self.expect(400, "BAD_REQUEST", UNLINK, &["x"], None).await;
        self.expect(404, "NOT_FOUND", UNLINK, &[NOTHING], None).await;
    }

    async fn positions(&mut self) {
        const CREATE: &str = "POST /api/org/admin/companies/{companyId}/positions";
        const LIST: &str = "GET /api/org/admin/companies/{companyId}/positions";
        const ASSIGN: &str = "POST /api/org/admin/positions/{id}/assignments";
        const END: &str = "POST /api/org/admin/assignments/{id}/end";
        let company = self.company.clone();
        let body = |unit: &str| Some(json!({"code": "p1", "title": "A position", "orgUnitId": unit}));
        let position = text(&self.expect(201, "", CREATE, &[&company], body(&company)).await["id"]);
        self.expect(400, "VALIDATION_ERROR", CREATE, &[&company], Some(json!({}))).await;
        self.expect(400, "BAD_REQUEST", CREATE, &["x"], body(&company)).await;
        self.expect(422, "VALIDATION_FAILED", CREATE, &[&company], body(&company)).await;
        self.expect(422, "VALIDATION_FAILED", CREATE, &[&company], body(NOTHING)).await;
        self.expect(200, "", LIST, &[&company], None).await;
        self.expect(400, "BAD_REQUEST", LIST, &["x"], None).await;
        let member = create_member(&self.admin, &company, "p1").await;
        let who = |member: &str| Some(json!({ "memberId": member }));
        let term = text(&self.expect(201, "", ASSIGN, &[&position], who(&member)).await["id"]);
        self.expect(400, "VALIDATION_ERROR", ASSIGN, &[&position], Some(json!({}))).await;
        self.expect(400, "BAD_REQUEST", ASSIGN, &["x"], who(&member)).await;
        self.expect(404, "NOT_FOUND", ASSIGN, &[NOTHING], who(&member)).await;
        self.expect(404, "NOT_FOUND", ASSIGN, &[&position], who(NOTHING)).await;
        self.expect(200, "", END, &[&term], None).await;
        self.expect(409, "ASSIGNMENT_ALREADY_ENDED", END, &[&term], None).await;
        self.expect(404, "NOT_FOUND", END, &[NOTHING], None).await;
        self.expect(404, "NOT_FOUND", END, &["x"], None).await;
    }

    async fn groups(&mut self) {
        const CREATE: &str = "POST /api/org/admin/companies/{companyId}/groups";
        const LIST: &str = "GET /api/org/admin/companies/{companyId}/groups";
        const MEMBERS: &str = "GET /api/org/admin/groups/{id}/members";
        const ADD: &str = "POST /api/org/admin/groups/{id}/members";
        const REMOVE: &str = "DELETE /api/org/admin/groups/{id}/members/{memberId}";
        let company = self.company.clone();
        let body = Some(json!({"code": "g1", "name": "A group"}));
        let group = text(&self.expect(201, "", CREATE, &[&company], body.clone()).await["id"]);
        self.expect(400, "VALIDATION_ERROR", CREATE, &[&company], body.clone()).await;
        self.expect(400, "BAD_REQUEST", CREATE, &["x"], body).await;
        self.expect(200, "", LIST, &[&company], None).await;
        self.expect(400, "BAD_REQUEST", LIST, &["x"], None).await;
        self.expect(200, "", MEMBERS, &[&group], None).await;
        let (member, other) = (
            create_member(&self.admin, &company, "g1").await,
            create_member(&self.admin, &company, "g2").await,
        );
        let who = |member: &str| Some(json!({ "memberId": member }));
        self.expect(201, "", ADD, &[&group], who(&member)).await;
        self.expect(400, "VALIDATION_ERROR", ADD, &[&group], Some(json!({}))).await;
        self.expect(404, "NOT_FOUND", ADD, &[&group], who(NOTHING)).await;
        self.expect(409, "CONFLICT", ADD, &[&group], who(&member)).await;
        self.expect(200, "", REMOVE, &[&group, &member], None).await;
        self.expect(404, "NOT_FOUND", REMOVE, &[&group, &member], None).await;
        self.expect(201, "", ADD, &[&group], who(&member)).await;
        // No route creates a group of another source.
        sqlx::query("UPDATE org.groups SET source = 'directory' WHERE id = $1::uuid")
            .bind(&group)
            .execute(&self.platform.owner())
            .await
            .expect("the group is there");
        self.expect(409, "GROUP_NOT_PLATFORM_MANAGED", ADD, &[&group], who(&other)).await;
        self.expect(409, "GROUP_NOT_PLATFORM_MANAGED", REMOVE, &[&group, &member], None).await;
    }

    async fn reads(&mut self) {
        const MINE: &str = "GET /api/org/me/companies";
        const DIRECTORY: &str = "GET /api/org/companies/{companyId}/members";
        const BY_SUBJECT: &str = "GET /api/org/companies/{companyId}/members/by-subject/{subject}";
        let (alice, company) = (self.alice.clone(), self.company.clone());
        let subject = self.alice_subject.clone();
        let mine = self.expect_of(&alice, (200, ""), MINE, &[], None).await;
        assert_eq!(mine[0]["code"], "ACME");
        self.expect_of(&alice, (200, ""), DIRECTORY, &[&company], None).await;
        self.expect(200, "", DIRECTORY, &[&company], None).await;
        let past = format!("{DIRECTORY}?pageSize=101");
        self.expect_of(&alice, (400, "VALIDATION_ERROR"), &past, &[&company], None).await;
        self.expect_of(&alice, (400, "BAD_REQUEST"), DIRECTORY, &["x"], None).await;
        let found = self.expect(200, "", BY_SUBJECT, &[&company, &subject], None).await;
        assert_eq!((&found["isMember"], &found["isActive"]), (&json!(true), &json!(true)));
        self.expect(400, "BAD_REQUEST", BY_SUBJECT, &["x", &subject], None).await;
    }

    /// With authz stopped, no caller can be admitted.
    async fn without_authz(&mut self, rows: &Rows) {
        self.platform.kill("authz");
        for (route, _) in rows.iter().filter(|(_, listed)| listed.contains(&503)) {
            let body = route.starts_with('P').then(|| json!({}));
            let ids = [self.company.clone(), NOTHING.to_owned()];
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            self.expect(503, "AUTHORIZATION_UNAVAILABLE", route, &ids, body).await;
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}
