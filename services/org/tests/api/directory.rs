//! The directory, a subject's membership, a caller's context and a caller's companies.

use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};

use crate::support::{Org, fields, made, role};

fn names(data: &Value) -> Vec<String> {
    let items = data["items"].as_array().cloned().unwrap_or_default();
    items.iter().map(|item| item["displayName"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn the_directory_shows_active_members_and_searches_what_it_shows() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let path = format!("/internal/org/companies/{company}/members");
    for (code, name, email) in [
        ("x1", "Zoë", "zoe@example.org"),
        ("x2", "Bob 100%", "b@example.org"),
        ("x9", "Ann", "a_b@other.net"),
    ] {
        let body = json!({ "companyId": company, "code": code, "displayName": name, "email": email });
        org.post("/internal/org/admin/members", body).await;
    }
    let gone = org.member(&company, "gone").await;
    org.put(&format!("/internal/org/admin/members/{gone}"), json!({ "isActive": false })).await;
    let whole = org.get(&path).await;
    assert_eq!(names(whole.data()), ["Ann", "Bob 100%", "Zoë"]);
    assert_eq!(whole.data()["items"][0]["hasLinkedUser"], false);
    for (search, found) in [
        ("ZO%C3%8B", vec!["Zoë"]),
        ("example", vec!["Bob 100%", "Zoë"]),
        ("a_", vec!["Ann"]),
        ("%25", vec!["Bob 100%"]),
        ("%5C", vec![]),
        ("", vec!["Ann", "Bob 100%", "Zoë"]),
    ] {
        assert_eq!(names(org.get(&format!("{path}?q={search}")).await.data()), found, "{search}");
    }
    let page = org.get(&format!("{path}?page=2&pageSize=2")).await;
    assert_eq!((names(page.data()), &page.data()["totalPages"]), (vec!["Zoë".to_owned()], &json!(2)));
    let past = org.get(&format!("{path}?page=3&pageSize=2")).await;
    assert_eq!(past.data(), &json!({ "items": [], "total": 3, "page": 3, "pageSize": 2, "totalPages": 2 }));
}

#[tokio::test]
async fn bad_questions_to_the_directory_are_400() {
    let org = Org::start().await;
    let path = format!("/internal/org/companies/{}/members", uuid::Uuid::now_v7());
    assert_eq!(org.get(&path).await.data()["total"], 0, "an unknown company is empty");
    assert_eq!(org.get(&format!("{path}?q={}", "a".repeat(100))).await.status, 200);
    for (query, field) in [
        (format!("q={}", "a".repeat(101)), "q length"),
        ("q=a%00b".to_owned(), "q control"),
        ("q=%0A".to_owned(), "q control"),
        ("q=Ann%0Aann".to_owned(), "q control"),
        ("page=0".to_owned(), "page range"),
        ("pageSize=101".to_owned(), "pageSize range"),
    ] {
        let reply = org.get(&format!("{path}?{query}")).await;
        assert_eq!((reply.status, fields(&reply)), (400, vec![field.to_owned()]));
    }
    for path in [
        "/internal/org/companies/x/members",
        "/internal/org/companies/x/members/by-kcsub/a",
        "/internal/org/companies/x/members/by-kcsub/a/context",
    ] {
        let reply = org.get(path).await;
        assert_eq!((reply.status, reply.code()), (400, "BAD_REQUEST"));
    }
}

#[tokio::test]
async fn a_membership_is_told_for_one_subject_and_a_stranger_looks_the_same_everywhere() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let member = org.member(&company, "m").await;
    org.link(&member, "alice").await;
    let ask = |company: String, subject: &str| {
        let path = format!("/internal/org/companies/{company}/members/by-kcsub/{subject}");
        let org = &org;
        async move { org.get(&path).await.data().clone() }
    };
    let active = json!({ "isMember": true, "isActive": true, "memberId": member });
    assert_eq!(ask(company.clone(), "alice").await, active);
    let stranger = json!({ "isMember": false, "isActive": false, "memberId": null });
    let too_long = "a".repeat(256);
    for subject in ["bob", "a%00b", &too_long] {
        assert_eq!(ask(company.clone(), subject).await, stranger);
    }
    assert_eq!(ask(uuid::Uuid::now_v7().to_string(), "alice").await, stranger);
    org.put(&format!("/internal/org/admin/members/{member}"), json!({ "isActive": false })).await;
    assert_eq!(
        ask(company, "alice").await,
        json!({ "isMember": true, "isActive": false, "memberId": member })
    );
}

#[tokio::test]
async fn a_context_holds_positions_and_groups_of_an_active_member_only() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let member = org.member(&company, "m").await;
    org.link(&member, "alice").await;
    let (position, group) = (org.position(&company, "P").await, org.group(&company, "G").await);
    org.post(&format!("/internal/org/admin/positions/{position}/assignments"), json!({ "memberId": member }))
        .await;
    org.post(&format!("/internal/org/admin/groups/{group}/members"), json!({ "memberId": member })).await;
    let path = format!("/internal/org/companies/{company}/members/by-kcsub/alice/context");
    assert_eq!(
        org.ask(&path).await.data(),
        &json!({
            "isMember": true, "isActive": true, "memberId": member, "displayName": "m", "email": null,
            "positionIds": [position], "groupIds": [group]
        })
    );
    org.put(&format!("/internal/org/admin/members/{member}"), json!({ "isActive": false })).await;
    let inactive = org.ask(&path).await;
    assert_eq!((&inactive.data()["positionIds"], &inactive.data()["groupIds"]), (&json!([]), &json!([])));
    let nobody = org.ask(&path.replace("alice", "bob")).await;
    assert_eq!(
        nobody.data(),
        &json!({
            "isMember": false, "isActive": false, "memberId": null, "displayName": null, "email": null,
            "positionIds": [], "groupIds": []
        })
    );
}

