//! A closed subject's member rows keep their ids; names and addresses disappear from every table.

use serde_json::{Value, json};

use testkit::until;

use crate::support::{ADMIN, Org};

const NAME: &str = "Rosalind Featherstonehaugh";
const EMAIL: &str = "rosalind.f@example.test";
const CODE: &str = "rosalind";
const MEMBERS: &str = "/internal/org/admin/members";

/// Every row of every table as text, in lower case.
async fn everything(org: &Org) -> String {
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT format('%I.%I', table_schema, table_name) FROM information_schema.tables
          WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')",
    )
    .fetch_all(&org.owner)
    .await
    .expect("the tables");
    let mut all = String::new();
    for table in tables {
        let sql = format!("SELECT coalesce(string_agg(t::text, E'\\n'), '') FROM {table} t");
        let rows: String =
            sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&org.owner).await.expect("rows");
        all.push_str(&rows.to_lowercase());
    }
    all
}

async fn member(org: &Org, company: &str) -> String {
    let body = json!({ "companyId": company, "code": CODE, "displayName": "R. F.", "email": null });
    let id = crate::support::made(&org.post(MEMBERS, body).await);
    let named = json!({ "displayName": NAME, "email": EMAIL });
    assert_eq!(org.put(&format!("{MEMBERS}/{id}"), named).await.status, 200);
    id
}

async fn close(org: &Org, subject: &str) {
    let closed =
        sqlx::query("UPDATE identity.users SET lifecycle = 'closed', name_salt = NULL WHERE kc_sub = $1");
    closed.bind(subject).execute(&org.owner).await.expect("the superuser may");
}

#[tokio::test]
async fn the_member_rows_of_a_closed_subject_are_those_of_a_former_member() {
    let org = Org::start().await;
    let (acme, other) = (org.company("ACME").await, org.company("OTHER").await);
    let (here, there) = (member(&org, &acme).await, member(&org, &other).await);
    let namesake = member(&org, &org.company("THIRD").await).await;
    for subject in ["rosalind-subject", "bob-subject"] {
        org.account(subject).await;
    }
    for member in [&here, &there] {
        assert_eq!(org.link(member, "rosalind-subject").await.status, 200);
    }
    let position = org.position(&acme, "CTO").await;
    let assign = format!("/internal/org/admin/positions/{position}/assignments");
    assert_eq!(org.post(&assign, json!({ "memberId": here })).await.status, 201);
    assert_eq!(org.tuples("org").await.len(), 3);
    close(&org, "rosalind-subject").await;
    until("both rows are forgotten", || async {
        org.audit().await.iter().filter(|row| row.starts_with("system:forgetting member.forgotten")).count()
            == 2
    })
    .await;

    let listed = org.get(&format!("{MEMBERS}?companyId={acme}")).await;
    let row = &listed.data()["items"][0];
    let shown = |name: &str| row[name].clone();
    assert_eq!((shown("id"), shown("userId")), (json!(here), json!("rosalind-subject")), "ids stay");
    assert_eq!((shown("displayName"), shown("email")), (json!("Former member"), Value::Null));
    assert_eq!((shown("code"), shown("isActive")), (json!(format!("former-{here}")), json!(false)));
    assert!(org.tuples("org").await.is_empty(), "a former member has no tuple");

    let left = org.get(&format!("{MEMBERS}?companyId={}", org.company("FOURTH").await)).await;
    assert_eq!(left.data()["total"], 0);
    let all = everything(&org).await;
    assert_eq!(all.matches(&EMAIL.to_lowercase()).count(), 1, "the namesake in another company stays");
    let removed = sqlx::query("DELETE FROM org.members WHERE id::text = $1").bind(&namesake);
    removed.execute(&org.owner).await.expect("the superuser may");
    let all = everything(&org).await;
    for name in [NAME, EMAIL, CODE] {
        let all = all.replace("rosalind-subject", "");
        assert!(!all.contains(&name.to_lowercase()), "{name} is left");
    }
}

#[tokio::test]
async fn what_was_forgotten_is_not_written_anew() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let id = member(&org, &company).await;
    org.account("rosalind-subject").await;
    assert_eq!(org.link(&id, "rosalind-subject").await.status, 200);
    close(&org, "rosalind-subject").await;
    until("the row is forgotten", || async {
        org.audit()
            .await
            .last()
            .is_some_and(|row| *row == format!("system:forgetting member.forgotten member:{id}"))
    })
    .await;
    let path = format!("{MEMBERS}/{id}");
    assert_eq!(org.put(&path, json!({ "displayName": NAME })).await.code(), "CONFLICT");
    assert_eq!(org.put(&path, json!({ "isActive": true })).await.code(), "CONFLICT");
    assert_eq!(org.put(&path, json!({})).await.status, 200, "no change");
    assert_eq!(org.delete(&format!("{path}/link-user")).await.status, 200);
    assert_eq!(org.link(&id, "bob").await.code(), "CONFLICT");
    let fresh = member(&org, &company).await;
    assert_eq!(org.link(&fresh, "is-closed").await.code(), "NOT_FOUND", "a closed subject is not linked");
}

