//! The list of tickets: which tickets, in which order, and how each is shown to the caller.

use serde_json::{Value, json};
use testkit::ModuleApi;
use testkit::module::{CAN, gates};
use uuid::Uuid;

use crate::start;
use crate::world::{AGENT, ALICE, BOB, World};

/// The relations that each tier holds.
const MEMBER: &[&str] = &["member"];
const EDITOR: &[&str] = &["member", "editor"];
const ADMIN: &[&str] = &["member", "editor", "admin"];

/// A ticket's row as it is after it was opened or assigned.
struct Row<'a> {
    company: Uuid,
    title: &'a str,
    status: &'a str,
    reporter: Uuid,
    assignee: Option<(&'a str, Uuid)>,
    minute: u32,
}

async fn put(module: &ModuleApi, row: &Row<'_>) -> Uuid {
    let id = Uuid::now_v7();
    let of = |kind: &str| match row.assignee {
        Some((known, id)) if known == kind => format!("'{id}'"),
        _ => "NULL".to_owned(),
    };
    let kind = row.assignee.map_or_else(|| "NULL".to_owned(), |(kind, _)| format!("'{kind}'"));
    let label = row.assignee.map_or_else(|| "NULL".to_owned(), |(kind, _)| format!("'The {kind}'"));
    let resolved = if row.status == "resolved" { "now()" } else { "NULL" };
    module
        .execute(format!(
            "INSERT INTO helpdesk.tickets(id, company_id, number, resolved_at, title, description, status, reporter_member_id, \
               reporter_kc_sub, assignee_kind, assignee_member_id, assignee_position_id, assignee_group_id, \
               assignee_label, created_at, updated_at) \
             VALUES ('{id}', '{}', {}, {}, '{}', 'What happened', '{}', '{}', 'somebody', {kind}, {}, {}, {}, {label}, \
               '2026-11-22 09:00:00+00', '2026-11-22 10:{:02}:00+00')",
            row.company, row.minute, resolved, row.title, row.status, row.reporter, of("member"), of("position"), of("group"), row.minute
        ))
        .await;
    id
}

/// A company with one ticket for each way in which a ticket can be the caller's, and two that are not.
struct Company {
    module: ModuleApi,
    me: Uuid,
    position: Uuid,
    group: Uuid,
}

async fn company() -> Company {
    let module = start().await;
    let [me, position, group, other] = [0; 4].map(|_| Uuid::now_v7());
    module.member(me, &[Uuid::now_v7(), position], &[group]);
    for (minute, title, reporter, assignee) in [
        (1, "reported", me, None),
        (2, "to me", other, Some(("member", me))),
        (3, "to my position", other, Some(("position", position))),
        (4, "to my group", other, Some(("group", group))),
        (5, "not mine", other, Some(("member", other))),
        (6, "to nobody", other, None),
    ] {
        let row = Row { company: module.company, title, status: "open", reporter, assignee, minute };
        put(&module, &row).await;
    }
    Company { module, me, position, group }
}

fn titles(data: &Value) -> Vec<&str> {
    let tickets = data.as_array().expect("a list");
    tickets.iter().map(|ticket| ticket["title"].as_str().expect("a title")).collect()
}

fn tickets<'a>(data: &'a Value, title: &str) -> &'a Value {
    let tickets = data.as_array().expect("a list");
    tickets.iter().find(|ticket| ticket["title"] == title).expect("listed")
}

#[tokio::test]
async fn mine_are_those_i_reported_and_those_assigned_to_me_my_position_or_my_group() {
    let company = company().await;
    let reply = company.module.ask("GET", "/tickets", None).await;
    assert_eq!(
        titles(reply.data()),
        ["to my group", "to my position", "to me", "reported"],
        "newest change first"
    );
    assert_eq!(reply.header("x-result-truncated"), "");
    let same = company.module.ask("GET", "/tickets?view=mine", None).await;
    assert_eq!(same.body, reply.body);
}

#[tokio::test]
async fn all_are_the_companys_and_no_others() {
    let company = company().await;
    let (me, module) = (company.me, &company.module);
    let foreign = Row {
        company: Uuid::now_v7(),
        title: "theirs",
        status: "open",
        reporter: me,
        assignee: None,
        minute: 9,
    };
    put(module, &foreign).await;
    let reply = module.ask("GET", "/tickets?view=all", None).await;
    let all = ["to nobody", "not mine", "to my group", "to my position", "to me", "reported"];
    assert_eq!(titles(reply.data()), all);
    assert_eq!(titles(module.ask("GET", "/tickets", None).await.data()), &all[2..]);
}