#[tokio::test]
async fn a_subject_whose_account_may_not_act_is_told_no_company() {
    let org = Org::start().await;
    let member = org.member(&org.company("ACME").await, "m").await;
    org.link(&member, "alice").await;
    org.account("alice").await;
    let change = async |set: &str| {
        let sql = sqlx::AssertSqlSafe(format!("UPDATE identity.users SET {set}"));
        sqlx::query(sql).execute(&org.owner).await.expect("updated")
    };
    for (off, on) in [
        ("lifecycle = 'suspended'", "lifecycle = 'active'"),
        ("idp_enabled = false", "idp_enabled = true"),
        ("kc_sub = 'another'", "kc_sub = 'alice'"),
    ] {
        assert_eq!(org.mine("alice").await.data()[0]["code"], "ACME", "before {off}");
        change(off).await;
        assert_eq!(org.mine("alice").await.data(), &json!([]), "{off}");
        change(on).await;
    }
    assert_eq!(org.mine("alice").await.data()[0]["code"], "ACME");
}

#[tokio::test]
async fn my_companies_are_active_ones_with_an_active_membership_by_code() {
    let org = Org::start().await;
    org.account("alice").await;
    let mut members = Vec::new();
    for code in ["ZETA", "ALPHA", "CLOSED", "LEFT"] {
        let company = org.company(code).await;
        let member = org.member(&company, "m").await;
        org.link(&member, "alice").await;
        members.push((company, member));
    }
    sqlx::query("UPDATE org.units SET is_active = false WHERE code = 'CLOSED'")
        .execute(&org.owner)
        .await
        .expect("updated");
    org.put(&format!("/internal/org/admin/members/{}", members[3].1), json!({ "isActive": false })).await;
    let mine = org.mine("alice").await;
    assert_eq!(
        mine.data(),
        &json!([
            { "id": members[1].0, "code": "ALPHA", "name": "ALPHA", "isActive": true },
            { "id": members[0].0, "code": "ZETA", "name": "ZETA", "isActive": true }
        ])
    );
    assert_eq!(org.mine("bob").await.data(), &json!([]));
    for query in ["", "?kcSub=", "?kcSub=a%00b"] {
        let reply = org.get(&format!("/internal/org/me/companies{query}")).await;
        assert_eq!((reply.status, reply.code()), (400, "VALIDATION_ERROR"), "{query}");
    }
}

