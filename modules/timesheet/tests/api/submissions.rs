//! Submitting weeks, their versions and views, and the responses to a repeated key.

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::module::{CORRELATION, SUBJECT};
use testkit::{ModuleApi, Reply};
use uuid::Uuid;

use crate::support::{day_of, monday, project, put, reason, settle, start_with_members, submit, submit_as};

/// Day and project, with worked and billable hundredths.
type Held = (String, i32, i32);

async fn list(module: &ModuleApi, query: &str) -> Value {
    let reply = module.ask("GET", &format!("/submissions{query}"), None).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.data()["items"].clone()
}

fn ids(items: &Value) -> Vec<Value> {
    items.as_array().expect("a list").iter().map(|item| item["id"].clone()).collect()
}

/// The entries of a version.
async fn snapshot(module: &ModuleApi, id: &Value) -> Vec<Held> {
    rows(module, "submission_entries", "submission_id", id).await
}

/// The present entries of a member's week.
async fn entries(module: &ModuleApi, member: Uuid) -> Vec<Held> {
    rows(module, "entries", "member_id", &json!(member)).await
}

async fn rows(module: &ModuleApi, table: &str, column: &str, id: &Value) -> Vec<Held> {
    let sql = format!(
        "SELECT entry_date::text || project_id, (real_hours * 100)::int, (billable_hours * 100)::int
         FROM timesheet.{table} WHERE {column} = '{}' ORDER BY 1",
        id.as_str().expect("an id")
    );
    let found = sqlx::query_as(sqlx::AssertSqlSafe(sql)).fetch_all(&module.database.owner_pool()).await;
    found.expect("rows")
}

#[tokio::test]
async fn a_submitted_week_is_locked_listed_kept_and_audited_once() {
    let (module, [ann, bob, _]) = start_with_members().await;
    let body = json!({ "memberId": ann, "approverMemberId": bob });
    module.ask("PUT", "/member-approvers", Some(body)).await;
    let web = project(&module, "WEB").await;
    put(&module, &web, &day_of(0, 0), 7.5).await;
    let made = submit(&module, &monday(0)).await;
    let id = made.data()["id"].clone();
    let expected = json!({
        "id": id, "companyId": module.company, "memberId": ann, "weekStart": monday(0), "versionNumber": 1,
        "rootId": id, "supersedesId": null, "isCurrent": true, "status": "submitted",
        "assignedApproverMemberId": bob, "rejectReason": null,
        "permissions": { "canApprove": false, "canReject": false, "canRevert": true },
    });
    assert_eq!((made.status, made.data()), (201, &expected));
    assert_eq!(list(&module, "").await, json!([expected]));
    assert_eq!(snapshot(&module, &id).await, entries(&module, ann).await);
    let locked = put(&module, &web, &day_of(0, 0), 1.0).await;
    assert_eq!((locked.status, locked.code()), (409, "WEEK_LOCKED"));
    assert_eq!(locked.body["error"]["details"], json!({ "submissionId": id, "status": "submitted" }));
    let week = module.ask("GET", &format!("/time-entries?weekStart={}", monday(0)), None).await;
    assert_eq!(week.data()["items"][0]["status"], "submitted");
    let told = module.audit().await;
    let event = json!({
        "companyId": module.company, "actor": SUBJECT, "action": "submission.submitted",
        "subject": format!("submission:{}", id.as_str().expect("an id")), "correlationId": CORRELATION,
        "payload": { "memberId": ann, "weekStart": monday(0), "versionNumber": 1, "supersedesId": null,
            "assignedApproverMemberId": bob },
    });
    assert_eq!(told.last(), Some(&event));
    assert_eq!(told.len(), 4, "approver, project, entry, submission");
}

#[tokio::test]
async fn a_week_that_waits_or_is_approved_is_not_submitted_again() {
    let (module, _) = start_with_members().await;
    let made = submit(&module, &monday(0)).await;
    assert_eq!(made.status, 201, "an empty week reports that nothing was worked");
    let before = module.contents().await;
    let again = submit(&module, &monday(0)).await;
    assert_eq!((again.status, again.code()), (409, "SUBMISSION_PENDING"));
    assert_eq!(again.body["error"]["details"]["submissionId"], made.data()["id"]);
    assert_eq!(module.contents().await, before);
    settle(&module, &made, "approved").await;
    assert_eq!(submit(&module, &monday(0)).await.code(), "SUBMISSION_APPROVED");
}