#[tokio::test]
async fn a_ticket_has_every_documented_member() {
    let company = company().await;
    company.module.hold(&["member"]);
    let reply = company.module.ask("GET", "/tickets", None).await;
    let ticket = tickets(reply.data(), "to my position");
    let expected = json!({
        "id": ticket["id"], "companyId": company.module.company, "number": 3, "title": "to my position",
        "description": "What happened", "status": "open", "priority": "normal", "reporterMemberId": ticket["reporterMemberId"],
        "assigneeMemberId": null, "assigneeKind": "position", "assigneePositionId": company.position,
        "assigneePositionTitle": "The position", "assigneeGroupId": null, "assigneeGroupTitle": null,
        "assigneeDisplayName": "The position", "myTier": "member", "isReporter": false, "isAssignee": true,
        "createdAt": "2026-11-22T09:00:00.000Z", "updatedAt": "2026-11-22T10:03:00.000Z",
    });
    assert_eq!(ticket, &expected);
    let group = tickets(reply.data(), "to my group");
    assert_eq!(
        [&group["assigneeKind"], &group["assigneeGroupId"], &group["assigneeGroupTitle"]],
        [&json!("group"), &json!(company.group), &json!("The group")]
    );
    let member = tickets(reply.data(), "to me");
    assert_eq!(
        [&member["assigneeKind"], &member["assigneeMemberId"], &member["assigneeDisplayName"]],
        [&json!("member"), &json!(company.me), &json!("The member")]
    );
    let mine = tickets(reply.data(), "reported");
    assert_eq!(
        [&mine["assigneeKind"], &mine["assigneeDisplayName"], &mine["isReporter"], &mine["isAssignee"]],
        [&Value::Null, &Value::Null, &json!(true), &json!(false)]
    );
}

#[tokio::test]
async fn names_are_those_of_now_asked_for_once_and_of_the_assignment_where_org_does_not_tell() {
    let company = company().await;
    let module = &company.module;
    let path = format!("/internal/org/companies/{}/lookup", module.company);
    let (me, position) = (company.me, company.position);
    module.org.answer_with("POST", &path, move |_| {
        let member =
            json!({ "id": me, "displayName": "Alice", "email": null, "isActive": true, "kcSub": null });
        let desk =
            json!({ "id": position, "title": "Desk", "holderMemberId": null, "holderDisplayName": null });
        (200, json!({ "data": { "members": [member], "positions": [desk], "groups": [] } }))
    });
    let names = |reply: &testkit::Reply| {
        ["to me", "to my position", "to my group"].map(|title| {
            let ticket = tickets(reply.data(), title);
            ticket["assigneeDisplayName"].as_str().expect("a name").to_owned()
        })
    };
    let reply = module.ask("GET", "/tickets", None).await;
    assert_eq!(names(&reply), ["Alice", "Desk", "The group"], "an unknown group keeps its stored title");
    assert_eq!(tickets(reply.data(), "to my position")["assigneePositionTitle"], "Desk");
    let asked = module.org.requests().iter().filter(|request| request.path == path).count();
    assert_eq!(asked, 1);
    module.org.close("POST", &path);
    let reply = module.ask("GET", "/tickets", None).await;
    assert_eq!(names(&reply), ["The member", "The position", "The group"]);
}

#[tokio::test]
async fn the_tier_is_the_highest_that_is_held_asked_from_the_top() {
    let company = company().await;
    let module = &company.module;
    let tier = |relation| module.probe("helpdesk.tier.read", relation, true);
    for (view, relations, expected, probes) in [
        ("mine", MEMBER, "member", vec![tier("admin"), tier("editor")]),
        ("mine", EDITOR, "editor", vec![tier("admin"), tier("editor")]),
        ("mine", ADMIN, "admin", vec![tier("admin")]),
        ("all", EDITOR, "editor", vec![tier("admin")]),
        ("all", ADMIN, "admin", vec![tier("admin")]),
    ] {
        module.hold(relations);
        let asked = module.questions().len();
        let reply = module.ask("GET", &format!("/tickets?view={view}"), None).await;
        let list = reply.data().as_array().expect("a list");
        assert!(
            !list.is_empty() && list.iter().all(|ticket| ticket["myTier"] == expected),
            "{view} {relations:?}"
        );
        assert_eq!(module.questions().split_off(asked + 1), probes, "{view} {relations:?}");
    }
}