/// The directory shows no codes, so a search must not reveal them.
#[tokio::test]
async fn a_search_finds_nobody_by_a_code() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let path = format!("/internal/org/companies/{company}/members");
    let body = json!({ "companyId": company, "code": "HIDDEN-42", "displayName": "Zoë Quist", "email": "z@example.org" });
    org.post("/internal/org/admin/members", body).await;
    for (search, found) in
        [("hidden", 0), ("42", 0), ("-4", 0), ("N", 0), ("H", 0), ("quis", 1), ("qu", 1), ("q", 1), ("ex", 1)]
    {
        let reply = org.get(&format!("{path}?q={search}")).await;
        assert_eq!((names(reply.data()).len(), &reply.data()["total"]), (found, &json!(found)), "{search}");
    }
}

/// Searches take every turn for costly reads while authz does not answer for their subjects. Another search waits for a
/// turn, in vain; the first page of the directory and a look at one subject do not.
#[tokio::test]
async fn one_subjects_lists_of_companies_leave_connections_to_others() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let of = |subject: &str, path: &str| org.api.get(path).bearer(&org.issuer.issue(subject)).send();
    let mut locked = org.owner.begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE org.units").execute(&mut *locked).await.expect("a lock");
    let lists = futures_util::future::join_all(
        (0..20).map(|_| of("alice", "/internal/org/me/companies?kcSub=alice")),
    );
    let others = async {
        let waits = || async {
            let waiting =
                "SELECT count(*) FROM pg_locks WHERE relation = 'org.units'::regclass AND NOT granted";
            sqlx::query_scalar::<_, i64>(waiting).fetch_one(&org.owner).await.expect("a number") >= 2
        };
        testkit::until("lists wait for the lock", waits).await;
        let members = format!("/internal/org/companies/{company}/members");
        assert_eq!(of("dan", &members).await.status, 200);
        locked.rollback().await.expect("the lock ends");
    };
    let (lists, ()) = tokio::join!(lists, others);
    assert!(lists.iter().all(|reply| reply.status == 200), "{lists:?}");
}

#[tokio::test]
async fn a_brief_read_waits_for_no_costly_one() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let member = org.member(&company, "m").await;
    org.link(&member, "alice").await;
    let path = format!("/internal/org/companies/{company}/members");
    let searching = format!("{path}?q=m");
    let groups = format!("/internal/org/companies/{company}/assignables/groups");
    let mut holding = org.owner.begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE org.groups IN ACCESS EXCLUSIVE MODE").execute(&mut *holding).await.expect("held");
    let of = |subject: &str, path: &str| org.api.get(path).bearer(&org.issuer.issue(subject)).send();
    let slow: Vec<String> = (0..8).map(|number| format!("slow{number}")).collect();
    let costly = futures_util::future::join_all(slow.iter().map(|reader| of(reader, &groups)));
    let reads = async {
        let is_refused = || async {
            let reply = of("dan", &searching).await;
            let told = (reply.status, reply.body["error"]["details"]["dependency"].as_str());
            let again = (reply.header("retry-after"), &reply.body["error"]["details"]["retryAfterSeconds"]);
            told == (503, Some("read_limit")) && again == ("1", &json!(1))
        };
        testkit::until("the lists have every turn", is_refused).await;
        for brief in [path.clone(), format!("{path}/by-kcsub/alice")] {
            assert_eq!(of("dan", &brief).await.status, 200, "{brief}");
        }
        let question = format!("/internal/authz/directory/{company}/eve");
        org.authz.answer("GET", &question, 200, role(false, "COMPANY_MEMBERSHIP_REQUIRED"));
        for refused in [&path, &searching] {
            assert_eq!(of("eve", refused).await.status, 403, "a refused reader takes no turn");
        }
        holding.rollback().await.expect("let go");
    };
    let (costly, ()) = tokio::join!(costly, reads);
    assert!(costly.iter().all(|reply| [200, 503].contains(&reply.status)), "{costly:?}");
    assert_eq!(of("dan", &searching).await.status, 200);
}

