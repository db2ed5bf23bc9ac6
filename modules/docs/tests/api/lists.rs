//! The list of documents: which view contains what, and how each document is shown to the caller.

use serde_json::{Value, json};
use testkit::ModuleApi;
use testkit::module::{SUBJECT, gates};
use uuid::Uuid;

use crate::start;

/// A document's row as it is after it was created, opened up or trashed.
struct Row<'a> {
    company: Uuid,
    title: &'a str,
    owner: &'a str,
    access: &'a str,
    state: &'a str,
    minute: u32,
}

async fn put(module: &ModuleApi, row: &Row<'_>) -> Uuid {
    let id = Uuid::now_v7();
    let trashed = if row.state == "trashed" { "'2026-11-23 00:00:00+00'" } else { "NULL" };
    module
        .execute(format!(
            "INSERT INTO docs.documents(id, company_id, title, body, current_version, owner_kc_sub, owner_member_id, \
               general_access, state, trashed_at, created_at, updated_at, updated_by) \
             VALUES ('{id}', '{}', '{}', 'BODY-OF-A-DOCUMENT', 3, '{}', '{OWNER_MEMBER}', '{}', '{}', {trashed}, \
               '2026-11-22 09:00:00+00', '2026-11-22 10:{:02}:00+00', 'somebody'); \
             INSERT INTO docs.versions(document_id, version, title, body, author) \
             VALUES ('{id}', 3, '{}', 'BODY-OF-A-DOCUMENT', 'somebody'); \
             INSERT INTO docs.document_counts(company_id, active, open, trashed) \
               SELECT company_id, count(*) FILTER (WHERE state = 'active'), \
                 count(*) FILTER (WHERE state = 'active' AND general_access <> 'restricted'), \
                 count(*) FILTER (WHERE state = 'trashed') FROM docs.documents GROUP BY company_id \
               ON CONFLICT (company_id) DO UPDATE \
                 SET active = excluded.active, open = excluded.open, trashed = excluded.trashed",
            row.company,
            row.title,
            row.owner,
            row.access,
            row.state,
            row.minute,
            row.title
        ))
        .await;
    id
}

const OWNER_MEMBER: &str = "0192f0c1-5d3e-7a10-8c11-2f6a4d9b0010";

async fn share(module: &ModuleApi, document: Uuid, principal: (&str, Uuid), role: &str, state: &str) {
    let (kind, id) = principal;
    let subject = if kind == "member" { format!("'{SUBJECT}'") } else { "NULL".to_owned() };
    module
        .execute(format!(
            "INSERT INTO docs.shares(id, company_id, document_id, principal_kind, {kind}_id, kc_sub, role, state, \
               granted_by) \
             VALUES ('{}', '{}', '{document}', '{kind}', '{id}', {subject}, '{role}', '{state}', 'somebody')",
            Uuid::now_v7(),
            module.company
        ))
        .await;
}

/// A company with documents of every kind.
struct Company {
    module: ModuleApi,
    me: Uuid,
}

async fn company() -> Company {
    let module = start().await;
    let [me, position, group, other] = [0; 4].map(|_| Uuid::now_v7());
    module.member(me, &[position], &[Uuid::now_v7(), group]);
    let put_one = async |minute, title, owner, access, state| {
        put(&module, &Row { company: module.company, title, owner, access, state, minute }).await
    };
    put_one(1, "own", SUBJECT, "restricted", "active").await;
    put_one(2, "own open", SUBJECT, "company_edit", "active").await;
    put_one(3, "own trashed", SUBJECT, "company_view", "trashed").await;
    put_one(4, "own provisioning", SUBJECT, "company_view", "provisioning").await;
    put_one(5, "for viewing", "bob", "company_view", "active").await;
    put_one(6, "for editing", "bob", "company_edit", "active").await;
    let to_me = put_one(7, "to me", "bob", "restricted", "active").await;
    share(&module, to_me, ("member", me), "viewer", "active").await;
    share(&module, to_me, ("member", other), "editor", "active").await;
    let to_position = put_one(8, "to my position", "bob", "restricted", "active").await;
    share(&module, to_position, ("position", position), "editor", "active").await;
    let to_group = put_one(9, "to my group", "bob", "company_view", "active").await;
    share(&module, to_group, ("group", group), "editor", "active").await;
    share(&module, to_group, ("member", me), "viewer", "active").await;
    let pending = put_one(10, "pending", "bob", "restricted", "active").await;
    share(&module, pending, ("member", me), "editor", "pending").await;
    put_one(11, "not mine", "bob", "restricted", "active").await;
    let trashed = put_one(12, "trashed", "bob", "company_view", "trashed").await;
    share(&module, trashed, ("member", me), "editor", "active").await;
    let foreign = Row {
        company: Uuid::now_v7(),
        title: "theirs",
        owner: SUBJECT,
        access: "company_edit",
        state: "active",
        minute: 13,
    };
    put(&module, &foreign).await;
    Company { module, me }
}

