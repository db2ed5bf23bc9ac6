//! Recording hours: the list of a week, putting an entry, and every rule for a day.

use serde_json::{Value, json};
use testkit::module::{CORRELATION, SUBJECT};
use testkit::{ModuleApi, Reply};
use uuid::Uuid;

use crate::support::{day_of, monday, project, reason, start_with_members};

async fn put(module: &ModuleApi, project: &str, day: &str, hours: Value) -> Reply {
    let mut body = json!({ "projectId": project, "entryDate": day });
    body.as_object_mut().expect("an object").extend(hours.as_object().expect("an object").clone());
    module.ask("PUT", "/time-entries", Some(body)).await
}

async fn week(module: &ModuleApi, monday: &str) -> Value {
    let reply = module.ask("GET", &format!("/time-entries?weekStart={monday}"), None).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.data()["items"].clone()
}

#[tokio::test]
async fn an_entry_is_listed_audited_and_keeps_its_id_when_it_is_put_again() {
    let (module, [ann, ..]) = start_with_members().await;
    let (web, day) = (project(&module, "WEB").await, day_of(0, 1));
    let first = put(&module, &web, &day, json!({ "realHours": 7.25, "billableHours": 6 })).await;
    let expected = json!({
        "id": first.data()["id"], "companyId": module.company, "memberId": ann, "projectId": web,
        "entryDate": day, "realHours": 7.25, "billableHours": 6, "note": null, "status": "draft",
    });
    assert_eq!((first.status, first.data()), (200, &expected));
    assert_eq!(week(&module, &monday(0)).await, json!([expected]));
    let before = module.contents().await;
    let same = put(&module, &web, &day, json!({ "realHours": 7.25, "billableHours": 6.00 })).await;
    assert_eq!(same.data(), &expected);
    assert_eq!(module.contents().await, before, "the same again writes nothing");
    let second = put(&module, &web, &day, json!({ "realHours": 8 })).await;
    assert_eq!((&second.data()["id"], &second.data()["billableHours"]), (&expected["id"], &json!(6)));
    let event = |from: Value, to: Value, billable: Option<Value>| {
        let mut payload = json!({ "projectId": web, "entryDate": day,
            "realHours": { "from": from, "to": to } });
        if let Some(billable) = billable {
            payload["billableHours"] = json!({ "from": null, "to": billable });
        }
        json!({ "companyId": module.company, "actor": SUBJECT, "action": "entry.upserted",
            "subject": format!("entry:{}", expected["id"].as_str().expect("an id")),
            "correlationId": CORRELATION, "payload": payload })
    };
    let told = module.audit().await;
    let expected = [event(Value::Null, json!(7.25), Some(json!(6))), event(json!(7.25), json!(8), None)];
    assert_eq!(told[1..], expected, "after the project's own row");
}

#[tokio::test]
async fn p13_hours_are_numbers_of_at_most_two_decimals_within_a_day() {
    let (module, _) = start_with_members().await;
    let web = project(&module, "WEB").await;
    let rules = json!({ "allowBillableAboveEightHours": true });
    module.ask("PUT", "/settings", Some(rules)).await;
    for (sent, read) in [
        ("0", "0"),
        ("24", "24"),
        ("1e1", "10"),
        ("24.00", "24"),
        ("7.33", "7.33"),
        ("0.01", "0.01"),
        ("-0.0", "0"),
        ("0.1", "0.1"),
        ("23.99", "23.99"),
        ("1.10", "1.1"),
    ] {
        let text = format!(
            r#"{{"projectId":"{web}","entryDate":"{}","realHours":{sent},"billableHours":{sent}}}"#,
            day_of(0, 0)
        );
        let call = module.call("PUT", &module.path(module.company, "/time-entries"));
        let call = call.header("content-type", "application/json").body(text);
        let reply = module.send("PUT", "/time-entries", call).await;
        let expected: Value = serde_json::from_str(read).expect("a number");
        assert_eq!((reply.status, &reply.data()["realHours"]), (200, &expected), "{sent}");
        assert_eq!(week(&module, &monday(0)).await[0]["billableHours"], expected, "{sent} as stored");
    }
    let before = module.contents().await;
    for (hours, expected) in [
        (json!({ "realHours": 24.01 }), vec!["realHours range"]),
        (json!({ "realHours": -0.01 }), vec!["realHours range"]),
        (json!({ "realHours": 1e300 }), vec!["realHours range"]),
        (json!({ "realHours": 7.333 }), vec!["realHours precision"]),
        (json!({ "realHours": 1e-9 }), vec!["realHours precision"]),
        (json!({ "realHours": "7" }), vec!["realHours type"]),
        (json!({ "realHours": true }), vec!["realHours type"]),
        (json!({ "realHours": null }), vec!["realHours required"]),
        (json!({ "realHours": [], "billableHours": 25 }), vec!["realHours type", "billableHours range"]),
    ] {
        let reply = put(&module, &web, &day_of(0, 0), hours).await;
        assert_eq!(reply.wrong_fields(), expected);
    }
    assert_eq!(module.contents().await, before);
}

