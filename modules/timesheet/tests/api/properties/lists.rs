//! Properties of lists: reading writes nothing, rows of other companies are not shown, and the pages together are the
//! whole list.

use serde_json::{Value, json};
use uuid::Uuid;

use super::history::play;
use crate::start;
use crate::support::{day_of, monday};
use crate::world::World;

#[tokio::test]
async fn p11_reading_an_untouched_company_gives_defaults_and_writes_nothing() {
    let module = start().await;
    let world = World::around(module, &[&["admin"]]);
    let before = world.module.contents().await;
    let settings = world.ask(0, "GET", "/settings", None).await;
    let expected = json!({ "companyId": world.module.company, "enforceBillableWithinActual": true,
        "allowBillableAboveEightHours": false, "allowedPreviousWeeks": 4, "allowedFutureWeeks": 1 });
    assert_eq!((settings.status, settings.data()), (200, &expected));
    for tail in lists() {
        assert_eq!(world.ask(0, "GET", &tail, None).await.status, 200, "{tail}");
    }
    assert_eq!(world.module.contents().await, before);
}

/// Every list of the module.
fn lists() -> [String; 8] {
    [
        "/projects?".to_owned(),
        "/member-approvers?".to_owned(),
        format!("/time-entries?weekStart={}", monday(0)),
        "/submissions?view=mine".to_owned(),
        "/submissions?view=approvals".to_owned(),
        "/submissions?view=all".to_owned(),
        format!("/weeks/{}/overview?", monday(0)),
        format!("/reports/hours?from={}&to={}&groupBy=member,project,day", day_of(-8, 0), day_of(1, 6)),
    ]
}

#[tokio::test]
async fn p15_all_pages_together_are_the_whole_list() {
    let played = play(151).await;
    let world = &played.world;
    for tail in lists().into_iter().filter(|tail| !tail.starts_with("/time-entries")) {
        for who in [0, 3] {
            let whole = world.ask(who, "GET", &format!("{tail}&pageSize=100"), None).await;
            if whole.status == 403 {
                continue;
            }
            let items = whole.data()["items"].as_array().expect("a list").clone();
            assert_eq!(whole.data()["total"], json!(items.len()), "{tail}");
            for size in [1, 2, 3, 7, 25] {
                let mut seen: Vec<Value> = Vec::new();
                let pages = items.len().div_ceil(size);
                for page in 1..=pages + 1 {
                    let reply =
                        world.ask(who, "GET", &format!("{tail}&page={page}&pageSize={size}"), None).await;
                    let data = reply.data();
                    assert_eq!((&data["total"], &data["totalPages"]), (&json!(items.len()), &json!(pages)));
                    seen.extend(data["items"].as_array().expect("a list").clone());
                }
                assert_eq!(seen, items, "{tail} pageSize {size}");
            }
        }
    }
}

/// A call cannot even reveal that another company has an id: every operation of the document is called under one
/// company's path with every id of another. Authz allows everything here, so only the module's own rows refuse.
#[tokio::test]
async fn p12_ids_of_another_company_are_unknown_ids() {
    let played = play(121).await;
    let module = &played.world.module;
    let theirs = Theirs::of(&played).await;
    module.decide(|_| true);
    let own = Uuid::now_v7();
    for (path, answer) in [
        (
            "members/by-kcsub/*",
            json!({ "isMember": true, "isActive": true, "memberId": Uuid::now_v7(),
            "displayName": null, "email": null, "positionIds": [], "groupIds": [] }),
        ),
        ("members", json!({ "items": [], "total": 0, "page": 1, "pageSize": 25, "totalPages": 0 })),
    ] {
        let path = format!("/internal/org/companies/{own}/{path}");
        module.org.answer("GET", &path, 200, json!({ "data": answer }));
    }
    let lookup = format!("/internal/org/companies/{own}/lookup");
    module.org.answer(
        "POST",
        &lookup,
        200,
        json!({ "data": { "members": [], "positions": [], "groups": [] } }),
    );
    let before = module.contents().await;
    let mut called = Vec::new();
    for operation in module.document().operations() {
        let (method, template) = operation.split_once(' ').expect("a method and a path");
        let Some(tail) = template.strip_prefix("/v1/companies/{companyId}") else { continue };
        for (tail, body, expected) in theirs.calls(method, tail) {
            let call = module.call(method, &module.path(own, &tail));
            let reply = if let Some(body) = body { call.json(body).send().await } else { call.send().await };
            module.document().check(method, &format!("/v1/companies/{own}{tail}"), &reply);
            assert_eq!(reply.status, expected, "{method} {tail}: {}", reply.text);
            assert!(expected != 200 || !theirs.mentioned(&reply.body), "{method} {tail}: {}", reply.text);
            called.push(operation.clone());
        }
    }
    called.dedup();
    assert_eq!(called.len() + 2, module.document().operations().len(), "all but the probes: {called:?}");
    assert_eq!(module.contents().await, before, "nothing was changed");
}

