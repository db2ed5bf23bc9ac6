//! The audit of denials.

use serde_json::json;

use crate::app::{App, in_company, with};

#[tokio::test]
async fn a_denial_is_written_down_before_it_is_told() {
    let app = App::start().await;
    let rows = app.rows();
    let company = rows.company().await;
    rows.subject("bob").await;
    let object = json!({
        "moduleKey": "crm", "relation": "admin",
        "object": { "type": "company_module", "id": format!("{company}/crm") },
    });
    assert_eq!(app.reason("bob", with(in_company(company), object)).await, "COMPANY_MEMBERSHIP_REQUIRED");
    let named = with(in_company(company), json!({ "correlationId": "of the body" }));
    assert_eq!(app.reason("bob", named).await, "COMPANY_MEMBERSHIP_REQUIRED");
    let row = |correlation: &str,
               module: serde_json::Value,
               object: serde_json::Value,
               relation: serde_json::Value| {
        json!({
            "companyId": company, "actor": "bob", "action": "access.denied", "subject": "feature:crm.deals.read",
            "correlationId": correlation,
            "payload": {
                "featureKey": "crm.deals.read", "reason": "COMPANY_MEMBERSHIP_REQUIRED",
                "moduleKey": module, "object": object, "relation": relation,
            },
        })
    };
    let object = json!(format!("company_module:{company}/crm"));
    let expected = [
        row("test-correlation", json!("crm"), object, json!("admin")),
        row("of the body", json!(null), json!(null), json!(null)),
    ];
    assert_eq!(app.audit().await, expected);
}

#[tokio::test]
async fn an_allow_leaves_no_row() {
    let app = App::start().await;
    let rows = app.rows();
    let company = rows.company().await;
    rows.subject("alice").await;
    rows.member(company, "alice").await;
    assert_eq!(app.reason("alice", in_company(company)).await, "ALLOWED");
    assert!(app.audit().await.is_empty());
}

#[tokio::test]
async fn a_denial_that_cannot_be_written_is_503_and_an_allow_is_not_touched() {
    let app = App::start().await;
    let rows = app.rows();
    let company = rows.company().await;
    rows.subject("alice").await;
    rows.member(company, "alice").await;
    rows.run("REVOKE INSERT ON audit.authz__events FROM platform_authz").await;
    let reply = app.can("root", in_company(company)).await;
    assert_eq!((reply.status, reply.code()), (503, "AUTHORIZATION_UNAVAILABLE"));
    assert_eq!(reply.body["error"]["details"], json!({ "dependency": "postgres", "step": "audit" }));
    assert_eq!(app.reason("alice", in_company(company)).await, "ALLOWED");
    let metrics = app.api.get("/metrics").send().await.text;
    assert!(
        metrics.contains(
            "platform_authz_decisions_total{reason=\"DEPENDENCY_UNAVAILABLE\",service=\"authz\"} 1"
        ),
        "{metrics}"
    );
    rows.run("GRANT INSERT ON audit.authz__events TO platform_authz").await;
    assert_eq!(app.reason("root", in_company(company)).await, "COMPANY_MEMBERSHIP_REQUIRED", "it heals");
}

/// The writer keeps its own connection and replaces a broken one.
#[tokio::test]
async fn a_connection_that_broke_costs_one_denial_at_most() {
    let app = App::start().await;
    let company = app.rows().company().await;
    let ask = async || app.can("root", in_company(company)).await.status;
    let writers = async || {
        let text = "SELECT pid FROM pg_stat_activity
             WHERE datname = current_database() AND query LIKE 'INSERT INTO audit.authz__events%'";
        sqlx::query_scalar::<_, i32>(text).fetch_all(&app.owner).await.expect("activity")
    };
    assert_eq!((ask().await, ask().await), (200, 200));
    let [first] = writers().await[..] else { panic!("one connection writes denials") };
    sqlx::query("SELECT pg_terminate_backend($1, 5000)")
        .bind(first)
        .execute(&app.owner)
        .await
        .expect("its end");
    let (next, after) = (ask().await, ask().await);
    assert!(matches!(next, 200 | 503), "503 if the connection was in use: {next}");
    assert_eq!(after, 200);
    let [second] = writers().await[..] else { panic!("one connection writes denials") };
    assert_ne!(first, second);
    let told = usize::from(next == 200) + 3;
    assert_eq!(app.audit().await.len(), told, "every answered denial has a row");
}

#[tokio::test]
async fn many_denials_at_once_each_have_their_row() {
    let app = App::start().await;
    let company = app.rows().company().await;
    let ask = |index: usize| {
        let request = with(in_company(company), json!({ "correlationId": format!("c{index}") }));
        let app = &app;
        async move { app.reason("root", request).await }
    };
    let asked = (0..64).map(ask).collect::<Vec<_>>();
    for reason in futures_of(asked).await {
        assert_eq!(reason, "COMPANY_MEMBERSHIP_REQUIRED");
    }
    let mut seen: Vec<String> = app
        .audit()
        .await
        .iter()
        .filter_map(|row| row["correlationId"].as_str().map(ToOwned::to_owned))
        .collect();
    seen.sort();
    let mut expected: Vec<String> = (0..64).map(|index| format!("c{index}")).collect();
    expected.sort();
    assert_eq!(seen, expected);
}

/// Awaits all futures concurrently.
async fn futures_of<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut pinned: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = pinned.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, output) in pinned.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *output = Some(value);
            }
        }
        if outputs.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

/// A service's probe narrows an answer and refuses no request.
#[tokio::test]
async fn a_probe_of_a_service_is_no_denial_and_anybody_elses_is_one() {
    let app = App::start().await;
    let company = app.rows().company().await;
    let question = with(in_company(company), json!({ "probe": true }));
    let call = || {
        let token = app.issuer.issue("root");
        app.api.post(crate::app::CAN).bearer(&token).json(question.clone())
    };
    let told = call().service().send().await;
    assert_eq!(told.data()["reason"], "COMPANY_MEMBERSHIP_REQUIRED");
    assert_eq!(app.audit().await.len(), 0);
    let counted = "platform_authz_decisions_total{reason=\"COMPANY_MEMBERSHIP_REQUIRED\",service=\"authz\"}";
    let metrics = async || app.api.get("/metrics").send().await.text;
    assert!(!metrics().await.contains(&format!("{counted} 1")), "not counted");
    let service = "x-platform-service";
    let mut written = 0;
    for sent in [
        call(),
        call().header(service, ""),
        call().header(service, "not-the-services-credential"),
        call().service().service(),
    ] {
        assert_eq!(sent.send().await.data()["reason"], "COMPANY_MEMBERSHIP_REQUIRED", "{written}");
        written += 1;
        assert_eq!(app.audit().await.len(), written);
    }
    assert!(metrics().await.contains(&format!("{counted} {written}")), "counted");
    // Without `probe` it is a decision like any other.
    assert_eq!(app.reason("root", in_company(company)).await, "COMPANY_MEMBERSHIP_REQUIRED");
    assert_eq!(app.audit().await.len(), written + 1);
    let wrong = app.can("root", with(in_company(company), json!({ "probe": "yes" }))).await;
    assert_eq!((wrong.status, wrong.code()), (400, "VALIDATION_ERROR"), "{}", wrong.text);
}
