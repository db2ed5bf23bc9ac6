//! Closing an account on the whole platform: the person's data is exported first, and nothing names the person
//! afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::PgPool;

use crate::harness::client::Version;
use crate::harness::login::subject;
use crate::harness::{Api, Together, eventually};
use crate::tour::{create_company, create_member, link};

const NAME: &str = "Rosalind Featherstonehaugh";
const WORK_EMAIL: &str = "rosalind.f@acme.example";
/// The address that the built-in provider generates for the development user.
const EMAIL: &str = "rosalind@example.test";
const USER: &str = "rosalind";
/// Tables in which the scene leaves a name or an address, at least.
const NAMING: [&str; 9] = [
    "docs.documents",
    "docs.shares",
    "helpdesk.bindings",
    "helpdesk.tickets",
    "identity.users",
    "idp.users",
    "notification.delivery_jobs",
    "notification.subscriptions",
    "org.members",
];

/// Modules ask every ten seconds for members that org forgot at least ten seconds ago.
const PATIENCE: Duration = Duration::from_mins(1);

struct Scene {
    platform: Together,
    owner: PgPool,
    subject: String,
    member: String,
    company: String,
}

#[tokio::test]
async fn a_closed_account_is_exported_before_and_named_nowhere_afterwards() {
    let scene = Scene::start().await;
    let naming = scene.rows_with(&[NAME, WORK_EMAIL, EMAIL, USER]).await;
    for table in NAMING {
        assert!(naming.contains_key(table), "{table} names the person before: {naming:?}");
    }
    for table in naming.keys() {
        assert!(!table.starts_with("audit."), "{table} never names a person");
    }
    scene.export().await;

    let log = scene.platform.log().len();
    let closed = scene.said(&format!("identity close {}", scene.subject));
    assert!(closed.contains(&format!("{} is closed", scene.subject)), "{closed}");
    assert!(closed.contains("the identity provider has removed the account"), "{closed}");
    assert!(closed.contains("PLATFORM_DEV_USERS still names rosalind"), "{closed}");
    eventually("every part has forgotten", PATIENCE, || async {
        let left = scene.rows_with(&[NAME, WORK_EMAIL, EMAIL, USER]).await;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    let kept = scene.rows_with(&[&scene.subject, &scene.member]).await;
    for table in ["audit.org__events", "org.members", "identity.users", "docs.documents", "helpdesk.tickets"]
    {
        assert!(kept.contains_key(table), "the ids stay in {table}: {kept:?}");
    }
    let since = scene.platform.log().split_off(log).to_lowercase();
    for name in [NAME, WORK_EMAIL, EMAIL, USER] {
        assert!(!since.contains(&name.to_lowercase()), "{name} is in the log");
    }
}

impl Scene {
    async fn start() -> Self {
        let users = "admin:admin,rosalind:rosalind,dave:dave";
        let platform = Together::start_with(
            "closing",
            crate::harness::process::port_offset(),
            &[("PLATFORM_DEV_USERS", users)],
        );
        let admin = platform.api(Version::Http2).with_token(&platform.token("admin").await);
        let (token, dave) = (platform.token(USER).await, platform.token("dave").await);
        let rosalind = platform.api(Version::Http2).with_token(&token);
        rosalind.get("/api/org/me/companies").await.data(200);
        let dave_api = platform.api(Version::Http2).with_token(&dave);
        dave_api.get("/api/org/me/companies").await.data(200);
        let company = create_company(&admin, "ACME").await;
        let member = create_member(&admin, &company, USER).await;
        let named = json!({ "displayName": NAME, "email": WORK_EMAIL });
        put(&admin, &format!("/api/org/admin/members/{member}"), named).await;
        link(&admin, &member, &subject(&token)).await;
        link(&admin, &create_member(&admin, &company, "D1").await, &subject(&dave)).await;
        let owner = platform.owner().await;
        let scene = Self { platform, owner, subject: subject(&token), member, company };
        scene.work(&admin, &rosalind, &dave_api).await;
        scene
    }

    /// Creates data in every module.
    async fn work(&self, admin: &Api, rosalind: &Api, dave: &Api) {
        let (company, member) = (&self.company, &self.member);
        let docs = format!("/api/docs/v1/companies/{company}/documents");
        rosalind.post(&docs, json!({ "title": "Plans", "body": "for spring" })).await.data(201);
        let made = dave.post(&docs, json!({ "title": "Rules", "body": "of the house" })).await;
        let shares = format!("{docs}/{}/shares", text(&made.data(201)["id"]));
        dave.post(&shares, json!({ "memberId": member, "role": "viewer" })).await.data(201);

        let helpdesk = format!("/api/helpdesk/v1/companies/{company}");
        admin
            .post(&format!("{helpdesk}/bindings"), json!({ "memberId": member, "tier": "editor" }))
            .await
            .data(201);
        let made =
            dave.post(&format!("{helpdesk}/tickets"), json!({ "title": "Printer", "description": "" })).await;
        let ticket = text(&made.data(201)["id"]);
        let assignee = json!({ "assigneeMemberId": member });
        put(admin, &format!("{helpdesk}/tickets/{ticket}/assignee"), assignee).await;

        let notification = format!("/api/notification/v1/companies/{company}");
        let body = json!({ "key": "news", "label": "News", "kind": "email" });
        let channel = text(&admin.post(&format!("{notification}/channels"), body).await.data(201)["id"]);
        let path = format!("{notification}/channels/{channel}/subscription");
        put(rosalind, &path, json!({ "email": WORK_EMAIL })).await;
        let body = json!({ "channelId": channel, "subjectLine": "Hello", "body": "all" });
        admin.post(&format!("{notification}/messages"), body).await;
    }

    fn said(&self, arguments: &str) -> String {
        let output = self.platform.output(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// How many rows of each table, in all schemas, hold one of these texts in any column, ignoring case.
    async fn rows_with(&self, texts: &[&str]) -> BTreeMap<String, i64> {
        let tables: Vec<String> = sqlx::query_scalar(
            "SELECT format('%I.%I', table_schema, table_name) FROM information_schema.tables
              WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')",
        )
        .fetch_all(&self.owner)
        .await
        .expect("the tables");
        assert!(tables.len() > 60, "{tables:?}");
        let texts: Vec<String> = texts.iter().map(|text| text.to_lowercase()).collect();
        let mut found = BTreeMap::new();
        for table in tables {
            let sql = format!(
                "SELECT count(*) FROM {table} t WHERE EXISTS (SELECT FROM unnest($1::text[]) n WHERE strpos(lower(t::text), n) > 0)"
            );
            let count: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
                .bind(&texts)
                .fetch_one(&self.owner)
                .await
                .expect("a count");
            if count > 0 {
                found.insert(table, count);
            }
        }
        found
    }

    /// Checks that every row that holds the subject or its member row in any column is exported, and no secret.
    async fn export(&self) {
        let said = self.said(&format!("identity export {}", self.subject));
        // The test harness prints its own lines around it.
        let (from, to) = (said.find("{ \"subject\""), said.rfind("}}"));
        let document = from.zip(to).and_then(|(from, to)| said.get(from..to + 2)).expect("a document");
        let exported: Value = serde_json::from_str(document).expect("JSON");
        assert_eq!(exported["subject"], self.subject);
        for (table, count) in self.rows_with(&[&self.subject, &self.member]).await {
            let rows = exported["tables"][&table].as_array().map_or(0, Vec::len);
            assert!(i64::try_from(rows).is_ok_and(|rows| rows >= count), "{table}: {rows} of {count} rows");
        }
        assert_eq!(exported["tables"]["notification.delivery_jobs"][0]["target"], WORK_EMAIL);
        assert_eq!(exported["tables"]["org.members"].as_array().map(Vec::len), Some(1), "nobody else's row");
        let text = exported.to_string();
        for secret in ["\"password_hash\"", "_salt\"", "_hash\"", "\"secret\"", "$argon2"] {
            assert!(!text.contains(secret), "{secret} is exported");
        }
    }
}

async fn put(api: &Api, path: &str, body: Value) {
    let reply = api.send(reqwest::Method::PUT, path, Some(body)).await;
    assert_eq!(reply.status, 200, "{path}: {}", reply.body);
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}
