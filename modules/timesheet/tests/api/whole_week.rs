//! Saving a whole week: all rows or none, one report of all problems, and entries without a row are dropped.

use contract::envelope::MAX_PROBLEMS;
use serde_json::{Value, json};
use testkit::{ModuleApi, Reply};
use uuid::Uuid;

use crate::support::{day_of, monday, project, put, reason, settle, start_with_members, submit};

async fn save(module: &ModuleApi, week: &str, rows: Value) -> Reply {
    module.ask("PUT", "/time-entries/week", Some(json!({ "weekStart": week, "entries": rows }))).await
}

fn row(project: &str, day: u8, hours: f64) -> Value {
    json!({ "projectId": project, "entryDate": day_of(0, day), "realHours": hours })
}

/// The rows of a refusal's report, as `path rule`.
fn report(reply: &Reply) -> Vec<String> {
    assert_eq!((reply.status, reply.code()), (422, "VALIDATION_FAILED"), "{}", reply.text);
    let fields = reply.body["error"]["details"]["fields"].as_array().expect("a report");
    let word = |field: &Value, name: &str| field[name].as_str().expect("a text").to_owned();
    fields.iter().map(|field| format!("{} {}", word(field, "path"), word(field, "rule"))).collect()
}

fn shown(reply: &Reply) -> Vec<(Value, Value, Value, Value)> {
    assert_eq!(reply.status, 200, "{}", reply.text);
    let items = reply.data()["items"].as_array().expect("a list");
    let field = |item: &Value, name: &str| item[name].clone();
    let row = |item: &Value| {
        (
            field(item, "projectId"),
            field(item, "realHours"),
            field(item, "billableHours"),
            field(item, "note"),
        )
    };
    items.iter().map(row).collect()
}

#[tokio::test]
async fn the_rows_become_the_week_and_one_audit_row_says_how() {
    let (module, [ann, ..]) = start_with_members().await;
    let (web, app) = (project(&module, "WEB").await, project(&module, "APP").await);
    let kept = put(&module, &web, &day_of(0, 0), 4.0).await.data()["id"].clone();
    let gone = put(&module, &app, &day_of(0, 1), 2.0).await.data()["id"].clone();
    put(&module, &web, &day_of(-1, 6), 1.0).await;
    let before = module.audit().await.len();
    let rows = json!([
        { "projectId": web, "entryDate": day_of(0, 0), "realHours": 5, "note": "Checkout" },
        { "projectId": app, "entryDate": day_of(0, 2), "realHours": 6.5, "billableHours": 0 },
    ]);
    let saved = save(&module, &monday(0), rows.clone()).await;
    let expected = [
        (json!(web), json!(5), json!(4), json!("Checkout")),
        (json!(app), json!(6.5), json!(0), Value::Null),
    ];
    assert_eq!(shown(&saved), expected);
    assert_eq!(saved.data()["items"][0]["id"], kept, "an entry that stays keeps its id");
    let told = module.audit().await.split_off(before);
    let [event] = told.as_slice() else { panic!("one audit row, not {told:?}") };
    assert_eq!(
        (&event["action"], &event["subject"]),
        (&json!("week.saved"), &json!(format!("member:{ann}")))
    );
    let added = &saved.data()["items"][1]["id"];
    let payload = json!({ "weekStart": monday(0), "entries": [
        { "entryId": kept, "projectId": web, "entryDate": day_of(0, 0), "change": "changed",
          "realHours": { "from": 4, "to": 5 }, "note": { "from": null, "to": "Checkout" } },
        { "entryId": added, "projectId": app, "entryDate": day_of(0, 2), "change": "added",
          "realHours": { "from": null, "to": 6.5 }, "billableHours": { "from": null, "to": 0 } },
        { "entryId": gone, "projectId": app, "entryDate": day_of(0, 1), "change": "dropped",
          "realHours": { "from": 2, "to": null }, "billableHours": { "from": 2, "to": null } },
    ] });
    assert_eq!(event["payload"], payload);
    let contents = module.contents().await;
    assert_eq!(shown(&save(&module, &monday(0), rows).await), expected);
    assert_eq!(module.contents().await, contents, "the same again writes nothing");
    assert_eq!(shown(&save(&module, &monday(0), json!([])).await), []);
    let list = module.ask("GET", &format!("/time-entries?weekStart={}", monday(-1)), None).await;
    assert_eq!(shown(&list).len(), 1, "another week stays");
}

#[tokio::test]
async fn one_report_names_every_row_that_breaks_a_rule_and_nothing_is_saved() {
    let (module, _) = start_with_members().await;
    let (web, app, old) =
        (project(&module, "WEB").await, project(&module, "APP").await, project(&module, "OLD").await);
    put(&module, &old, &day_of(0, 4), 3.0).await;
    let close = json!({ "code": "OLD", "name": "n", "status": "inactive" });
    module.ask("PUT", &format!("/projects/{old}"), Some(close)).await;
    let before = module.contents().await;
    let mut rows = vec![
        row(&web, 0, 20.0),
        row(&app, 0, 5.0),
        row(&Uuid::now_v7().to_string(), 1, 1.0),
        row(&old, 4, 4.0),
        row(&old, 5, 1.0),
    ];
    rows[1]["billableHours"] = json!(5.5);
    rows.push(row(&web, 6, 9.0));
    rows[5]["billableHours"] = json!(8.5);
    let refused = save(&module, &monday(0), json!(rows)).await;
    let expected = [
        "entries[1] BILLABLE_EXCEEDS_ACTUAL",
        "entries[1] DAILY_HOURS_EXCEEDED",
        "entries[2] PROJECT_UNKNOWN",
        "entries[3] PROJECT_INACTIVE",
        "entries[4] PROJECT_INACTIVE",
        "entries[5] BILLABLE_ABOVE_EIGHT_HOURS",
    ];
    assert_eq!(report(&refused), expected);
    assert_eq!(reason(&refused), "BILLABLE_EXCEEDS_ACTUAL", "the reason of the first one");
    assert_eq!(module.contents().await, before);
    let lowered = save(&module, &monday(0), json!([row(&old, 4, 2.0)])).await;
    assert_eq!(lowered.status, 200, "hours of an inactive project may be lowered");
}