#[tokio::test]
async fn p01_p05_versions_are_a_chain_and_each_keeps_what_it_held() {
    let (module, [ann, ..]) = start_with_members().await;
    let web = project(&module, "WEB").await;
    let mut versions: Vec<(Value, Vec<Held>)> = Vec::new();
    for (round, status) in ["rejected", "reverted", "rejected"].into_iter().enumerate() {
        let number = u32::try_from(round).expect("few") + 1;
        assert_eq!(put(&module, &web, &day_of(0, 2), f64::from(number)).await.status, 200);
        let made = submit(&module, &monday(0)).await;
        let data = made.data();
        let before = versions.last().map_or(Value::Null, |(id, _)| id.clone());
        let root = versions.first().map_or_else(|| data["id"].clone(), |(id, _)| id.clone());
        assert_eq!((&data["versionNumber"], &data["supersedesId"]), (&json!(number), &before));
        assert_eq!((&data["rootId"], &data["isCurrent"]), (&root, &json!(true)));
        versions.push((data["id"].clone(), entries(&module, ann).await));
        settle(&module, &made, status).await;
    }
    for (id, held) in &versions {
        assert_eq!(&snapshot(&module, id).await, held, "what was submitted can always be shown");
    }
    let listed = list(&module, "").await;
    let latest_first: Vec<Value> = versions.iter().rev().map(|(id, _)| id.clone()).collect();
    assert_eq!(ids(&listed), latest_first);
    let current: Vec<&Value> =
        listed.as_array().expect("a list").iter().map(|item| &item["isCurrent"]).collect();
    assert_eq!(current, [&json!(true), &json!(false), &json!(false)]);
}

#[tokio::test]
async fn p09_p10_only_an_open_monday_is_submitted() {
    let (module, _) = start_with_members().await;
    for (body, expected) in [
        (json!({}), "weekStart required"),
        (json!({ "weekStart": 7 }), "weekStart type"),
        (json!({ "weekStart": "2026-02-30" }), "weekStart date"),
        (json!({ "weekStart": day_of(0, 1) }), "weekStart monday"),
        (json!({ "weekStart": day_of(0, 6) }), "weekStart monday"),
    ] {
        let reply = module.ask("POST", "/submissions", Some(body)).await;
        assert_eq!(reply.wrong_fields(), [expected]);
    }
    for weeks in [-6, 3] {
        let reply = submit(&module, &monday(weeks)).await;
        assert_eq!((reply.status, reason(&reply)), (422, "WEEK_OUT_OF_WINDOW"));
    }
    assert!(module.audit().await.is_empty());
    let open = json!({ "allowedPreviousWeeks": 10 });
    module.ask("PUT", "/settings", Some(open)).await;
    let late = submit(&module, &monday(-8)).await;
    settle(&module, &late, "rejected").await;
    module.ask("PUT", "/settings", Some(json!({ "allowedPreviousWeeks": 4 }))).await;
    assert_eq!(submit(&module, &monday(-8)).await.data()["versionNumber"], 2);
    assert_eq!(reason(&submit(&module, &monday(-9)).await), "WEEK_OUT_OF_WINDOW");
}

#[tokio::test]
async fn the_weeks_hours_are_checked_again_and_the_first_wrong_day_is_named() {
    let (module, _) = start_with_members().await;
    let web = project(&module, "WEB").await;
    let rules = |within: bool, above: bool| json!({ "enforceBillableWithinActual": within, "allowBillableAboveEightHours": above });
    module.ask("PUT", "/settings", Some(rules(false, true))).await;
    for (day, real, billable) in [(0, 9, 8), (2, 10, 9), (4, 2, 3)] {
        let body = json!({ "projectId": web, "entryDate": day_of(0, day), "realHours": real,
            "billableHours": billable });
        assert_eq!(module.ask("PUT", "/time-entries", Some(body)).await.status, 200);
    }
    for (within, above, expected, day) in
        [(true, false, "BILLABLE_ABOVE_EIGHT_HOURS", 2), (true, true, "BILLABLE_EXCEEDS_ACTUAL", 4)]
    {
        module.ask("PUT", "/settings", Some(rules(within, above))).await;
        let reply = submit(&module, &monday(0)).await;
        assert_eq!((reply.status, reason(&reply)), (422, expected));
        assert_eq!(reply.body["error"]["details"]["entryDate"], day_of(0, day));
    }
    module.ask("PUT", "/settings", Some(rules(false, true))).await;
    assert_eq!(submit(&module, &monday(0)).await.status, 201);
}