#[tokio::test]
async fn an_empty_list_shows_no_tier_and_asks_for_none() {
    let module = start().await;
    module.member(Uuid::now_v7(), &[], &[]);
    let reply = module.ask("GET", "/tickets", None).await;
    assert_eq!((reply.status, reply.data()), (200, &json!([])));
    assert_eq!(module.questions(), [module.question("helpdesk.tickets.read", "member", false)]);
}

#[tokio::test]
async fn a_tier_that_cannot_be_had_is_503() {
    let company = company().await;
    company.module.authz.answer_with("POST", CAN, |request| match request.body["relation"].as_str() {
        Some("member") => (200, json!({ "data": { "allowed": true, "reason": "ALLOWED", "evidence": [] } })),
        _ => (500, json!({})),
    });
    gates::refused_for(&company.module.ask("GET", "/tickets", None).await, "authz", "the tier");
}

#[tokio::test]
async fn all_needs_editor_and_shows_an_operator_without_a_member_row_as_party_to_none() {
    let company = company().await;
    let module = &company.module;
    module.hold(&["member"]);
    let denied = module.ask("GET", "/tickets?view=all", None).await;
    assert_eq!((denied.status, denied.code()), (403, "AUTHORIZATION_DENIED"));
    module.decide(|_| true);
    let reply = module.ask("GET", "/tickets?view=all", None).await;
    assert_eq!(tickets(reply.data(), "reported")["isReporter"], true);
    for (member, active) in [(Value::Null, false), (json!(company.me), false)] {
        let is_member = !member.is_null();
        module.answer_context(
            200,
            json!({ "data": { "isMember": is_member, "isActive": active, "memberId": member, "displayName": null,
                "email": null, "positionIds": [company.position], "groupIds": [company.group] } }),
        );
        let reply = module.ask("GET", "/tickets?view=all", None).await;
        let list = reply.data().as_array().expect("a list");
        let none = |name: &str| list.iter().all(|ticket| ticket[name] == false);
        assert!(list.len() == 6 && none("isReporter") && none("isAssignee"), "{}", reply.text);
    }
}

#[tokio::test]
async fn mine_needs_an_active_member_row() {
    let company = company().await;
    for (member, active, reason) in [
        (Value::Null, false, "COMPANY_MEMBERSHIP_REQUIRED"),
        (json!(company.me), false, "COMPANY_ACCESS_BLOCKED"),
    ] {
        let is_member = !member.is_null();
        company.module.answer_context(
            200,
            json!({ "data": { "isMember": is_member, "isActive": active, "memberId": member, "displayName": null,
                "email": null, "positionIds": [], "groupIds": [] } }),
        );
        let reply = company.module.ask("GET", "/tickets", None).await;
        assert_eq!((reply.status, reply.code()), (403, "AUTHORIZATION_DENIED"));
        assert_eq!(reply.body["error"]["details"]["reason"], reason);
    }
}

#[tokio::test]
async fn without_org_both_views_are_503() {
    let company = company().await;
    for (status, body) in [
        (500, json!({})),
        (404, json!({})),
        (200, json!({})),
        (200, json!({ "data": { "isMember": true, "isActive": true } })),
        (200, json!("garbage")),
    ] {
        let shown = format!("{status} {body}");
        company.module.answer_context(status, body);
        for tail in ["/tickets", "/tickets?view=all"] {
            gates::refused_for(&company.module.ask("GET", tail, None).await, "org", &shown);
        }
    }
}

#[tokio::test]
async fn the_caller_is_asked_for_by_the_tokens_subject_and_without_a_bearer() {
    let company = company().await;
    company.module.ask("GET", "/tickets", None).await;
    let requests = company.module.org.requests();
    let lookup = format!("/internal/org/companies/{}/lookup", company.module.company);
    assert_eq!(
        (requests.len(), &requests[1].path),
        (2, &lookup),
        "the member row, then the assignees' names"
    );
    let path =
        format!("/internal/org/companies/{}/members/by-kcsub/alice-subject/context", company.module.company);
    assert_eq!((requests[0].path.as_str(), requests[0].headers.get("authorization")), (path.as_str(), None));
}

#[tokio::test]
async fn one_status_or_any() {
    let company = company().await;
    let module = &company.module;
    for (minute, status) in [(10, "in_progress"), (11, "resolved"), (12, "closed")] {
        let (title, reporter) = (status, company.me);
        put(module, &Row { company: module.company, title, status, reporter, assignee: None, minute }).await;
        let reply = module.ask("GET", &format!("/tickets?status={status}"), None).await;
        assert_eq!(titles(reply.data()), [status]);
    }
    let open = module.ask("GET", "/tickets?status=open&view=all", None).await;
    assert_eq!(open.data().as_array().expect("a list").len(), 6);
}

