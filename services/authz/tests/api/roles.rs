//! The platform role: who may get it, who may lose it, and that it always has a holder.

use serde_json::{Value, json};

use crate::app::{App, ROLES};
use crate::cases::told;
use crate::journal::number;

async fn grant(app: &App, actor: &str, subject: &str) -> testkit::Reply {
    app.ask("POST", ROLES, actor, Some(json!({ "subjectId": subject, "role": "platform-superadmin" }))).await
}

pub(crate) async fn revoke(app: &App, actor: &str, subject: &str) -> testkit::Reply {
    app.ask("DELETE", &format!("{ROLES}/platform-superadmin/{subject}"), actor, None).await
}

async fn holders(app: &App) -> Vec<String> {
    let sql = "SELECT subject_id FROM authz.tuple WHERE object_type = 'system' AND relation = 'superadmin' ORDER BY 1";
    sqlx::query_scalar(sql).fetch_all(&app.owner).await.expect("tuples")
}

async fn ledger(app: &App) -> Vec<Value> {
    let sql = "SELECT jsonb_build_array(role, subject, change, actor, correlation_id) FROM authz.role_ledger ORDER BY seq";
    sqlx::query_scalar(sql).fetch_all(&app.owner).await.expect("the ledger")
}

#[tokio::test]
async fn granting_and_revoking_write_tuple_ledger_and_audit() {
    let app = App::start().await;
    app.rows().subject("alice").await;
    let expected = json!({ "subjectId": "alice", "role": "platform-superadmin" });
    let granted = grant(&app, "root", "alice").await;
    assert_eq!((granted.status, granted.data()), (200, &expected), "{}", granted.text);
    let again = grant(&app, "root", "alice").await;
    assert_eq!((again.status, again.data()), (200, &expected), "a holder keeps it");
    assert_eq!(holders(&app).await, ["alice", "root"]);
    let revoked = revoke(&app, "alice", "root").await;
    assert_eq!((revoked.status, revoked.data()["subjectId"].as_str()), (200, Some("root")));
    assert_eq!(holders(&app).await, ["alice"]);
    let change = |subject: &str, change: &str, actor: &str| {
        json!(["platform-superadmin", subject, change, actor, "test-correlation"])
    };
    assert_eq!(ledger(&app).await, [change("alice", "granted", "root"), change("root", "revoked", "alice")]);
    let event = |actor: &str, action: &str, subject: &str, from: Value, to: Value| {
        json!({
            "companyId": null, "actor": actor, "action": action, "subject": subject,
            "correlationId": "test-correlation", "payload": { "role": { "from": from, "to": to } },
        })
    };
    let role = json!("platform-superadmin");
    let expected = [
        event("root", "platform_role.granted", "user:alice", Value::Null, role.clone()),
        event("alice", "platform_role.revoked", "user:root", role, Value::Null),
    ];
    assert_eq!(app.audit().await, expected);
}

#[tokio::test]
async fn a_closed_subject_is_given_no_role() {
    let app = App::start().await;
    for subject in ["alice", "bob"] {
        app.rows().subject(subject).await;
    }
    let closed = "UPDATE identity.users SET lifecycle = 'closed', name_salt = NULL WHERE kc_sub = 'alice'";
    app.rows().run(closed).await;
    app.rows().run("UPDATE identity.users SET lifecycle = 'suspended' WHERE kc_sub = 'bob'").await;
    let refused = grant(&app, "root", "alice").await;
    assert_eq!((refused.status, refused.code()), (404, "NOT_FOUND"), "{}", refused.text);
    assert_eq!(holders(&app).await, ["root"]);
    assert_eq!(grant(&app, "root", "bob").await.status, 200, "control: a suspended subject may come back");
}