/// `title role` of each document in the list.
fn listed(data: &Value) -> Vec<String> {
    let items = data["items"].as_array().expect("a page");
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    items.iter().map(|item| format!("{}: {}", text(&item["title"]), text(&item["myRole"]))).collect()
}

#[tokio::test]
async fn each_view_holds_its_documents_newest_change_first() {
    let company = company().await;
    for (view, expected) in [
        ("mine", vec!["own open: owner", "own: owner"]),
        (
            "shared",
            vec![
                "to my group: editor",
                "to my position: editor",
                "to me: viewer",
                "for editing: editor",
                "for viewing: viewer",
            ],
        ),
        (
            "visible",
            vec![
                "to my group: editor",
                "to my position: editor",
                "to me: viewer",
                "for editing: editor",
                "for viewing: viewer",
                "own open: owner",
                "own: owner",
            ],
        ),
        ("trash", vec!["own trashed: owner"]),
        (
            "all",
            vec![
                "not mine: manager",
                "pending: manager",
                "to my group: editor",
                "to my position: editor",
                "to me: viewer",
                "for editing: editor",
                "for viewing: viewer",
                "own open: owner",
                "own: owner",
            ],
        ),
        ("trash_all", vec!["trashed: manager", "own trashed: owner"]),
    ] {
        let reply = company.module.ask("GET", &format!("/documents?view={view}"), None).await;
        assert_eq!(listed(reply.data()), expected, "{view}");
        assert_eq!(reply.data()["total"], expected.len(), "{view}");
        assert_eq!(reply.header("cache-control"), "no-store");
        assert!(!reply.text.contains("BODY-OF-A-DOCUMENT"), "no list holds a text");
    }
    let default = company.module.ask("GET", "/documents", None).await;
    assert_eq!(listed(default.data()), ["own open: owner", "own: owner"], "mine is the default");
}

#[tokio::test]
async fn a_document_has_every_documented_member() {
    let company = company().await;
    let reply = company.module.ask("GET", "/documents?view=shared&q=to%20me", None).await;
    let document = &reply.data()["items"][0];
    let expected = json!({
        "id": document["id"], "companyId": company.module.company, "title": "to me", "version": 3,
        "ownerMemberId": OWNER_MEMBER, "ownerDisplayName": null, "generalAccess": "restricted",
        "editorsCanShare": true, "isTemplate": false, "folderId": null, "myRole": "viewer", "sharedWithCount": 2, "trashedAt": null,
        "createdAt": "2026-11-22T09:00:00.000Z", "updatedAt": "2026-11-22T10:07:00.000Z", "updatedBy": "somebody",
    });
    assert_eq!(document, &expected);
    let trash = company.module.ask("GET", "/documents?view=trash", None).await;
    assert_eq!(trash.data()["items"][0]["trashedAt"], "2026-11-23T00:00:00.000Z");
}

#[tokio::test]
async fn a_share_that_is_not_confirmed_is_not_counted_and_one_that_is_being_taken_back_is() {
    let company = company().await;
    let reply = company.module.ask("GET", "/documents?view=all", None).await;
    let items = reply.data()["items"].as_array().expect("a page");
    let count = |title: &str| {
        items.iter().find(|item| item["title"] == title).expect("listed")["sharedWithCount"].clone()
    };
    assert_eq!([count("pending"), count("to my position"), count("to my group")], [0, 1, 2]);
}

#[tokio::test]
async fn only_some_views_ask_for_the_callers_place() {
    let company = company().await;
    let asked_so_far =
        || company.module.org.requests().iter().filter(|request| request.method == "GET").count();
    for (view, asked) in
        [("mine", 0), ("trash", 0), ("shared", 1), ("visible", 1), ("all", 1), ("trash_all", 1)]
    {
        let before = asked_so_far();
        company.module.ask("GET", &format!("/documents?view={view}"), None).await;
        assert_eq!(asked_so_far() - before, asked, "{view}");
    }
}

#[tokio::test]
async fn without_org_the_views_that_need_it_are_503() {
    let company = company().await;
    for (status, body) in [(500, json!({})), (404, json!({})), (200, json!({})), (200, json!("garbage"))] {
        let shown = format!("{status} {body}");
        company.module.answer_context(status, body);
        for view in ["shared", "all", "trash_all"] {
            let reply = company.module.ask("GET", &format!("/documents?view={view}"), None).await;
            gates::refused_for(&reply, "org", &format!("{view}: {shown}"));
        }
        assert_eq!(company.module.ask("GET", "/documents", None).await.status, 200);
    }
}