#[tokio::test]
async fn what_is_left_of_eight_hours_goes_to_rows_that_say_nothing_in_their_order() {
    let (module, _) = start_with_members().await;
    let (web, app, ops) =
        (project(&module, "A").await, project(&module, "B").await, project(&module, "C").await);
    let mut rows = vec![row(&web, 0, 5.0), row(&app, 0, 5.0), row(&ops, 0, 4.0)];
    rows[2]["billableHours"] = json!(2);
    let billable = |reply: &Reply| shown(reply).into_iter().map(|row| row.2).collect::<Vec<_>>();
    let saved = save(&module, &monday(0), json!(rows)).await;
    assert_eq!(billable(&saved), [json!(5), json!(1), json!(2)]);
    let again = save(&module, &monday(0), json!([row(&web, 0, 3.0), row(&app, 0, 6.0)])).await;
    assert_eq!(billable(&again), [json!(3), json!(1)], "an old row keeps what it had, if it fits");
}

#[tokio::test]
async fn a_bodys_shape_is_told_at_once() {
    let (module, _) = start_with_members().await;
    let web = project(&module, "WEB").await;
    let mut rows = vec![row(&web, 0, 1.0), row(&web, 0, 2.0), row(&web, 1, 25.0)];
    rows.push(json!({ "projectId": web, "entryDate": day_of(1, 0), "realHours": 1 }));
    let long =
        json!({ "projectId": web, "entryDate": day_of(0, 3), "realHours": 1, "note": "ä".repeat(501) });
    let wrong = save(&module, &monday(0), json!([long, 7])).await;
    assert_eq!(wrong.wrong_fields(), ["entries[0].note length", "entries[1] type"]);
    let hours = save(&module, &monday(0), json!(rows)).await;
    assert_eq!(hours.wrong_fields(), ["entries[2].realHours range"]);
    rows.remove(2);
    let wrong = save(&module, &monday(0), json!(rows)).await;
    assert_eq!(wrong.wrong_fields(), ["entries[1] duplicate", "entries[2].entryDate week"]);
    let empty = module.ask("PUT", "/time-entries/week", Some(json!({}))).await;
    assert_eq!(empty.wrong_fields(), ["weekStart required", "entries required"]);
    let many = |count: usize| json!(vec![json!({}); count]);
    assert_eq!(save(&module, &monday(0), many(351)).await.wrong_fields(), ["entries length"]);
    let most = save(&module, &monday(0), many(350)).await.wrong_fields();
    assert_eq!(most.len(), MAX_PROBLEMS + 1, "of 3 for each row: {:?}", most.first());
    let note =
        json!([{ "projectId": web, "entryDate": day_of(0, 3), "realHours": 1, "note": "ä".repeat(500) }]);
    assert_eq!(save(&module, &monday(0), note).await.status, 200);
}

#[tokio::test]
async fn a_locked_or_closed_week_is_not_saved() {
    let (module, _) = start_with_members().await;
    let web = project(&module, "WEB").await;
    let made = submit(&module, &monday(0)).await;
    let before = module.contents().await;
    let locked = save(&module, &monday(0), json!([row(&web, 0, 1.0)])).await;
    assert_eq!((locked.status, locked.code()), (409, "WEEK_LOCKED"));
    let closed = save(&module, &monday(-6), json!([])).await;
    assert_eq!((closed.status, reason(&closed)), (422, "WEEK_OUT_OF_WINDOW"));
    assert_eq!(module.contents().await, before);
    settle(&module, &made, "rejected").await;
    let saved = save(&module, &monday(0), json!([row(&web, 0, 1.0)])).await;
    assert_eq!((saved.status, &saved.data()["items"][0]["status"]), (200, &json!("rejected")));
}

#[tokio::test]
async fn a_note_is_set_kept_and_cleared_by_itself() {
    let (module, _) = start_with_members().await;
    let web = project(&module, "WEB").await;
    for (sent, expected) in [
        (json!({ "note": "  two\nlines " }), json!("  two\nlines ")),
        (json!({}), json!("  two\nlines ")),
        (json!({ "note": "" }), json!("")),
        (json!({ "note": null }), Value::Null),
    ] {
        let mut body = row(&web, 0, 1.0);
        body.as_object_mut().expect("an object").extend(sent.as_object().expect("an object").clone());
        let reply = module.ask("PUT", "/time-entries", Some(body)).await;
        assert_eq!((reply.status, &reply.data()["note"]), (200, &expected));
    }
}
