//! The look-ups behind the gateway's guards: the platform role and a company's directory.

use contract::id::CompanyId;
use serde_json::json;

use crate::app::{App, Rows, evidence};
use crate::can::crm;

async fn look_up(app: &App, subject: &str) -> (u16, serde_json::Value) {
    let path = format!("/internal/authz/superadmin/{subject}");
    let reply = app.api.get(&path).service().send().await;
    app.document().check("GET", &path, &reply);
    (reply.status, reply.data().clone())
}

#[tokio::test]
async fn steps_one_to_four_decide_uncounted_and_unaudited() {
    let app = App::start().await;
    let rows: Rows = app.rows();
    rows.subject("alice").await;
    let (status, held) = look_up(&app, "root").await;
    assert_eq!((status, &held["held"], &held["reason"]), (200, &json!(true), &json!("ALLOWED")));
    assert_eq!(evidence(&held["evidence"], "platformRole"), "platform-superadmin held");
    assert_eq!(held["accountActive"], true);
    for (change, subject, reason) in [
        ("SELECT 1", "alice", "PLATFORM_ROLE_REQUIRED"),
        ("SELECT 1", "nobody%20known", "AUTH_USER_NOT_FOUND"),
        (
            "UPDATE identity.users SET lifecycle = 'suspended' WHERE kc_sub = 'root'",
            "root",
            "USER_LIFECYCLE_DISABLED",
        ),
        ("UPDATE identity.users SET idp_enabled = false WHERE kc_sub = 'root'", "root", "IDP_DISABLED"),
    ] {
        rows.run(change).await;
        let (status, answer) = look_up(&app, subject).await;
        assert_eq!(
            (status, &answer["held"], &answer["reason"]),
            (200, &json!(false), &json!(reason)),
            "{subject}"
        );
        assert_eq!(answer["accountActive"], json!(reason == "PLATFORM_ROLE_REQUIRED"), "{reason}");
    }
    assert!(app.audit().await.is_empty());
    let metrics = app.api.get("/metrics").send().await.text;
    assert!(
        metrics.contains("platform_authz_decision_duration_seconds_count{service=\"authz\"} 0"),
        "{metrics}"
    );
}

#[tokio::test]
async fn what_cannot_be_decided_is_503_and_what_is_no_subject_400() {
    let app = App::start().await;
    app.rows().look(301).await;
    assert_eq!(look_up(&app, "root").await.0, 503);
    assert_eq!(look_up(&app, &"x".repeat(256)).await.0, 400);
}

/// `held reason` for a subject and a company's directory.
async fn directory(app: &App, company: CompanyId, subject: &str) -> String {
    let path = format!("/internal/authz/directory/{company}/{subject}");
    let reply = app.api.get(&path).service().send().await;
    app.document().check("GET", &path, &reply);
    assert_eq!(reply.status, 200, "{}", reply.text);
    format!("{} {}", reply.data()["held"], reply.data()["reason"].as_str().expect("a reason"))
}

#[tokio::test]
async fn the_directory_is_open_to_steps_one_to_five_and_to_superadmins() {
    let app = App::start().await;
    let rows: Rows = app.rows();
    let company = rows.company().await;
    for subject in ["alice", "bob"] {
        rows.subject(subject).await;
    }
    rows.member(company, "alice").await;
    assert_eq!(directory(&app, company, "alice").await, "true ALLOWED");
    assert_eq!(directory(&app, company, "bob").await, "false COMPANY_MEMBERSHIP_REQUIRED");
    assert_eq!(directory(&app, company, "stranger").await, "false AUTH_USER_NOT_FOUND");
    let users =
        |change: &str| format!("UPDATE identity.users SET {change} WHERE kc_sub IN ('alice', 'root')");
    for (change, back, refused, root) in [
        (users("lifecycle = 'suspended'"), users("lifecycle = 'active'"), "USER_LIFECYCLE_DISABLED", false),
        (users("idp_enabled = false"), users("idp_enabled = true"), "IDP_DISABLED", false),
        (
            "UPDATE org.units SET is_active = false".to_owned(),
            "UPDATE org.units SET is_active = true".to_owned(),
            "COMPANY_INACTIVE",
            true,
        ),
        (
            "UPDATE org.members SET is_active = false".to_owned(),
            "UPDATE org.members SET is_active = true".to_owned(),
            "COMPANY_ACCESS_BLOCKED",
            true,
        ),
    ] {
        rows.run(change).await;
        assert_eq!(directory(&app, company, "alice").await, format!("false {refused}"));
        assert_eq!(
            directory(&app, company, "root").await.starts_with("true"),
            root,
            "a superadmin: {refused}"
        );
        rows.run(back).await;
        assert_eq!(directory(&app, company, "alice").await, "true ALLOWED", "and again: {refused}");
    }
    assert_eq!(directory(&app, CompanyId::mint(), "root").await, "true ALLOWED", "in no company at all");
    assert_eq!(directory(&app, CompanyId::mint(), "alice").await, "false COMPANY_INACTIVE");
    assert!(app.audit().await.is_empty(), "a check by the gateway is not a decision");
}

