//! Direct access to registry's port, without the gateway: only superadmins that authz confirms can make changes.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::app::{ADMIN, ROLE, checked, made, role, start};
use crate::apps::manifest;

const ENABLE: &str = "/internal/platform/modules/alpha/enable";
const DISABLE: &str = "/internal/platform/modules/alpha/disable";
const APPS: &str = "/internal/platform/apps";

#[tokio::test]
async fn a_change_asks_for_the_platform_role_of_its_bearer_every_time() {
    let app = start(&[made("alpha", 8201)], "alpha").await;
    let (rows, revision) = (app.audit().await, app.revision().await);
    let before = app.authz.requests().len();
    for (reason, code) in
        [("PLATFORM_ROLE_REQUIRED", "PLATFORM_ROLE_REQUIRED"), ("IDP_DISABLED", "AUTHORIZATION_DENIED")]
    {
        app.authz.answer("GET", ROLE, 200, role(false, reason));
        for path in [ENABLE, DISABLE, APPS] {
            let call = app.api.post(path).bearer(&app.admin).json(manifest("crm", "1.0.0"));
            let reply = checked("POST", path, call.send().await);
            assert_eq!((reply.status, reply.code()), (403, code), "{path}");
            assert_eq!(reply.body["error"]["details"]["reason"], reason);
        }
    }
    let asked = app.authz.requests().split_off(before);
    assert_eq!(asked.len(), 6, "one request each");
    assert!(asked.iter().all(|asked| asked.path == format!("/internal/authz/superadmin/{ADMIN}")));
    app.authz.answer("GET", ROLE, 503, json!({ "error": {} }));
    let reply = app.post(DISABLE).await;
    assert_eq!((reply.status, reply.code()), (503, "AUTHORIZATION_UNAVAILABLE"));
    assert_eq!(reply.body["error"]["details"]["dependency"], "authz");
    assert_eq!(
        (app.audit().await, app.revision().await),
        (rows, revision),
        "what is refused changes nothing"
    );
    app.authz.answer("GET", ROLE, 200, role(true, "ALLOWED"));
    assert_eq!(app.post(DISABLE).await.status, 200);
    app.end().await;
}

/// The role is revoked between authz's first response and the commit.
#[tokio::test]
async fn no_change_is_committed_once_the_role_has_gone() {
    let app = start(&[made("alpha", 8201), made("beta", 8202)], "alpha,beta").await;
    assert_eq!(app.post(DISABLE).await.status, 200);
    let beta = "/internal/platform/modules/beta/disable";
    let (rows, revision) = (app.audit().await, app.revision().await);
    let send = async |path: &str| {
        let call = app.api.post(path).bearer(&app.admin).json(manifest("crm", "1.0.0"));
        checked("POST", path, call.send().await)
    };
    for (status, code) in [(403, "PLATFORM_ROLE_REQUIRED"), (503, "AUTHORIZATION_UNAVAILABLE")] {
        for path in [ENABLE, beta, APPS] {
            let asked = AtomicUsize::new(0);
            app.authz.answer_with("GET", ROLE, move |_| {
                match (asked.fetch_add(1, Ordering::Relaxed), status) {
                    (0, _) => (200, role(true, "ALLOWED")),
                    (_, 403) => (200, role(false, "PLATFORM_ROLE_REQUIRED")),
                    _ => (503, json!({ "error": {} })),
                }
            });
            let reply = send(path).await;
            assert_eq!((reply.status, reply.code()), (status, code), "{path} {}", reply.text);
        }
    }
    assert_eq!((app.audit().await, app.revision().await), (rows, revision), "nothing was changed");
    app.authz.answer("GET", ROLE, 200, role(true, "ALLOWED"));
    for path in [ENABLE, beta, APPS] {
        assert_eq!(send(path).await.status, 200, "control: {path}");
    }
    app.end().await;
}