/// The path after the company, a body, and the expected status.
type Call = (String, Option<Value>, u16);

/// Every id of a company.
struct Theirs {
    projects: Vec<String>,
    members: Vec<String>,
    submissions: Vec<String>,
    all: Vec<String>,
}

impl Theirs {
    async fn of(played: &super::history::Played) -> Self {
        let ids = async |table: &str, column: &str| {
            let sql = format!("SELECT DISTINCT {column}::text FROM timesheet.{table}");
            let found = sqlx::query_scalar::<_, String>(sqlx::AssertSqlSafe(sql));
            found.fetch_all(&played.world.module.database.owner_pool()).await.expect("ids")
        };
        let (projects, submissions) = (ids("projects", "id").await, ids("submissions", "id").await);
        let (members, entries) = (ids("member_weeks", "member_id").await, ids("entries", "id").await);
        assert!([&projects, &submissions, &members, &entries].iter().all(|ids| ids.len() > 1));
        let all = [projects.clone(), submissions.clone(), members.clone(), entries].concat();
        Self { projects, members, submissions, all }
    }

    fn mentioned(&self, body: &Value) -> bool {
        let text = body.to_string();
        self.all.iter().any(|id| text.contains(id))
    }

    /// The calls of an operation, with each id that it takes.
    fn calls(&self, method: &str, tail: &str) -> Vec<Call> {
        let each =
            |ids: &[String], call: &dyn Fn(&str) -> Call| ids.iter().map(|id| call(id)).collect::<Vec<_>>();
        let week = monday(0);
        match (method, tail) {
            ("PUT", "/projects/{projectId}") => each(&self.projects, &|id| {
                (format!("/projects/{id}"), Some(json!({ "code": "X", "name": "n" })), 404)
            }),
            (_, tail) if tail.contains("{submissionId}") => each(&self.submissions, &|id| {
                let body = (method == "POST").then(|| json!({ "reason": "x" }));
                (tail.replace("{submissionId}", id), body, 404)
            }),
            ("PUT", "/member-approvers") => each(&self.members, &|id| {
                let body = json!({ "memberId": id, "approverMemberId": Uuid::now_v7() });
                ("/member-approvers".to_owned(), Some(body), 422)
            }),
            ("PUT", "/time-entries") => each(&self.projects, &|id| {
                let body = json!({ "projectId": id, "entryDate": week, "realHours": 1 });
                ("/time-entries".to_owned(), Some(body), 422)
            }),
            ("PUT", "/time-entries/week") => each(&self.projects, &|id| {
                let row = json!({ "projectId": id, "entryDate": week, "realHours": 1 });
                (tail.to_owned(), Some(json!({ "weekStart": week, "entries": [row] })), 422)
            }),
            ("POST", "/submissions/approve-batch") => {
                // Every id is returned as it was sent, with a 404.
                vec![(tail.to_owned(), Some(json!({ "submissionIds": [Uuid::now_v7()] })), 200)]
            }
            // These take only the company's id; a body that changes nothing shows that they write nowhere else.
            ("PUT", "/settings") => vec![(tail.to_owned(), Some(json!({})), 200)],
            ("POST", "/projects" | "/submissions") => vec![(tail.to_owned(), Some(json!({})), 400)],
            ("GET", "/time-entries") => vec![(format!("{tail}?weekStart={week}"), None, 200)],
            ("GET", "/weeks/{weekStart}/overview") => vec![(format!("/weeks/{week}/overview"), None, 200)],
            ("GET", "/reports/hours") => vec![(format!("{tail}?from={week}&to={week}"), None, 200)],
            ("GET", "/submissions") => {
                ["mine", "approvals", "all"].map(|view| (format!("{tail}?view={view}"), None, 200)).to_vec()
            }
            ("GET", _) => vec![(tail.to_owned(), None, 200)],
            _ => panic!("{method} {tail} is not known to this test"),
        }
    }
}

#[tokio::test]
async fn p12_a_batch_of_another_companys_submissions_approves_none() {
    let played = play(122).await;
    let module = &played.world.module;
    let theirs = Theirs::of(&played).await;
    module.decide(|_| true);
    let own = Uuid::now_v7();
    let place = json!({ "data": { "isMember": true, "isActive": true, "memberId": Uuid::now_v7(),
        "displayName": null, "email": null, "positionIds": [], "groupIds": [] } });
    module.org.answer("GET", &format!("/internal/org/companies/{own}/*"), 200, place);
    let before = module.contents().await;
    let call = module.call("POST", &module.path(own, "/submissions/approve-batch"));
    let reply = call.json(json!({ "submissionIds": theirs.submissions })).send().await;
    let items = reply.data()["items"].as_array().expect("a list");
    assert!(items.iter().all(|item| item["error"]["code"] == "NOT_FOUND"), "{}", reply.text);
    assert_eq!(module.contents().await, before);
}