#[tokio::test]
async fn every_wrong_query_value_is_told_after_the_decision() {
    let module = start().await;
    for (query, expected) in [
        ("view=ALL", vec!["view enum"]),
        ("view=", vec!["view enum"]),
        ("status=done", vec!["status enum"]),
        ("view=x&status=%00", vec!["view enum", "status enum"]),
        ("view=all&status=OPEN", vec!["status enum"]),
    ] {
        let reply = module.ask("GET", &format!("/tickets?{query}"), None).await;
        assert_eq!(reply.wrong_fields(), expected, "{query}");
    }
    assert!(module.org.requests().is_empty(), "an invalid query causes no look-up");
    module.hold(&[]);
    assert_eq!(module.ask("GET", "/tickets?view=x", None).await.status, 403);
}

#[tokio::test]
async fn a_list_has_at_most_a_thousand_rows_and_says_when_there_are_more() {
    let module = start().await;
    let me = Uuid::now_v7();
    module.member(me, &[], &[]);
    let fill = |first: u32, last: u32| {
        format!(
            "INSERT INTO helpdesk.tickets(id, company_id, number, title, description, reporter_member_id, reporter_kc_sub) \
             SELECT gen_random_uuid(), '{}', n, 'Ticket ' || n, '', '{me}', 'somebody' \
             FROM generate_series({first}, {last}) n",
            module.company
        )
    };
    module.execute(fill(1, 1_000)).await;
    let whole = module.ask("GET", "/tickets", None).await;
    assert_eq!(
        (whole.data().as_array().map(Vec::len), whole.header("x-result-truncated")),
        (Some(1_000), "")
    );
    module.execute(fill(1_001, 1_001)).await;
    let cut = module.ask("GET", "/tickets", None).await;
    assert_eq!(
        (cut.data().as_array().map(Vec::len), cut.header("x-result-truncated")),
        (Some(1_000), "true")
    );
    // Rows of the same time are ordered by id.
    let listed: Vec<&str> =
        cut.data().as_array().expect("a list").iter().filter_map(|ticket| ticket["id"].as_str()).collect();
    assert_eq!(listed[0], cut.data()[0]["id"]);
    let (newest, older) = listed.split_at(1);
    assert!(newest[0] != older[0] && older.is_sorted(), "999 of one transaction, ordered by id");
}

#[tokio::test]
async fn a_members_list_writes_no_denial() {
    let company = company().await;
    company.module.hold(&["member"]);
    company.module.ask("GET", "/tickets", None).await;
    let questions = company.module.questions();
    let (first, others) = questions.split_first().expect("the decision");
    assert_eq!(first["relation"], "member");
    assert!(others.len() == 2 && others.iter().all(|question| question["probe"] == true), "{others:?}");
}

#[tokio::test]
async fn a_ticket_is_opened_with_the_next_number_its_audit_row_and_a_notice() {
    let world = World::start().await;
    let body =
        json!({ "title": "The printer is on fire", "description": "Second floor.", "priority": "urgent" });
    let made = world.ask(ALICE, "POST", "/tickets", Some(body)).await;
    let id = crate::world::id(&made);
    let expected = json!({
        "id": id, "companyId": world.module.company, "number": 1, "title": "The printer is on fire",
        "description": "Second floor.", "status": "open", "priority": "urgent",
        "reporterMemberId": world.people[ALICE].member, "assigneeMemberId": null, "assigneeKind": null,
        "assigneePositionId": null, "assigneePositionTitle": null, "assigneeGroupId": null, "assigneeGroupTitle": null,
        "assigneeDisplayName": null, "myTier": "member", "isReporter": true, "isAssignee": false,
        "createdAt": made.data()["createdAt"], "updatedAt": made.data()["createdAt"],
    });
    assert_eq!((made.status, made.data()), (201, &expected));
    assert_eq!(world.show(ALICE, &id).await.data(), &expected);
    let second = world.open(BOB, "Another").await;
    assert_eq!(world.show(AGENT, &second).await.data()["number"], 2);
    let rows = world.module.audit().await;
    assert_eq!(rows.len(), 2);
    let row = &rows[0];
    assert_eq!(
        [&row["actor"], &row["action"], &row["subject"]],
        [&json!("subject-2"), &json!("ticket.created"), &json!(format!("ticket:{id}"))]
    );
    assert_eq!(row["payload"], json!({ "number": 1, "priority": "urgent" }), "no text is copied");
}