#[tokio::test]
async fn a_role_write_needs_the_role_of_its_own_bearer() {
    let app = App::start().await;
    for subject in ["alice", "bob"] {
        app.rows().subject(subject).await;
    }
    let own = format!("{ROLES}/platform-superadmin/root");
    let lookup = app.ask("GET", "/internal/authz/superadmin/alice", "alice", None).await;
    assert_eq!(lookup.data()["reason"], "PLATFORM_ROLE_REQUIRED", "alice may act, and holds no role");
    for (status, code, reply) in [
        (403, "PLATFORM_ROLE_REQUIRED", grant(&app, "alice", "alice").await),
        (403, "PLATFORM_ROLE_REQUIRED", revoke(&app, "alice", "root").await),
        (403, "AUTHORIZATION_DENIED", grant(&app, "a stranger", "alice").await),
        (403, "PLATFORM_ROLE_REQUIRED", app.ask("POST", ROLES, "alice", Some(json!({}))).await),
    ] {
        assert_eq!((reply.status, reply.code()), (status, code), "{}", reply.text);
    }
    let bare = app.api.delete(own).send().await;
    assert_eq!((bare.status, bare.code()), (401, "AUTH_TOKEN_MISSING"));
    app.rows().look(301).await;
    let reply = grant(&app, "root", "alice").await;
    assert_eq!((reply.status, reply.code()), (503, "AUTHORIZATION_UNAVAILABLE"), "{}", reply.text);
    app.rows().look(0).await;
    assert_eq!((holders(&app).await, ledger(&app).await), (vec!["root".to_owned()], vec![]));
    assert_eq!(grant(&app, "root", "alice").await.status, 200);
    assert_eq!(grant(&app, "alice", "bob").await.status, 200, "she holds it now, and at once");
    app.rows().run("UPDATE identity.users SET lifecycle = 'suspended' WHERE kc_sub = 'alice'").await;
    let reply = revoke(&app, "alice", "root").await;
    assert_eq!((reply.status, reply.code()), (403, "AUTHORIZATION_DENIED"), "a holder who may not act");
    assert_eq!(reply.body["error"]["details"]["reason"], "USER_LIFECYCLE_DISABLED");
}

#[tokio::test]
async fn refusals_write_nothing() {
    let app = App::start().await;
    app.rows().subject("alice").await;
    for (status, code, reply) in [
        (404, "NOT_FOUND", grant(&app, "root", "a stranger").await),
        (404, "NOT_FOUND", revoke(&app, "root", "alice").await),
        (404, "NOT_FOUND", revoke(&app, "root", &"x".repeat(256)).await),
        (409, "CONFLICT", revoke(&app, "root", "root").await),
        (422, "VALIDATION_FAILED", app.ask("DELETE", &format!("{ROLES}/owner/root"), "root", None).await),
        (
            422,
            "VALIDATION_FAILED",
            app.ask("POST", ROLES, "root", Some(json!({ "subjectId": "alice", "role": "owner" }))).await,
        ),
        (400, "VALIDATION_ERROR", app.ask("POST", ROLES, "root", Some(json!({ "subjectId": "" }))).await),
        (
            400,
            "VALIDATION_ERROR",
            app.ask("POST", ROLES, "root", Some(json!({ "subjectId": 1, "role": 2 }))).await,
        ),
    ] {
        assert_eq!((reply.status, reply.code()), (status, code), "{}", reply.text);
    }
    assert_eq!(holders(&app).await, ["root"]);
    assert_eq!(ledger(&app).await, Vec::<Value>::new());
    assert_eq!(app.audit().await, Vec::<Value>::new());
}

#[tokio::test]
async fn the_last_one_who_can_act_stays() {
    let app = App::start().await;
    app.rows().subject("alice").await;
    assert_eq!(grant(&app, "root", "alice").await.status, 200);
    for change in ["lifecycle = 'suspended'", "lifecycle = 'active', idp_enabled = false"] {
        app.rows().run(format!("UPDATE identity.users SET {change} WHERE kc_sub = 'alice'")).await;
        assert_eq!(revoke(&app, "root", "root").await.status, 409, "{change}: alice cannot administer");
    }
    assert_eq!(revoke(&app, "root", "alice").await.status, 200);
}

#[tokio::test]
async fn a_change_that_cannot_be_audited_does_not_happen() {
    let app = App::start().await;
    app.rows().subject("alice").await;
    app.rows().run("REVOKE INSERT ON audit.authz__events FROM platform_authz").await;
    assert_eq!(grant(&app, "root", "alice").await.status, 500);
    assert_eq!(holders(&app).await, ["root"]);
    assert_eq!(ledger(&app).await, Vec::<Value>::new());
}

#[tokio::test]
async fn two_who_revoke_each_other_leave_one_in_every_round() {
    let app = App::start().await;
    app.rows().subject("alice").await;
    assert_eq!(grant(&app, "root", "alice").await.status, 200);
    let rounds = number("AUTHZ_REVOKE_ROUNDS", 100);
    for round in 0..rounds {
        let (first, second) = tokio::join!(revoke(&app, "root", "alice"), revoke(&app, "alice", "root"));
        let mut statuses = [first.status, second.status];
        statuses.sort_unstable();
        // A caller that comes after the other's revocation is no longer a superadmin.
        assert!([[200, 409], [200, 403]].contains(&statuses), "round {round}: {statuses:?}");
        let left = holders(&app).await;
        assert_eq!(left.len(), 1, "round {round}");
        let gone = if left == ["root"] { "alice" } else { "root" };
        assert_eq!(grant(&app, &left[0], gone).await.status, 200);
    }
    let rows = app.audit().await.len();
    assert_eq!(rows, ledger(&app).await.len());
    assert_eq!(u64::try_from(rows).ok(), Some(2 * rounds + 1), "one row per change");
    told(&format!("{rounds} rounds, each one 200 and one refusal, one holder left"));
}

