//! The overview of a week: which members have submitted, and their hours.

use serde_json::{Value, json};
use testkit::ModuleApi;

use crate::support::{
    day_of, know_directory, monday, project, put, settle, start_with_members, submit, submit_as,
};

async fn overview(module: &ModuleApi, query: &str) -> Value {
    let reply = module.ask("GET", &format!("/weeks/{}/overview{query}", monday(0)), None).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.data().clone()
}

#[tokio::test]
async fn every_active_member_is_there_with_state_and_hours() {
    let (module, [ann, bob, eve]) = start_with_members().await;
    know_directory(&module, &[bob, ann, eve]);
    let web = project(&module, "WEB").await;
    put(&module, &web, &day_of(0, 0), 7.5).await;
    put(&module, &web, &day_of(0, 1), 0.25).await;
    put(&module, &web, &day_of(-1, 1), 4.0).await;
    let mut made = submit_as(&module, "eve", eve, &monday(0)).await;
    let row = |name: &str, member, state: &str, id: &Value, hours: f64| {
        json!({ "memberId": member, "memberName": name, "state": state, "submissionId": id,
            "totals": { "realHours": hours, "billableHours": hours } })
    };
    for state in ["submitted", "approved", "rejected", "reverted"] {
        if state != "submitted" {
            settle(&module, &made, state).await;
        }
        let rows = overview(&module, "").await["items"].clone();
        let eves = row("Member 3", eve, state, &made.data()["id"], 0.0);
        let expected = json!([
            row("Member 1", bob, "none", &Value::Null, 0.0),
            row("Member 2", ann, "none", &Value::Null, 7.75),
            eves
        ]);
        assert_eq!(numbers(&rows), numbers(&expected));
    }
    made = submit_as(&module, "eve", eve, &monday(0)).await;
    let rows = overview(&module, "").await["items"].clone();
    assert_eq!((&rows[2]["state"], &rows[2]["submissionId"]), (&json!("submitted"), &made.data()["id"]));
    assert_eq!(submit(&module, &monday(0)).await.status, 201);
    assert_eq!(overview(&module, "").await["items"][1]["state"], "submitted");
}

/// 0 and 0.0 are the same number.
fn numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(numbers).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), numbers(value))).collect()
        }
        other @ (Value::Null | Value::Bool(_) | Value::String(_)) => other.clone(),
    }
}

#[tokio::test]
async fn pages_are_the_directorys() {
    let (module, members) = start_with_members().await;
    know_directory(&module, &members);
    for size in [1, 2, 3, 100] {
        let mut seen = Vec::new();
        for page in 1..=4 {
            let found = overview(&module, &format!("?page={page}&pageSize={size}")).await;
            assert_eq!((&found["total"], &found["page"]), (&json!(3), &json!(page)));
            seen.extend(found["items"].as_array().expect("a list").iter().map(|row| row["memberId"].clone()));
        }
        assert_eq!(json!(seen), json!(members), "pageSize {size}");
    }
}

#[tokio::test]
async fn only_a_monday_names_a_week() {
    let (module, members) = start_with_members().await;
    know_directory(&module, &members);
    for (week, expected) in [
        (day_of(0, 1), vec!["weekStart monday"]),
        ("2026-02-30".to_owned(), vec!["weekStart date"]),
        (format!("{}?page=0", day_of(0, 6)), vec!["weekStart monday", "page range"]),
    ] {
        let (week, query) = week.split_once('?').map_or((week.as_str(), ""), |(week, query)| (week, query));
        let reply = module.ask("GET", &format!("/weeks/{week}/overview?{query}"), None).await;
        assert_eq!(reply.wrong_fields(), expected);
    }
}

#[tokio::test]
async fn without_org_there_is_no_overview() {
    let (module, _) = start_with_members().await;
    let path = format!("/internal/org/companies/{}/members", module.company);
    module.org.answer("GET", &path, 500, json!({}));
    let reply = module.ask("GET", &format!("/weeks/{}/overview", monday(0)), None).await;
    testkit::module::gates::refused_for(&reply, "org", "org is broken");
}
