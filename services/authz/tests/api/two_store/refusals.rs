//! authz refuses, is unreachable, or does not answer: what each leaves behind, and that the same request succeeds
//! later.

use std::net::SocketAddr;

use axum::response::IntoResponse;
use service::two_store::Swept;
use testkit::Stub;
use uuid::Uuid;

use super::scene::Scene;

fn address(stub: &Stub) -> SocketAddr {
    stub.url().trim_start_matches("http://").parse().expect("an address")
}

async fn status(scene: &Scene, holder: &str, key: Option<&str>) -> u16 {
    scene.module.share(holder, key).await.into_response().status().as_u16()
}

async fn state(scene: &Scene, holder: &str) -> String {
    scene.share_of(holder).await.map(|(state, _)| state).unwrap_or_default()
}

#[tokio::test]
async fn a_refusal_undoes_the_row_and_frees_its_key() {
    let scene = Scene::start().await;
    scene.rows.subject("stranger").await;
    let stranger = scene.module.with_user("stranger", &scene.app.issuer.issue("stranger"));
    for key in [None, Some("k")] {
        let refused = stranger.share("h", key).await.expect_err("refused").parts();
        assert_eq!((refused.status.as_u16(), refused.code), (403, "AUTHORIZATION_DENIED"));
        assert_eq!(refused.details["reason"], "COMPANY_MEMBERSHIP_REQUIRED", "as authz said it");
        assert_eq!(state(&scene, "h").await, "", "no row");
    }
    let keys = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM crm.idempotency_keys");
    assert_eq!(keys.fetch_one(scene.pool()).await.expect("a number"), 0, "the key is free");
    assert_eq!(status(&scene, "h", Some("k")).await, 201, "the good case");
    let (_, id) = scene.share_of("h").await.expect("the share");
    let refused = stranger.unshare(id).await.expect_err("refused").parts();
    assert_eq!(refused.status.as_u16(), 403);
    assert_eq!(state(&scene, "h").await, "active", "as before");
    scene.at_rest().await;
    scene.module.unshare(id).await.expect("the good case");
    scene.at_rest().await;
}

#[tokio::test]
async fn without_authz_a_request_is_unavailable_and_succeeds_later() {
    let scene = Scene::start().await;
    let nowhere = scene.module.with_authz(SocketAddr::from(([127, 0, 0, 1], 1)));
    for key in [None, Some("k")] {
        let holder = format!("{key:?}");
        let refused = nowhere.share(&holder, key).await.expect_err("unavailable").parts();
        assert_eq!((refused.status.as_u16(), &refused.details["dependency"]), (503, &"authz".into()));
        assert_eq!(state(&scene, &holder).await, "pending");
        assert_eq!(status(&scene, &holder, key).await, 201);
        let (_, id) = scene.share_of(&holder).await.expect("the share");
        let refused = nowhere.unshare(id).await.expect_err("unavailable").parts();
        assert_eq!(refused.status.as_u16(), 503);
        assert_eq!(state(&scene, &holder).await, "revoking");
        scene.module.unshare(id).await.expect("resumed");
    }
    nowhere.share("h", None).await.expect_err("unavailable");
    let swept = nowhere.store.sweep::<super::module::Share>(std::time::Duration::ZERO).await;
    assert_eq!(swept.expect_err("unavailable").parts().status.as_u16(), 503, "a sweep must not guess");
    assert_eq!(state(&scene, "h").await, "pending");
    scene.sweep().await;
    scene.at_rest().await;
}

