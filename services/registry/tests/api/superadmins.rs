//! Who opens registry's port without the edge: what changes something is for superadmins by authz's word.

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
    assert_eq!(asked.len(), 6, "one question each");
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
