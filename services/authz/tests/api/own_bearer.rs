//! A user's own bearer at authz's port: it gives and takes nothing that only a module, known by the services' credential, may
//! change in the user's name.

use serde_json::json;
use sqlx::AssertSqlSafe;
use testkit::Call;

use crate::app::{in_company, with};
use crate::grants::{ANCHOR, OWNER, World};
use crate::roles::until_somebody_waits;

const BOSS_OWNS: &str = "crm_deal:1#owner@user:boss";
const TIER: &str = "company_module:{c}/crm#editor@user:alice";
const HEADER: &str = "x-platform-service";

/// Status and `details.reason`, sent with the bearer and what `with` adds.
async fn sent(
    world: &World,
    subject: &str,
    op: &str,
    tuple: &str,
    with: impl FnOnce(Call) -> Call,
) -> (u16, String) {
    let reply = world.send(subject, op, &[tuple], with).await;
    let reason = reply.body["error"]["details"]["reason"].as_str().unwrap_or_default();
    (reply.status, reason.to_owned())
}

fn refused() -> (u16, String) {
    (403, "SERVICE_CREDENTIAL_REQUIRED".to_owned())
}

#[tokio::test]
async fn a_members_own_bearer_changes_no_relation() {
    let world = World::start().await;
    assert_eq!(world.done("boss", "grant", &[ANCHOR, BOSS_OWNS]).await, (2, 2), "the module, for boss");
    let owns = || {
        let deal =
            json!({ "moduleKey": "crm", "object": { "type": "crm_deal", "id": "1" }, "relation": "owner" });
        with(in_company(world.company), deal)
    };
    let before = (world.granted().await, world.app.audit().await.len());
    for (subject, op, tuple) in [
        ("alice", "grant", OWNER),
        ("alice", "grant", "crm_deal:2#company_module@company_module:{c}/crm"),
        ("alice", "revoke", BOSS_OWNS),
        ("alice", "revoke", ANCHOR),
        // An administrator of the module as well: at the edge only superadmins give tiers, elsewhere modules by their rules.
        ("boss", "grant", TIER),
        ("boss", "grant", OWNER),
    ] {
        assert_eq!(sent(&world, subject, op, tuple, |call| call).await, refused(), "{subject} {op} {tuple}");
    }
    for wrong in [
        |call: Call| call.header(HEADER, ""),
        |call: Call| call.header(HEADER, "not-the-services-credential"),
        |call: Call| call.service().service(),
    ] {
        assert_eq!(sent(&world, "alice", "grant", OWNER, wrong).await, refused());
    }
    assert_eq!((world.granted().await, world.app.audit().await.len()), before);
    assert_eq!(world.app.reason("alice", owns()).await, "ENGINE_DENIED", "alice owns nothing");
    let done = (200, String::new());
    assert_eq!(
        sent(&world, "alice", "grant", OWNER, Call::service).await,
        done,
        "control: the module, for alice"
    );
    assert_eq!(world.app.reason("alice", owns()).await, "ALLOWED");
    assert_eq!(sent(&world, "boss", "grant", TIER, Call::service).await, done);
    assert_eq!(
        sent(&world, "root", "revoke", OWNER, |call| call).await,
        done,
        "a superadmin, as through the edge"
    );
}

/// What the other rules say comes first, so a caller without the credential learns the same as before.
#[tokio::test]
async fn the_credential_is_asked_for_after_type_and_decision() {
    let world = World::start().await;
    world.app.rows().subject("stranger").await;
    for (subject, tuple, expected) in [
        ("alice", "unicorn:1#rider@user:alice", (422, String::new())),
        ("stranger", ANCHOR, (403, "COMPANY_MEMBERSHIP_REQUIRED".to_owned())),
        ("alice", OWNER, refused()),
    ] {
        assert_eq!(sent(&world, subject, "grant", tuple, |call| call).await, expected, "{subject} {tuple}");
    }
}

/// A member who is a superadmin needs no credential, and needs one once the role went while the request waited.
#[tokio::test]
async fn a_superadmin_who_loses_the_role_while_waiting_needs_the_credential() {
    for (meanwhile, credential, expected) in [
        ("SELECT", false, (200, String::new())),
        ("DELETE FROM authz.tuple WHERE object_type = 'system' AND subject_id = 'alice'", false, refused()),
        (
            "DELETE FROM authz.tuple WHERE object_type = 'system' AND subject_id = 'alice'",
            true,
            (200, String::new()),
        ),
    ] {
        let world = World::start().await;
        world.app.rows().tuple("system:platform#superadmin@user:alice", "role").await;
        let mut revoking = world.app.owner.begin().await.expect("a transaction");
        for sql in ["SELECT FROM authz.superadmin_guard FOR UPDATE", meanwhile] {
            sqlx::query(AssertSqlSafe(sql)).execute(&mut *revoking).await.expect("the superuser may");
        }
        let with = |call: Call| if credential { call.service() } else { call };
        let (told, ()) = tokio::join!(sent(&world, "alice", "grant", ANCHOR, with), async {
            until_somebody_waits(&world.app).await;
            revoking.commit().await.expect("a commit");
        });
        assert_eq!(told, expected, "{meanwhile} {credential}");
    }
}