#[tokio::test]
async fn dates_are_days_of_the_calendar_and_a_week_starts_on_monday() {
    let (module, _) = start_with_members().await;
    for day in ["2026-02-30", "16.11.2026", "2026-11-16T00:00:00Z", "", "+2026-11-1"] {
        let reply = put(&module, &Uuid::now_v7().to_string(), day, json!({ "realHours": 1 })).await;
        assert_eq!(reply.wrong_fields(), ["entryDate date"], "{day}");
    }
    let empty = module.ask("PUT", "/time-entries", Some(json!({ "entryDate": 7 }))).await;
    assert_eq!(empty.wrong_fields(), ["projectId required", "entryDate type", "realHours required"]);
    for (query, expected) in [
        (String::new(), "weekStart required"),
        ("?weekStart=2026-13-01".to_owned(), "weekStart date"),
        (format!("?weekStart={}", day_of(0, 1)), "weekStart monday"),
        (format!("?weekStart={}", day_of(0, 6)), "weekStart monday"),
    ] {
        let reply = module.ask("GET", &format!("/time-entries{query}"), None).await;
        assert_eq!(reply.wrong_fields(), [expected]);
    }
}

#[tokio::test]
async fn a_closed_week_is_refused_and_its_list_is_readable() {
    let (module, _) = start_with_members().await;
    let web = project(&module, "WEB").await;
    let before = module.contents().await;
    for weeks in [-6, 3] {
        let reply = put(&module, &web, &day_of(weeks, 2), json!({ "realHours": 1 })).await;
        assert_eq!((reply.status, reason(&reply)), (422, "WEEK_OUT_OF_WINDOW"), "{weeks}");
        assert_eq!(reply.body["error"]["details"]["weekStart"], monday(weeks));
        assert_eq!(week(&module, &monday(weeks)).await, json!([]));
    }
    for day in ["0001-01-01", "9999-12-31"] {
        let reply = put(&module, &web, day, json!({ "realHours": 1 })).await;
        assert_eq!((reply.status, reason(&reply)), (422, "WEEK_OUT_OF_WINDOW"), "{day}");
    }
    assert_eq!(module.contents().await, before);
    for weeks in [-3, 0] {
        assert_eq!(put(&module, &web, &day_of(weeks, 6), json!({ "realHours": 1 })).await.status, 200);
    }
}

#[tokio::test]
async fn a_project_must_be_the_companys_and_hours_of_an_inactive_one_only_sink() {
    let (module, _) = start_with_members().await;
    let (web, old) = (project(&module, "WEB").await, project(&module, "OLD").await);
    let day = day_of(0, 0);
    put(&module, &old, &day, json!({ "realHours": 4, "billableHours": 2 })).await;
    let close = json!({ "code": "OLD", "name": "n", "status": "inactive" });
    module.ask("PUT", &format!("/projects/{old}"), Some(close)).await;
    module
        .execute(format!(
            "INSERT INTO timesheet.projects(id, company_id, code, name) VALUES ('{0}', '{0}', 'X', 'n')",
            Uuid::from_u128(7)
        ))
        .await;
    let before = module.contents().await;
    for (project, day, real, billable, expected) in [
        (Uuid::now_v7().to_string(), &day, 1, 1, "PROJECT_UNKNOWN"),
        (Uuid::from_u128(7).to_string(), &day, 1, 1, "PROJECT_UNKNOWN"),
        (old.clone(), &day_of(0, 1), 0, 0, "PROJECT_INACTIVE"),
        (old.clone(), &day, 5, 2, "PROJECT_INACTIVE"),
        (old.clone(), &day, 3, 3, "PROJECT_INACTIVE"),
    ] {
        let hours = json!({ "realHours": real, "billableHours": billable });
        let reply = put(&module, &project, day, hours).await;
        assert_eq!((reply.status, reason(&reply)), (422, expected));
    }
    assert_eq!(module.contents().await, before);
    assert_eq!(put(&module, &old, &day, json!({ "realHours": 2 })).await.data()["billableHours"], 2);
    assert_eq!(put(&module, &web, &day, json!({ "realHours": 2 })).await.status, 200);
}