#[tokio::test]
async fn a_chosen_code_keeps_nobody_from_being_forgotten() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let id = member(&org, &company).await;
    let body = json!({ "companyId": company, "code": format!("FORMER-{id}"), "displayName": "Squatter" });
    assert_eq!(org.post(MEMBERS, body).await.status, 201);
    org.account("rosalind-subject").await;
    assert_eq!(org.link(&id, "rosalind-subject").await.status, 200);
    close(&org, "rosalind-subject").await;
    until("the row is forgotten", || async {
        org.audit().await.contains(&format!("system:forgetting member.forgotten member:{id}"))
    })
    .await;
    let code: String = sqlx::query_scalar("SELECT code FROM org.members WHERE id::text = $1")
        .bind(&id)
        .fetch_one(&org.owner)
        .await
        .expect("the row");
    assert!(code.starts_with("former-") && code != format!("former-{id}"), "{code}");
}

#[tokio::test]
async fn a_row_that_cannot_be_erased_holds_up_no_other() {
    let org = Org::start().await;
    let (first, second) = (org.company("ACME").await, org.company("OTHER").await);
    let mut members = [member(&org, &first).await, member(&org, &second).await];
    members.sort();
    let [stuck, other] = &members;
    org.account("rosalind-subject").await;
    for id in &members {
        assert_eq!(org.link(id, "rosalind-subject").await.status, 200);
    }
    let check = format!(
        "ALTER TABLE org.members ADD CONSTRAINT stuck CHECK (id <> '{stuck}' OR name_salt IS NOT NULL)"
    );
    sqlx::query(sqlx::AssertSqlSafe(check)).execute(&org.owner).await.expect("the superuser may");
    close(&org, "rosalind-subject").await;
    let row = |id: &str| format!("system:forgetting member.forgotten member:{id}");
    until("the other row is forgotten", || async { org.audit().await.contains(&row(other)) }).await;
    assert!(!org.audit().await.contains(&row(stuck)), "control");
    let freed = "ALTER TABLE org.members DROP CONSTRAINT stuck";
    sqlx::query(freed).execute(&org.owner).await.expect("the superuser may");
    until("the row is forgotten by a later search", || async { org.audit().await.contains(&row(stuck)) })
        .await;
}

#[tokio::test]
async fn a_former_member_settles_from_the_moment_of_its_number() {
    let org = Org::start().await;
    let id = member(&org, &org.company("ACME").await).await;
    org.account("rosalind-subject").await;
    assert_eq!(org.link(&id, "rosalind-subject").await.status, 200);
    let mut holder = org.owner.acquire().await.expect("a connection");
    let lock = "SELECT pg_advisory_lock(hashtextextended('platform.former_members', 0))";
    sqlx::query(lock).execute(&mut *holder).await.expect("locked");
    close(&org, "rosalind-subject").await;
    until("the worker waits for its number", || async {
        let waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                         AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))";
        sqlx::query_scalar(waiting).fetch_one(&org.owner).await.expect("the locks")
    })
    .await;
    let freed =
        "SELECT clock_timestamp(), pg_advisory_unlock(hashtextextended('platform.former_members', 0))";
    let (freed, _): (time::OffsetDateTime, bool) =
        sqlx::query_as(freed).fetch_one(&mut *holder).await.expect("freed");
    until("it has one", || async {
        let found = "SELECT forgotten_at FROM org.former_members";
        let at: Option<time::OffsetDateTime> =
            sqlx::query_scalar(found).fetch_optional(&org.owner).await.expect("the table");
        at.is_some_and(|at| {
            assert!(at >= freed, "{at} is the beginning of the transaction, before {freed}");
            true
        })
    })
    .await;
}

#[tokio::test]
async fn audit_rows_hold_no_names_from_the_beginning() {
    let org = Org::start().await;
    let id = member(&org, &org.company("ACME").await).await;
    let rows: Vec<(String, Value)> = sqlx::query_as(
        "SELECT action, payload FROM audit.org__events WHERE subject = 'member:' || $1 ORDER BY seq",
    )
    .bind(&id)
    .fetch_all(&org.owner)
    .await
    .expect("rows");
    let salt: Vec<u8> = sqlx::query_scalar("SELECT name_salt FROM org.members WHERE id::text = $1")
        .bind(&id)
        .fetch_one(&org.owner)
        .await
        .expect("a salt");
    let [(created, first), (updated, second)] = rows.as_slice() else { panic!("two rows: {rows:?}") };
    assert_eq!((created.as_str(), updated.as_str()), ("member.created", "member.updated"));
    let digest = |name: &str| json!(service::name_digest(&salt, name));
    assert_eq!(first["codeDigest"], json!({ "from": null, "to": digest(CODE) }));
    assert_eq!(
        second,
        &json!({
            "displayNameDigest": { "from": digest("R. F."), "to": digest(NAME) },
            "emailDigest": { "from": null, "to": digest(EMAIL) },
        })
    );
    assert!(org.audit().await.iter().all(|row| row.starts_with(ADMIN)));
}