#[tokio::test]
async fn property_12_limits_of_a_ticket_hold_at_and_one_past_and_characters_are_counted() {
    let world = World::start().await;
    let ask = async |title: String, description: String| {
        let body = json!({ "title": title, "description": description });
        world.ask(ALICE, "POST", "/tickets", Some(body)).await
    };
    let fire = "\u{1f525}";
    for (title, description) in [("x", ""), (&fire.repeat(200), &fire.repeat(20_000)), ("a\tb", "\n")] {
        assert_eq!(ask(title.to_owned(), description.to_owned()).await.status, 201, "{}", title.len());
    }
    for (title, description, wrong) in [
        (String::new(), String::new(), "title length"),
        (fire.repeat(201), String::new(), "title length"),
        (" ".to_owned(), String::new(), "title blank"),
        ("a\u{7}".to_owned(), String::new(), "title control"),
        ("a\0".to_owned(), String::new(), "title control"),
        ("x".to_owned(), fire.repeat(20_001), "description length"),
        ("x".to_owned(), "\0".to_owned(), "description control"),
    ] {
        assert_eq!(ask(title, description).await.wrong_fields()[0], wrong);
    }
    for (body, wrong) in [
        (json!({ "title": "x" }), "description required"),
        (json!({ "title": "x", "description": null }), "description required"),
        (json!({ "title": "x", "description": "", "priority": "soon" }), "priority enum"),
    ] {
        assert_eq!(world.ask(ALICE, "POST", "/tickets", Some(body)).await.wrong_fields(), [wrong]);
    }
    world.module.decide(|_| true);
    let path = world.module.path(world.module.company, "/tickets");
    let call = world.module.call("POST", &path).header("content-type", "application/json");
    let broken = call.body(br#"{"title":"\ud800","description":""}"#.to_vec()).send().await;
    assert_eq!((broken.status, broken.code()), (400, "BAD_REQUEST"), "half a surrogate pair is invalid");
}

#[tokio::test]
async fn a_list_holds_two_mebibytes_of_text_and_says_when_there_is_more() {
    let world = World::start().await;
    let me = world.people[ALICE].member;
    // A title of 4 bytes and a description of 80,000 per ticket: 26 of them fit, 27 do not.
    let fill = |first: u32, last: u32| {
        format!(
            "INSERT INTO helpdesk.tickets(id, company_id, number, title, description, reporter_member_id, reporter_kc_sub, \
               updated_at) \
             SELECT gen_random_uuid(), '{}', n, '\u{1f525}', repeat('\u{1f525}', 20000), '{me}', 'somebody', \
               '2026-01-01'::timestamptz - make_interval(secs => n) FROM generate_series({first}, {last}) n",
            world.module.company
        )
    };
    let lists = async || {
        let mut seen = Vec::new();
        for (who, query) in
            [(ALICE, ""), (ALICE, "?status=open"), (AGENT, "?view=all"), (AGENT, "?view=all&status=open")]
        {
            let reply = world.ask(who, "GET", &format!("/tickets{query}"), None).await;
            let items = reply.data().as_array().expect("a list");
            assert!(
                items.iter().all(|item| item["description"].as_str().map(str::len) == Some(80_000)),
                "whole"
            );
            let numbers: Vec<_> =
                items.iter().map(|item| item["number"].as_u64().expect("a number")).collect();
            assert!(numbers.iter().copied().eq((1..).take(numbers.len())), "the newest: {query} {numbers:?}");
            seen.push((numbers.len(), reply.header("x-result-truncated").to_owned()));
        }
        seen
    };
    world.module.execute(fill(1, 26)).await;
    assert_eq!(lists().await, vec![(26, String::new()); 4], "control");
    world.module.execute(fill(27, 27)).await;
    assert_eq!(lists().await, vec![(26, "true".to_owned()); 4]);
    world.module.execute(fill(28, 200)).await;
    assert_eq!(lists().await, vec![(26, "true".to_owned()); 4]);
    let found = world.ask(AGENT, "GET", "/tickets/search?pageSize=10&page=20", None).await;
    assert_eq!(
        found.data()["items"].as_array().map(Vec::len),
        Some(10),
        "the search reaches the rest: {}",
        found.status
    );
}