/// The second read of a subject waits for the first, which waits for the table.
#[tokio::test]
async fn a_right_that_is_lost_during_a_long_wait_opens_no_directory() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let alice = org.issuer.issue("alice");
    let question = format!("/internal/authz/directory/{company}/alice");
    let asked = || org.authz.requests().iter().filter(|asked| asked.path == question).count();
    for query in ["", "?q=m"] {
        org.authz.answer("GET", &question, 200, role(true, "ALLOWED"));
        let before = asked();
        let mut holding = org.owner.begin().await.expect("a transaction");
        let lock = "LOCK TABLE org.members, org.member_counts IN ACCESS EXCLUSIVE MODE";
        sqlx::query(lock).execute(&mut *holding).await.expect("held");
        let path = format!("/internal/org/companies/{company}/members{query}");
        let read = || org.api.get(&path).bearer(&alice).send();
        let losing = async {
            testkit::until("both are admitted", || async { asked() == before + 2 }).await;
            let waiting = Instant::now();
            org.authz.answer("GET", &question, 200, role(false, "COMPANY_MEMBERSHIP_REQUIRED"));
            testkit::until("the wait is long", || async { waiting.elapsed().as_millis() > 200 }).await;
            holding.rollback().await.expect("let go");
        };
        let (one, other, ()) = tokio::join!(read(), read(), losing);
        let mut statuses = [one.status, other.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 403], "{query}: {} {}", one.text, other.text);
    }
}

/// Lists wait while the members cannot be read. Other reads and services' requests do not count toward the limit.
#[tokio::test]
async fn the_fifth_list_of_a_subject_is_refused_and_other_reads_are_not() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let member = org.member(&company, "m").await;
    org.link(&member, "alice").await;
    let path = format!("/internal/org/companies/{company}/members");
    let by_subject = format!("{path}/by-kcsub/alice");
    let groups = format!("/internal/org/admin/companies/{company}/groups");
    let mut holding = org.owner.begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE org.members IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *holding)
        .await
        .expect("held");
    let (members, admin) =
        (format!("{path}?page=11&pageSize=100"), format!("/internal/org/admin/members?companyId={company}"));
    let mut lists: FuturesUnordered<_> = [&members, &admin, &members, &members, &groups, &members]
        .map(|path| org.get(path))
        .into_iter()
        .collect();
    for _ in 0..2 {
        let refused = lists.next().await.expect("six");
        let told = (refused.status, refused.code(), refused.header("retry-after"));
        assert_eq!(told, (429, "RATE_LIMITED", "1"), "{}", refused.text);
    }
    let mut brief: FuturesUnordered<_> = [&path, &by_subject, &path, &by_subject, &path, &by_subject]
        .map(|path| org.get(path))
        .into_iter()
        .collect();
    for _ in 0..2 {
        assert_eq!(brief.next().await.expect("six").status, 429, "brief reads have a limit of their own");
    }
    let units = format!("/internal/org/admin/units/{company}");
    assert_eq!(org.get(&units).await.status, 200, "other reads succeed");
    let metrics = org.api.get("/metrics").send().await.text;
    let refused = |reads| {
        format!("platform_reads_refused_total{{reads=\"{reads}\",reason=\"subject\",service=\"org\"}} 2")
    };
    for reads in ["costly", "brief"] {
        assert!(metrics.contains(&refused(reads)), "{reads}: {metrics}");
    }
    let services = futures_util::future::join_all((0..6).map(|_| org.ask(&members)));
    let (services, ()) = tokio::join!(services, async { holding.rollback().await.expect("let go") });
    assert!(services.iter().all(|reply| reply.status == 200), "services have no limit");
    while let Some(reply) = brief.next().await {
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    while let Some(reply) = lists.next().await {
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    let body = json!({ "companyId": company, "code": "n", "displayName": "n" });
    made(&org.post("/internal/org/admin/members", body).await);
}