/// The first attempt was cut off after authz granted; the second is refused. Deleting the row would orphan its tuples.
#[tokio::test]
async fn a_refusal_after_an_attempt_without_an_answer_keeps_the_row() {
    let scene = Scene::start().await;
    scene.rows.subject("stranger").await;
    let stranger = scene.module.with_user("stranger", &scene.app.issuer.issue("stranger"));
    granted_and_cut_off(&scene, "h").await;
    let refused = stranger.share("h", None).await.expect_err("refused").parts();
    assert_eq!(refused.status.as_u16(), 403);
    assert_eq!((state(&scene, "h").await.as_str(), scene.tuples_of("h").await), ("pending", 2));
    assert_eq!(scene.sweep().await, Swept { kept: 1, ..Swept::default() });
    scene.at_rest().await;
    let (_, id) = scene.share_of("h").await.expect("the share");
    scene.rows.run("UPDATE crm.shares SET state = 'revoking', attempts = 1").await;
    scene.rows.run("UPDATE crm.share_count SET shares = shares - 1").await;
    scene.rows.run("DELETE FROM authz.tuple WHERE subject_id = 'h'").await;
    let refused = stranger.unshare(id).await.expect_err("refused").parts();
    assert_eq!((refused.status.as_u16(), state(&scene, "h").await.as_str()), (403, "revoking"));
    assert_eq!(scene.sweep().await, Swept { removed: 1, ..Swept::default() });
    scene.at_rest().await;
}

/// Any caller may resume a removal, also one whom authz refuses: the row must not become `active` again by that.
#[tokio::test]
async fn a_removal_that_another_call_began_is_not_undone_by_a_refusal() {
    let scene = Scene::start().await;
    scene.rows.subject("stranger").await;
    let stranger = scene.module.with_user("stranger", &scene.app.issuer.issue("stranger"));
    for is_begun in [false, true] {
        scene.module.share("h", None).await.expect("shared");
        let (_, id) = scene.share_of("h").await.expect("the share");
        if is_begun {
            scene.rows.run("UPDATE crm.shares SET state = 'revoking', attempts = 0").await;
            scene.rows.run("UPDATE crm.share_count SET shares = shares - 1").await;
        }
        let refused = stranger.unshare(id).await.expect_err("refused").parts();
        let left = if is_begun { "revoking" } else { "active" };
        assert_eq!((refused.status.as_u16(), state(&scene, "h").await.as_str()), (403, left), "{is_begun}");
        scene.module.unshare(id).await.expect("it is removed");
        scene.at_rest().await;
    }
}

/// Leaves a row as a crash between the two answers does.
async fn granted_and_cut_off(scene: &Scene, holder: &str) {
    let id = Uuid::now_v7();
    scene
        .rows
        .run(format!(
            "INSERT INTO crm.shares(id, company_id, holder, state, attempts)
             VALUES ('{id}', '{}', '{holder}', 'pending', 1)",
            scene.company()
        ))
        .await;
    for relation in ["owner", "viewer"] {
        scene.rows.tuple(&format!("crm_deal:1#{relation}@user:{holder}"), "grant").await;
    }
}

#[tokio::test]
async fn a_sweep_leaves_a_row_whose_tuples_stand_in_part() {
    let scene = Scene::start().await;
    granted_and_cut_off(&scene, "h").await;
    scene.rows.run("DELETE FROM authz.tuple WHERE subject_id = 'h' AND relation = 'owner'").await;
    assert_eq!(scene.sweep().await, Swept { left: 1, ..Swept::default() });
    assert_eq!(state(&scene, "h").await, "pending");
    assert_eq!(status(&scene, "h", None).await, 201, "its request completes it");
    scene.at_rest().await;
}

/// authz may still work on a call that timed out; until it has given up, no other request touches the row.
#[tokio::test]
async fn a_call_without_an_answer_keeps_its_row_until_authz_has_given_up() {
    let scene = Scene::start().await;
    let hanging = Stub::start().await;
    hanging.hang("POST", "/internal/authz/grants");
    let begun = tokio::time::Instant::now();
    let waiting = scene.module.with_authz(address(&hanging));
    let refused = waiting.share("h", None).await.expect_err("unavailable").parts();
    assert_eq!(refused.status.as_u16(), 503);
    assert_eq!(scene.sweep().await, Swept { left: 1, ..Swept::default() });
    let mut statuses = vec![status(&scene, "h", None).await];
    while statuses.last() == Some(&503) {
        statuses.push(status(&scene, "h", None).await);
    }
    assert_eq!(statuses.pop(), Some(201), "{statuses:?}");
    let limit = service::layers::REQUEST_TIMEOUT;
    assert!(begun.elapsed() >= limit, "resumed after {:?}", begun.elapsed());
    scene.at_rest().await;
}