#[tokio::test]
async fn shared_needs_an_active_member_row_and_an_operator_without_one_only_manages() {
    let company = company().await;
    for (member, reason) in
        [(Value::Null, "COMPANY_MEMBERSHIP_REQUIRED"), (json!(company.me), "COMPANY_ACCESS_BLOCKED")]
    {
        let is_member = !member.is_null();
        company.module.answer_context(
            200,
            json!({ "data": { "isMember": is_member, "isActive": false, "memberId": member, "displayName": null,
                "email": null, "positionIds": [], "groupIds": [] } }),
        );
        let reply = company.module.ask("GET", "/documents?view=shared", None).await;
        assert_eq!((reply.status, reply.code()), (403, "AUTHORIZATION_DENIED"));
        assert_eq!(reply.body["error"]["details"]["reason"], reason);
        let all = company.module.ask("GET", "/documents?view=all&q=to", None).await;
        let managed = ["to my group: manager", "to my position: manager", "to me: manager"];
        assert!(managed.iter().all(|line| listed(all.data()).contains(&(*line).to_owned())), "{}", all.text);
    }
}

#[tokio::test]
async fn managers_views_need_admin() {
    let company = company().await;
    company.module.hold(&["member"]);
    for view in ["all", "trash_all"] {
        let reply = company.module.ask("GET", &format!("/documents?view={view}"), None).await;
        assert_eq!((reply.status, reply.code()), (403, "AUTHORIZATION_DENIED"), "{view}");
    }
    assert_eq!(company.module.ask("GET", "/documents?view=shared", None).await.status, 200);
}

#[tokio::test]
async fn a_search_finds_a_part_of_the_title_in_any_case_and_takes_no_pattern() {
    let module = start().await;
    for (minute, title) in [(1, "100% Ärger_mit \\ Reisen"), (2, "Reisekosten"), (3, "1000 Meilen")] {
        let (owner, access, state) = (SUBJECT, "restricted", "active");
        put(&module, &Row { company: module.company, title, owner, access, state, minute }).await;
    }
    for (search, expected) in [
        ("reise", 2),
        ("REISE", 2),
        ("%25", 1),
        ("_", 1),
        ("%5C", 1),
        ("100%25", 1),
        ("%C3%84rger", 1),
        ("nothing", 0),
        ("", 3),
    ] {
        let reply = module.ask("GET", &format!("/documents?q={search}"), None).await;
        assert_eq!(reply.data()["total"], expected, "{search}");
    }
}

#[tokio::test]
async fn pages_put_together_are_the_whole_list() {
    let company = company().await;
    for view in ["mine", "shared", "visible", "trash", "all", "trash_all", "visible&q=o", "all&q=o"] {
        let whole = company.module.ask("GET", &format!("/documents?view={view}"), None).await;
        let total = &whole.data()["total"];
        assert_eq!(total, listed(whole.data()).len(), "{view}");
        for size in [1, 2, 4, 9] {
            let mut seen = Vec::new();
            for page in 1..=10 {
                let tail = format!("/documents?view={view}&page={page}&pageSize={size}");
                let reply = company.module.ask("GET", &tail, None).await;
                assert_eq!((&reply.data()["total"], &reply.data()["page"]), (total, &json!(page)), "{view}");
                seen.extend(listed(reply.data()));
            }
            assert_eq!(seen, listed(whole.data()), "{view}, pageSize {size}");
        }
    }
}

#[tokio::test]
async fn every_wrong_query_value_is_told_at_once_and_after_the_decision() {
    let module = start().await;
    let longest = "ä".repeat(100).replace('ä', "%C3%A4");
    assert_eq!(module.ask("GET", &format!("/documents?q={longest}"), None).await.status, 200);
    let too_long = format!("q={longest}x");
    for (query, expected) in [
        ("view=ours", vec!["view enum"]),
        (&*too_long, vec!["q length"]),
        ("q=a%00b", vec!["q control"]),
        ("folderId=x&templates=yes", vec!["folderId uuid", "templates enum"]),
        ("view=x&q=%00&page=0&pageSize=101", vec!["view enum", "q control", "page range", "pageSize range"]),
    ] {
        let reply = module.ask("GET", &format!("/documents?{query}"), None).await;
        assert_eq!(reply.wrong_fields(), expected, "{query}");
    }
    module.hold(&[]);
    assert_eq!(module.ask("GET", "/documents?view=ours", None).await.status, 403);
}

#[tokio::test]
async fn reading_writes_nothing() {
    let company = company().await;
    let before = company.module.contents().await;
    for view in ["mine", "shared", "visible", "trash", "all", "trash_all"] {
        company.module.ask("GET", &format!("/documents?view={view}"), None).await;
    }
    assert_eq!(company.module.contents().await, before);
}