#[tokio::test]
async fn views_show_mine_those_to_decide_and_all() {
    let (module, [ann, bob, eve]) = start_with_members().await;
    let assign = json!({ "memberId": ann, "approverMemberId": bob });
    module.ask("PUT", "/member-approvers", Some(assign)).await;
    let assigned = submit(&module, &monday(0)).await.data()["id"].clone();
    module.member(eve, &[], &[]);
    let free = submit_as(&module, "eve", eve, &monday(-1)).await.data()["id"].clone();
    let mine = |member: Uuid| module.member(member, &[], &[]);
    mine(bob);
    assert_eq!(list(&module, "").await, json!([]));
    module.hold(&["member", "viewer"]);
    assert_eq!(ids(&list(&module, "?view=approvals").await), std::slice::from_ref(&assigned));
    module.hold(&["member", "viewer", "approver"]);
    assert_eq!(ids(&list(&module, "?view=approvals").await), [assigned.clone(), free.clone()]);
    let all = list(&module, "?view=all").await;
    assert_eq!(ids(&all), [assigned.clone(), free.clone()], "latest week first");
    mine(ann);
    assert_eq!(ids(&list(&module, "?view=approvals").await), [free], "never one's own");
    assert_eq!(ids(&list(&module, "?view=mine").await), [assigned]);
    module.hold(&["member"]);
    let denied = module.ask("GET", "/submissions?view=all", None).await;
    assert_eq!((denied.status, &denied.body["error"]["details"]["relation"]), (403, &json!("viewer")));
    for (query, expected) in
        [("view=own", vec!["view enum"]), ("view=x&page=0", vec!["view enum", "page range"])]
    {
        let reply = module.ask("GET", &format!("/submissions?{query}"), None).await;
        assert_eq!(reply.wrong_fields(), expected);
    }
    module.decide(|_| true);
    let stranger = json!({ "data": { "isMember": false, "isActive": false, "memberId": null,
        "displayName": null, "email": null, "positionIds": [], "groupIds": [] } });
    module.answer_context(200, stranger);
    assert_eq!(list(&module, "?view=all").await.as_array().map(Vec::len), Some(2), "an operator");
    for view in ["mine", "approvals"] {
        let reply = module.ask("GET", &format!("/submissions?view={view}"), None).await;
        assert_eq!((reply.status, reason(&reply)), (403, "COMPANY_MEMBERSHIP_REQUIRED"));
    }
}

#[tokio::test]
async fn p12_p15_pages_are_the_whole_list_of_one_company() {
    let (module, _) = start_with_members().await;
    for weeks in -3..=1 {
        assert_eq!(submit(&module, &monday(weeks)).await.status, 201);
    }
    for size in [1, 2, 5, 100] {
        let mut seen = Vec::new();
        for page in 1..=6 {
            let items = list(&module, &format!("?view=all&page={page}&pageSize={size}")).await;
            seen.extend(items.as_array().expect("a list").iter().map(|item| item["weekStart"].clone()));
        }
        let expected: Vec<String> = (-3..=1).rev().map(monday).collect();
        assert_eq!(json!(seen), json!(expected), "pageSize {size}");
    }
    let foreign = Uuid::now_v7();
    module.org.answer("GET", &format!("/internal/org/companies/{foreign}/*"), 404, json!({}));
    let context = format!("/internal/org/companies/{foreign}/members/by-kcsub/{SUBJECT}/context");
    let place = json!({ "data": { "isMember": true, "isActive": true, "memberId": Uuid::now_v7(),
        "displayName": null, "email": null, "positionIds": [], "groupIds": [] } });
    module.org.answer("GET", &context, 200, place);
    let other = module.call("GET", &module.path(foreign, "/submissions?view=all")).send().await;
    assert_eq!((other.status, &other.data()["total"]), (200, &json!(0)));
}

async fn keyed(module: &ModuleApi, key: &str, week: &str) -> Reply {
    let call = module.call("POST", &module.path(module.company, "/submissions"));
    let call = call.header("idempotency-key", key).json(json!({ "weekStart": week }));
    module.send("POST", "/submissions", call).await
}