#[tokio::test]
async fn a_directory_that_cannot_be_decided_is_503_and_a_malformed_question_400() {
    let app = App::start().await;
    let company = app.rows().company().await;
    let ask = async |path: String| {
        let reply = app.api.get(&path).service().send().await;
        app.document().check("GET", &path, &reply);
        (reply.status, reply.code().to_owned())
    };
    let malformed = (400, "BAD_REQUEST".to_owned());
    assert_eq!(ask("/internal/authz/directory/x/root".to_owned()).await, malformed);
    assert_eq!(ask(format!("/internal/authz/directory/{company}/{}", "x".repeat(256))).await, malformed);
    app.rows().look(301).await;
    let unavailable = (503, "AUTHORIZATION_UNAVAILABLE".to_owned());
    assert_eq!(ask(format!("/internal/authz/directory/{company}/root")).await, unavailable);
}

#[tokio::test]
async fn the_guards_questions_are_answered_to_the_subject_itself_and_to_services() {
    let app = App::start().await;
    let company = app.rows().company().await;
    for path in
        ["/internal/authz/superadmin/root".to_owned(), format!("/internal/authz/directory/{company}/root")]
    {
        let ask = async |call: testkit::Call| {
            let reply = call.send().await;
            app.document().check("GET", &path, &reply);
            (reply.status, reply.code().to_owned())
        };
        let call = || app.api.get(&path);
        assert_eq!(ask(call()).await, (401, "AUTH_TOKEN_MISSING".to_owned()), "{path}");
        let another = call().bearer(&app.issuer.issue("alice"));
        assert_eq!(ask(another).await, (403, "FORBIDDEN".to_owned()), "{path}");
        let wrong = call().bearer(&app.issuer.issue("root")).header("x-platform-service", "x");
        assert_eq!(ask(wrong).await, (401, "AUTH_TOKEN_INVALID".to_owned()), "{path}");
        for open in [call().bearer(&app.issuer.issue("root")), call().service()] {
            assert_eq!(ask(open).await.0, 200, "{path}");
        }
    }
}

#[tokio::test]
async fn a_module_is_in_use_in_an_active_company_while_it_is_enabled() {
    let app = App::start().await;
    let rows = app.rows();
    let company = rows.company().await;
    rows.app("crm", &crm(), &[]).await;
    let ask = async |company: CompanyId, module: &str| {
        let path = format!("/internal/authz/companies/{company}/modules/{module}");
        let reply = app.api.get(&path).service().send().await;
        app.document().check("GET", &path, &reply);
        (reply.status, reply.data()["inUse"].clone())
    };
    assert_eq!(ask(company, "crm").await, (200, true.into()));
    assert_eq!(ask(company, "unknown").await, (200, false.into()));
    assert_eq!(ask(CompanyId::mint(), "crm").await, (200, false.into()));
    for (change, back) in [
        ("UPDATE org.units SET is_active = false", "UPDATE org.units SET is_active = true"),
        (
            "UPDATE registry.modules SET enabled = false WHERE key = 'crm'",
            "UPDATE registry.modules SET enabled = true WHERE key = 'crm'",
        ),
    ] {
        rows.run(change.to_owned()).await;
        assert_eq!(ask(company, "crm").await, (200, false.into()), "{change}");
        rows.run(back.to_owned()).await;
        assert_eq!(ask(company, "crm").await, (200, true.into()), "{back}");
    }
    let path = format!("/internal/authz/companies/{company}/modules/crm");
    let reply = app.api.get(&path).bearer(&app.issuer.issue("root")).send().await;
    app.document().check("GET", &path, &reply);
    assert_eq!((reply.status, reply.code()), (403, "FORBIDDEN"), "for services only");
    assert!(app.audit().await.is_empty());
}