#[tokio::test]
async fn p08_the_rules_of_a_day() {
    let (module, _) = start_with_members().await;
    let (web, app) = (project(&module, "WEB").await, project(&module, "APP").await);
    let day = day_of(0, 0);
    let refused = |reply: Reply, word: &str| {
        assert_eq!((reply.status, reason(&reply)), (422, word), "{}", reply.text);
        assert_eq!(reply.body["error"]["details"]["entryDate"], day);
    };
    let hours = |real: f64, billable: f64| json!({ "realHours": real, "billableHours": billable });
    refused(put(&module, &web, &day, hours(2.0, 2.01)).await, "BILLABLE_EXCEEDS_ACTUAL");
    refused(put(&module, &web, &day, hours(9.0, 8.01)).await, "BILLABLE_ABOVE_EIGHT_HOURS");
    assert_eq!(put(&module, &web, &day, hours(20.0, 5.5)).await.status, 200);
    refused(put(&module, &app, &day, hours(4.01, 0.0)).await, "DAILY_HOURS_EXCEEDED");
    refused(put(&module, &app, &day, hours(4.0, 2.51)).await, "BILLABLE_ABOVE_EIGHT_HOURS");
    let filled = put(&module, &app, &day, json!({ "realHours": 4 })).await;
    assert_eq!(filled.data()["billableHours"], 2.5, "what is left of eight hours");
    refused(put(&module, &web, &day, hours(20.01, 5.5)).await, "DAILY_HOURS_EXCEEDED");
    let next = day_of(0, 1);
    assert_eq!(put(&module, &web, &next, hours(8.0, 8.0)).await.status, 200, "each day for itself");
    let lowered = put(&module, &web, &next, json!({ "realHours": 3 })).await;
    assert_eq!(lowered.data()["billableHours"], 3, "kept, lowered to what was worked");
    let full = put(&module, &app, &next, json!({ "realHours": 21 })).await;
    assert_eq!(full.data()["billableHours"], 5);
    let free = json!({ "enforceBillableWithinActual": false, "allowBillableAboveEightHours": true });
    module.ask("PUT", "/settings", Some(free)).await;
    assert_eq!(put(&module, &web, &next, hours(3.0, 24.0)).await.data()["billableHours"], 24);
    let kept = put(&module, &web, &next, json!({ "realHours": 1 })).await;
    assert_eq!(kept.data()["billableHours"], 24, "kept as it was");
    let whole = put(&module, &web, &day_of(0, 2), json!({ "realHours": 12 })).await;
    assert_eq!(whole.data()["billableHours"], 12);
}

#[tokio::test]
async fn the_list_is_ordered_by_day_and_code_and_holds_empty_entries() {
    let (module, _) = start_with_members().await;
    let (b, a) = (project(&module, "B").await, project(&module, "A").await);
    for (project, day) in [(&b, 3), (&a, 3), (&b, 0), (&a, 6)] {
        let reply = put(&module, project, &day_of(0, day), json!({ "realHours": 0 })).await;
        assert_eq!(reply.status, 200);
    }
    put(&module, &a, &day_of(-1, 6), json!({ "realHours": 1 })).await;
    let list = week(&module, &monday(0)).await;
    let seen: Vec<_> = list
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| (entry["entryDate"].clone(), entry["projectId"].clone()))
        .collect();
    let expected = [(0, &b), (3, &a), (3, &b), (6, &a)];
    assert_eq!(seen, expected.map(|(day, project)| (json!(day_of(0, day)), json!(project))));
}

#[tokio::test]
async fn p10_a_week_that_was_handed_back_can_be_corrected_late() {
    let (module, [ann, ..]) = start_with_members().await;
    let web = project(&module, "WEB").await;
    for (weeks, status, expected) in [
        (-20, "rejected", (200, "rejected")),
        (-21, "reverted", (200, "draft")),
        (-22, "approved", (409, "WEEK_LOCKED")),
        (-23, "submitted", (409, "WEEK_LOCKED")),
    ] {
        stored(&module, ann, &monday(weeks), status).await;
        let reply = put(&module, &web, &day_of(weeks, 4), json!({ "realHours": 1 })).await;
        let told = reply.data()["status"].as_str().unwrap_or_else(|| reply.code());
        assert_eq!((reply.status, told), expected);
    }
    let fresh = put(&module, &web, &day_of(-24, 4), json!({ "realHours": 1 })).await;
    assert_eq!(reason(&fresh), "WEEK_OUT_OF_WINDOW");
}

