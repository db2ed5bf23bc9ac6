//! `/health`, `/ready`, `/metrics`, without a bearer.

use crate::app::TestApp;

#[tokio::test]
async fn ready_after_a_database_ping_and_every_start_up_pass() {
    let app = TestApp::start().await;
    assert_eq!(app.api.get("/health").send().await.status, 200);
    let ready = app.api.get("/ready").send().await;
    assert_eq!((ready.status, &ready.data()["status"]), (200, &"ready".into()));

    let pass = app.core.readiness.hold("install list");
    let held = app.api.get("/ready").send().await;
    assert_eq!((held.status, held.code()), (503, "INTERNAL_ERROR"));
    assert_eq!(held.body["error"]["details"]["waitingFor"][0], "install list");
    pass.release();
    assert_eq!(app.api.get("/ready").send().await.status, 200);
}

#[tokio::test]
async fn without_a_database_alive_but_not_ready_and_nothing_is_acknowledged() {
    // Port 1 refuses connections: nothing listens there.
    let app = TestApp::start_with(|settings| settings.with("PLATFORM_ORG_DB_PORT", "1")).await;
    assert_eq!(app.api.get("/health").send().await.status, 200);
    let ready = app.api.get("/ready").send().await;
    assert_eq!((ready.status, ready.code()), (503, "INTERNAL_ERROR"), "{}", ready.text);
    let note =
        app.api.post("/notes").bearer(&app.token()).json(serde_json::json!({"text": "lost"})).send().await;
    assert_eq!((note.status, note.code()), (503, "AUTHORIZATION_UNAVAILABLE"), "{}", note.text);
}

#[tokio::test]
async fn metrics_name_their_service_in_every_series() {
    let app = TestApp::start().await;
    let reply = app.api.get("/metrics").send().await;
    assert_eq!(reply.header("content-type"), "text/plain; version=0.0.4");
    for series in reply.text.lines().filter(|line| !line.starts_with('#')) {
        assert!(series.contains("service=\"org\""), "{series}");
    }
    for family in ["acquired", "idle", "max"] {
        assert!(reply.text.contains(&format!("platform_db_pool_{family}_conns{{")), "{family}");
    }
}
