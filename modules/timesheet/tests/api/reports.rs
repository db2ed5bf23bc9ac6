//! Sums of hours, as pages and as a file.

use serde_json::{Value, json};
use testkit::{ModuleApi, Reply};

use crate::support::{day_of, monday, project, put, reason, settle, start_with_members, submit};

fn tail(query: &str) -> String {
    format!("/reports/hours?from={}&to={}{query}", day_of(-1, 0), day_of(0, 6))
}

async fn report(module: &ModuleApi, query: &str) -> Value {
    let reply = module.ask("GET", &tail(query), None).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.data().clone()
}

/// The member, code, day and hours of each row.
fn sums(report: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let row = |row: &Value| {
        let [name, code, day] = ["memberName", "projectCode", "day"].map(|name| text(&row[name]));
        format!("{name} {code} {day} {}/{}", row["realHours"], row["billableHours"])
    };
    report["items"].as_array().expect("a list").iter().map(row).collect()
}

/// Two members with hours in two weeks; the caller's first week is submitted.
async fn with_hours() -> (ModuleApi, Reply) {
    let (module, [_, bob, _]) = start_with_members().await;
    let (web, app) = (project(&module, "WEB").await, project(&module, "APP").await);
    put(&module, &web, &day_of(-1, 0), 7.5).await;
    put(&module, &app, &day_of(-1, 0), 1.25).await;
    put(&module, &web, &day_of(0, 2), 10.0).await;
    let made = submit(&module, &monday(-1)).await;
    module.member(bob, &[], &[]);
    put(&module, &web, &day_of(0, 2), 2.0).await;
    (module, made)
}

#[tokio::test]
async fn rows_are_told_apart_as_asked_and_the_sums_are_of_all_pages() {
    let (module, _) = with_hours().await;
    let (first, last) = (day_of(-1, 0), day_of(0, 2));
    for (by, expected) in [
        ("", vec!["x APP - 1.25/0.5".to_owned(), "x WEB - 17.5/15.5".into(), "x WEB - 2/2".into()]),
        ("&groupBy=member", vec!["x - - 18.75/16".into(), "x - - 2/2".into()]),
        ("&groupBy=project", vec!["- APP - 1.25/0.5".into(), "- WEB - 19.5/17.5".into()]),
        ("&groupBy=day", vec![format!("- - {first} 8.75/8"), format!("- - {last} 12/10")]),
        (
            "&groupBy=day,project",
            vec![
                format!("- APP {first} 1.25/0.5"),
                format!("- WEB {first} 7.5/7.5"),
                format!("- WEB {last} 12/10"),
            ],
        ),
    ] {
        let mut found = report(&module, by).await;
        assert_eq!(sums(&found), expected, "{by}");
        assert_eq!(found["totals"], json!({ "realHours": 20.75, "billableHours": 18 }));
        let whole = found["items"].take();
        let mut pages = Vec::new();
        for page in 1..=4 {
            let found = report(&module, &format!("{by}&page={page}&pageSize=1")).await;
            assert_eq!(
                (&found["total"], &found["totals"]["realHours"]),
                (&json!(expected.len()), &json!(20.75))
            );
            pages.extend(found["items"].as_array().expect("a list").clone());
        }
        assert_eq!(json!(pages), whole, "{by}");
    }
}

#[tokio::test]
async fn only_the_weeks_of_the_asked_statuses_count() {
    let (module, made) = with_hours().await;
    let hours = async |query: &str| report(&module, query).await["totals"]["realHours"].clone();
    assert_eq!(hours("&status=submitted").await, 8.75);
    assert_eq!(hours("&status=draft").await, 12);
    assert_eq!(hours("&status=draft,submitted").await, 20.75);
    assert_eq!(hours("&status=").await, 20.75);
    assert_eq!(hours("&status=approved").await, 0);
    settle(&module, &made, "approved").await;
    assert_eq!(hours("&status=approved").await, 8.75);
    settle(&module, &made, "rejected").await;
    assert_eq!(hours("&status=rejected").await, 8.75);
    settle(&module, &made, "reverted").await;
    assert_eq!(hours("&status=draft").await, 20.75, "a week that was taken back is a draft");
}