#[tokio::test]
async fn p02_one_key_is_one_submission_and_many_keys_are_one_too() {
    let (module, _) = start_with_members().await;
    for round in 0..10_u32 {
        let week = monday(i64::from(round % 2) - 1);
        let same = join_all((0..10).map(|_| keyed_of(&module, format!("one-{round}"), &week))).await;
        let first = &same[0];
        for reply in &same {
            assert_eq!((reply.status, &reply.body), (201, &first.body), "{}", reply.text);
        }
        let replayed = same.iter().filter(|reply| reply.header("idempotency-replayed") == "true").count();
        assert_eq!(replayed, 9);
        settle(&module, first, "rejected").await;
        let many = (0..10).map(|at| keyed_of(&module, format!("many-{round}-{at}"), &week));
        let replies = join_all(many).await;
        let made: Vec<_> = replies.iter().filter(|reply| reply.status == 201).collect();
        assert_eq!(made.len(), 1, "with distinct keys, one succeeds");
        let others = replies.iter().filter(|reply| reply.code() == "SUBMISSION_PENDING").count();
        assert_eq!(others, 9);
        settle(&module, made[0], "rejected").await;
        let reused = keyed(&module, &format!("one-{round}"), &monday(-3)).await;
        assert_eq!((reused.status, reused.code()), (422, "IDEMPOTENCY_KEY_REUSED"));
        let again = keyed(&module, &format!("one-{round}"), &week).await;
        assert_eq!((again.status, &again.body), (201, &first.body), "as first answered");
    }
    assert_eq!(module.audit().await.len(), 20, "each submission once");
}

async fn keyed_of(module: &ModuleApi, key: String, week: &str) -> Reply {
    keyed(module, &key, week).await
}

#[tokio::test]
async fn a_refused_call_leaves_its_key_free_and_an_expired_one_is_new() {
    let (module, _) = start_with_members().await;
    assert_eq!(reason(&keyed(&module, "k", &monday(-6)).await), "WEEK_OUT_OF_WINDOW");
    let first = keyed(&module, "k", &monday(0)).await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (201, ""));
    settle(&module, &first, "rejected").await;
    module.execute("UPDATE timesheet.idempotency_keys SET expires_at = now()".to_owned()).await;
    let second = keyed(&module, "k", &monday(-1)).await;
    assert_eq!((second.status, second.header("idempotency-replayed")), (201, ""));
    assert_eq!(keyed(&module, "k", &monday(-1)).await.header("idempotency-replayed"), "true");
    let pool = module.database.pool_as("timesheet");
    assert_eq!(service::idempotency::sweep(&pool, "timesheet").await.expect("swept"), 0);
    module.execute("UPDATE timesheet.idempotency_keys SET expires_at = now()".to_owned()).await;
    assert_eq!(service::idempotency::sweep(&pool, "timesheet").await.expect("swept"), 1);
    for key in ["", &"x".repeat(201), "a\tb"] {
        assert_eq!(keyed(&module, key, &monday(0)).await.wrong_fields().len(), 1, "{key:?}");
    }
    module.decide(|_| false);
    assert_eq!(keyed(&module, "k", &monday(-1)).await.status, 403, "a stored answer is no permit");
}

#[tokio::test]
async fn a_key_whose_first_request_does_not_end_is_in_progress() {
    let (module, _) = start_with_members().await;
    let pool = module.database.owner_pool();
    let mut first = pool.begin().await.expect("a transaction");
    let sql = format!(
        "INSERT INTO timesheet.idempotency_keys(company_id, operation, actor, idem_key, fingerprint, expires_at)
         VALUES ('{}', 'submitWeek', '{SUBJECT}', 'k', decode(repeat('00', 32), 'hex'), now() + interval '1 hour')",
        module.company
    );
    sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut *first).await.expect("claimed");
    let second = keyed(&module, "k", &monday(0)).await;
    assert_eq!((second.status, second.code()), (409, "IDEMPOTENCY_IN_PROGRESS"));
    assert_eq!(second.header("retry-after"), "1");
    first.rollback().await.expect("given up");
    assert_eq!(keyed(&module, "k", &monday(0)).await.status, 201);
}

#[tokio::test]
async fn hazard_an_entry_put_while_its_week_is_submitted_is_in_it_or_refused() {
    let (module, [ann, ..]) = start_with_members().await;
    let web = project(&module, "WEB").await;
    for round in 0..100_u32 {
        let hours = f64::from(round % 7 + 1);
        let day = day_of(0, 3);
        let week = monday(0);
        let (left, made, right) = tokio::join!(
            put(&module, &web, &day, hours),
            submit(&module, &week),
            put(&module, &web, &day, hours + 0.5),
        );
        assert_eq!(made.status, 201, "{}", made.text);
        for reply in [left, right] {
            assert!(reply.status == 200 || reply.code() == "WEEK_LOCKED", "{}", reply.text);
        }
        assert_eq!(snapshot(&module, &made.data()["id"]).await, entries(&module, ann).await);
        settle(&module, &made, "reverted").await;
    }
}