/// identity takes the same guard before it suspends a subject.
#[tokio::test]
async fn a_revoke_waits_for_whoever_holds_the_guard() {
    let app = App::start().await;
    app.rows().subject("alice").await;
    assert_eq!(grant(&app, "root", "alice").await.status, 200);
    let identity = app.database.pool_as("identity");
    let mut suspending = identity.begin().await.expect("a transaction");
    let found: Vec<String> = sqlx::query_scalar("SELECT * FROM authz.superadmin_guard()")
        .fetch_all(&mut *suspending)
        .await
        .expect("identity may call it");
    assert_eq!(found, ["alice", "root"]);
    sqlx::query("UPDATE identity.users SET lifecycle = 'suspended' WHERE kc_sub = 'alice'")
        .execute(&mut *suspending)
        .await
        .expect("identity's own row");
    let (reply, ()) = tokio::join!(revoke(&app, "root", "root"), async {
        until_somebody_waits(&app).await;
        suspending.commit().await.expect("a commit");
    });
    assert_eq!(reply.status, 409, "it sees what was committed while it waited");
}

/// Waits until a statement waits for a lock.
pub(crate) async fn until_somebody_waits(app: &App) {
    until_so_many_wait(app, 1).await;
}

/// Waits until this many statements wait for locks.
pub(crate) async fn until_so_many_wait(app: &App, many: i64) {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    let wait =
        async || sqlx::query_scalar::<_, i64>(waiting).fetch_one(&app.owner).await.expect("activity") >= many;
    testkit::until("statements wait for locks", wait).await;
}

/// A write is admitted before its actor loses the role, and waits for the guard until the loss is committed.
#[tokio::test]
async fn a_write_that_waits_for_the_guard_is_refused_once_its_actor_lost_the_role() {
    let app = App::start().await;
    for subject in ["alice", "bob"] {
        app.rows().subject(subject).await;
    }
    assert_eq!(grant(&app, "root", "bob").await.status, 200);
    let nothing = "SELECT";
    let taken = "DELETE FROM authz.tuple WHERE object_type = 'system' AND subject_id = 'alice'";
    let suspended = "UPDATE identity.users SET lifecycle = 'suspended' WHERE kc_sub = 'alice'";
    for (meanwhile, status, code, left) in [
        (nothing, 200, "", &["alice", "bob", "root"][..]),
        (taken, 403, "PLATFORM_ROLE_REQUIRED", &["bob", "root"]),
        (suspended, 403, "AUTHORIZATION_DENIED", &["alice", "bob", "root"]),
    ] {
        for write in ["keep", "give", "take"] {
            app.rows().run("UPDATE identity.users SET lifecycle = 'active'").await;
            for subject in ["alice", "root"] {
                assert_eq!(grant(&app, "bob", subject).await.status, 200);
            }
            let before = app.audit().await.len();
            let mut revoking = app.owner.begin().await.expect("a transaction");
            for sql in ["SELECT FROM authz.superadmin_guard FOR UPDATE", meanwhile] {
                sqlx::query(sql).execute(&mut *revoking).await.expect("the superuser may");
            }
            let writing = async {
                match write {
                    "keep" => grant(&app, "alice", "alice").await,
                    "give" => grant(&app, "alice", "root").await,
                    _ => revoke(&app, "alice", "root").await,
                }
            };
            let (reply, ()) = tokio::join!(writing, async {
                until_somebody_waits(&app).await;
                revoking.commit().await.expect("a commit");
            });
            assert_eq!((reply.status, reply.code()), (status, code), "{write} {meanwhile}: {}", reply.text);
            let left: Vec<&str> = left
                .iter()
                .copied()
                .filter(|one| status != 200 || write != "take" || *one != "root")
                .collect();
            assert_eq!(holders(&app).await, left, "{write} {meanwhile}");
            if status == 403 {
                assert_eq!(app.audit().await.len(), before, "{write} {meanwhile}");
            }
        }
    }
}