/// Inserts the current submission of a week.
async fn stored(module: &ModuleApi, member: Uuid, week: &str, status: &str) {
    let (id, company) = (Uuid::now_v7(), module.company);
    let reason = if status == "rejected" { "'x'" } else { "NULL" };
    let decided = if status == "submitted" { "NULL" } else { "now()" };
    module
        .execute(format!(
            "INSERT INTO timesheet.member_weeks VALUES ('{company}', '{member}', '{week}');
             INSERT INTO timesheet.submissions(id, company_id, member_id, week_start, version_number, root_id,
               is_current, status, submitted_by, decided_at, reject_reason)
             VALUES ('{id}', '{company}', '{member}', '{week}', 1, '{id}', true, '{status}', 'x', {decided}, {reason})"
        ))
        .await;
}

#[tokio::test]
async fn hours_belong_to_an_active_member() {
    let (module, _) = start_with_members().await;
    let web = project(&module, "WEB").await;
    let before = module.contents().await;
    let place = |member: bool, active: bool| {
        let id = member.then(Uuid::now_v7);
        json!({ "data": { "isMember": member, "isActive": active, "memberId": id, "displayName": null,
            "email": null, "positionIds": [], "groupIds": [] } })
    };
    for (status, body, expected) in [
        (200, place(false, false), "COMPANY_MEMBERSHIP_REQUIRED"),
        (200, place(true, false), "COMPANY_ACCESS_BLOCKED"),
        (500, json!({}), "org"),
    ] {
        module.answer_context(status, body);
        let list = module.ask("GET", &format!("/time-entries?weekStart={}", monday(0)), None).await;
        let put = put(&module, &web, &day_of(0, 0), json!({ "realHours": 1 })).await;
        for reply in [list, put] {
            let details = &reply.body["error"]["details"];
            let (word, status) = if status == 500 { ("dependency", 503) } else { ("reason", 403) };
            assert_eq!((reply.status, &details[word]), (status, &json!(expected)));
        }
    }
    assert_eq!(module.contents().await, before);
}

#[tokio::test]
async fn members_see_only_their_own_hours() {
    let (module, [_, bob, _]) = start_with_members().await;
    let web = project(&module, "WEB").await;
    put(&module, &web, &day_of(0, 0), json!({ "realHours": 20 })).await;
    module.member(bob, &[], &[]);
    assert_eq!(week(&module, &monday(0)).await, json!([]));
    let own = put(&module, &web, &day_of(0, 0), json!({ "realHours": 20 })).await;
    assert_eq!((own.status, &own.data()["memberId"]), (200, &json!(bob)), "another's day does not count");
}

#[tokio::test]
async fn hazard_day_sums_hold_under_parallel_puts() {
    let (module, _) = start_with_members().await;
    let mut projects = Vec::new();
    for code in ["A", "B", "C", "D"] {
        projects.push(project(&module, code).await);
    }
    for round in 0..50 {
        let day = day_of(-(round / 7) % 4, u8::try_from(round % 7).expect("a day"));
        let real = if round % 2 == 0 { 7 } else { 11 };
        let puts = projects
            .iter()
            .map(|project| put(&module, project, &day, json!({ "realHours": real, "billableHours": 3 })));
        for reply in futures_util::future::join_all(puts).await {
            let word = if reply.status == 200 { "" } else { reason(&reply) };
            let allowed = ["", "DAILY_HOURS_EXCEEDED", "BILLABLE_ABOVE_EIGHT_HOURS"];
            assert!(allowed.contains(&word), "{}", reply.text);
        }
    }
    let over = sqlx::query_scalar::<_, i64>(
        "SELECT count(*) FROM (SELECT 1 FROM timesheet.entries GROUP BY member_id, entry_date
           HAVING sum(real_hours) > 24 OR sum(billable_hours) > 8) AS days",
    );
    assert_eq!(over.fetch_one(&module.database.owner_pool()).await.expect("a count"), 0);
}