#[tokio::test]
async fn what_is_asked_wrong_is_told_at_once() {
    let (module, _) = start_with_members().await;
    for (query, expected) in [
        ("", vec!["from required", "to required"]),
        (
            "from=x&to=2026-02-30&groupBy=x&status=y&page=0",
            vec!["from date", "to date", "groupBy enum", "status enum", "page range"],
        ),
        ("from=2026-01-02&to=2026-01-01", vec!["to range"]),
        ("from=2026-01-01&to=2027-01-02", vec!["to range"]),
        ("from=2026-01-01&to=2026-01-01&groupBy=member,member", vec!["groupBy enum"]),
        ("from=2026-01-01&to=2026-01-01&groupBy=", vec!["groupBy enum"]),
        ("from=2026-01-01&to=2026-01-01&status=draft,draft", vec!["status enum"]),
    ] {
        let reply = module.ask("GET", &format!("/reports/hours?{query}"), None).await;
        assert_eq!(reply.wrong_fields(), expected, "{query}");
    }
    let year = module.ask("GET", "/reports/hours?from=2026-01-01&to=2027-01-01", None).await;
    assert_eq!((year.status, &year.data()["total"]), (200, &json!(0)), "366 days");
}

async fn file(module: &ModuleApi, query: &str) -> Reply {
    let call = module.call("GET", &module.path(module.company, &tail(query)));
    call.header("accept", "text/csv").send().await
}

#[tokio::test]
async fn a_file_has_every_row_and_no_formulas() {
    let (module, _) = with_hours().await;
    let evil = "UPDATE timesheet.projects SET name = '=HYPERLINK(\"http://x\",\"a\")' WHERE code = 'WEB'";
    module.execute(evil.to_owned()).await;
    let reply = file(&module, "&groupBy=project,day&pageSize=1").await;
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, "text/csv; charset=utf-8; header=present")
    );
    let name = format!("attachment; filename=\"hours_{}_{}.csv\"", day_of(-1, 0), day_of(0, 6));
    assert_eq!(reply.header("content-disposition"), name);
    let report = report(&module, "&groupBy=project,day").await;
    let id = |row: usize| report["items"][row]["projectId"].as_str().expect("an id");
    let formula = "\"'=HYPERLINK(\"\"http://x\"\",\"\"a\"\")\"";
    let expected = [
        "memberId,memberName,projectId,projectCode,projectName,day,realHours,billableHours".to_owned(),
        format!(",,{},APP,n,{},1.25,0.5", id(0), day_of(-1, 0)),
        format!(",,{},WEB,{formula},{},7.5,7.5", id(1), day_of(-1, 0)),
        format!(",,{},WEB,{formula},{},12,10", id(2), day_of(0, 2)),
    ];
    assert_eq!(reply.text.split("\r\n").collect::<Vec<_>>(), [&expected[..], &[String::new()]].concat());
    let all =
        module.call("GET", &module.path(module.company, &tail(""))).header("accept", "*/*").send().await;
    assert_eq!(all.header("content-type"), "application/json");
    assert_eq!((reply.header("vary"), all.header("vary")), ("accept", "accept"), "caches keep the two apart");
}

#[tokio::test]
async fn a_file_that_would_be_too_long_is_refused_and_never_cut() {
    let (module, [ann, ..]) = start_with_members().await;
    let (company, week) = (module.company, monday(0));
    let rows = |projects: u32| {
        format!(
            "INSERT INTO timesheet.projects(id, company_id, code, name)
               SELECT gen_random_uuid(), '{company}', 'P' || n, 'n' FROM generate_series(1, {projects}) n
               ON CONFLICT DO NOTHING;
             INSERT INTO timesheet.member_weeks VALUES ('{company}', '{ann}', '{week}') ON CONFLICT DO NOTHING;
             INSERT INTO timesheet.entries(id, company_id, member_id, week_start, project_id, entry_date, real_hours,
               billable_hours) SELECT gen_random_uuid(), '{company}', '{ann}', '{week}', id, '{week}', 0, 0
               FROM timesheet.projects ON CONFLICT DO NOTHING"
        )
    };
    module.execute(rows(50_000)).await;
    let longest = file(&module, "").await;
    assert_eq!((longest.status, longest.text.lines().count()), (200, 50_001), "including the header");
    module.execute(rows(50_001)).await;
    let refused = file(&module, "").await;
    assert_eq!((refused.status, reason(&refused)), (422, "REPORT_TOO_LONG"));
    assert_eq!(refused.header("vary"), "accept", "pages of it are not refused");
    assert_eq!(refused.body["error"]["details"]["rows"], 50_001);
}

/// Reports that wait for org, and a list of submissions.
#[tokio::test]
async fn one_subject_has_four_reports_and_lists_at_once() {
    let (module, _) = with_hours().await;
    let company = module.company;
    module.org.hang("POST", &format!("/internal/org/companies/{company}/lookup"));
    let query = tail("&groupBy=member");
    let asked = (0..6).map(|at| module.ask("GET", if at == 5 { "/submissions" } else { &query }, None));
    let replies = futures_util::future::join_all(asked).await;
    let refused = replies.iter().filter(|reply| reply.status == 429).count();
    let statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
    assert_eq!(refused, 2, "{statuses:?}");
    assert_eq!(module.ask("GET", "/submissions", None).await.status, 200, "control");
}
