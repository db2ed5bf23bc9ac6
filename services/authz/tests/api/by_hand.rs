//! Tuples and log rows that the platform did not write: a restore of the data alone, a loader that disables triggers
//! for its session, manual changes. Memory follows the table, whatever the log contains.

use crate::app::App;
use crate::restore::{NO_VIEWER, VIEWER, follows, reason, until_loaded, world};

const ALICES: &str = r#"{"object_type":"crm_deal","object_id":"1","relation":"viewer","subject_type":"user","subject_id":"alice","subject_relation":""}"#;

/// A restore of the data alone copies the log of another cluster, whose numbers happen to fit.
#[tokio::test]
async fn a_row_that_something_else_wrote_into_the_log_is_never_applied() {
    let database = testkit::database().await;
    let company = world(&database).await;
    let app = App::serve(database, "root").await;
    let rows = app.rows();
    for numbered in ["pg_current_xact_id()", "pg_snapshot_xmax(pg_current_snapshot())"] {
        until_loaded(&app).await;
        assert_eq!(reason(&app, company).await, "ENGINE_DENIED");
        rows.run(format!(
            "INSERT INTO feed.change(xid, kind, op, row) VALUES ({numbered}, 'tuple', 'I', '{ALICES}')"
        ))
        .await;
        assert_eq!(reason(&app, company).await, "ENGINE_DENIED", "{numbered}");
        follows(&app, &rows, company).await;
    }
}

/// A loader disables triggers and foreign keys for its session.
#[tokio::test]
async fn a_session_that_turns_triggers_off_for_itself_is_followed() {
    let database = testkit::database().await;
    let company = world(&database).await;
    let app = App::serve(database, "root").await;
    let rows = app.rows();
    let replica =
        |change: &str| format!("BEGIN; SET LOCAL session_replication_role = replica; {change}; COMMIT");
    for change in [NO_VIEWER, "TRUNCATE authz.tuple"] {
        until_loaded(&app).await;
        rows.tuple(VIEWER, "grant").await;
        assert_eq!(reason(&app, company).await, "ALLOWED");
        rows.run(replica(change)).await;
        assert_eq!(reason(&app, company).await, "ENGINE_DENIED", "{change}");
        if change == NO_VIEWER {
            follows(&app, &rows, company).await;
        }
    }
}

/// No role has this right except the owner of the table.
#[tokio::test]
async fn tuples_that_are_changed_in_place_are_what_they_were_changed_to() {
    let database = testkit::database().await;
    let company = world(&database).await;
    let app = App::serve(database, "root").await;
    let rows = app.rows();
    rows.tuple(VIEWER, "grant").await;
    assert_eq!(reason(&app, company).await, "ALLOWED");
    let give = |from: &str, to: &str| {
        format!(
            "UPDATE authz.tuple SET subject_id = '{to}' WHERE relation = 'viewer' AND subject_id = '{from}'"
        )
    };
    rows.run(give("alice", "bob")).await;
    assert_eq!(reason(&app, company).await, "ENGINE_DENIED");
    rows.run(give("bob", "alice")).await;
    assert_eq!(reason(&app, company).await, "ALLOWED");
    rows.run(NO_VIEWER).await;
    follows(&app, &rows, company).await;
}
