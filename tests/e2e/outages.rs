//! Each part is killed and brought back, and nothing else is restarted. No refusal may ever turn into an allow;
//! everything that does not need the part keeps working.

use std::time::Duration;

use serde_json::json;

use crate::harness::login::subject;
use crate::harness::{Api, Separate, eventually};
use crate::tour::{create_company, create_member, decide, link};

/// How long a part that is back may stay unused.
const HEALING_LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Scene {
    pub(crate) platform: Separate,
    pub(crate) admin: Api,
    pub(crate) alice: Api,
    pub(crate) company: String,
}

#[tokio::test]
async fn each_part_down_refuses_and_heals_without_a_restart_of_anything_else() {
    let mut scene = set_up("outages").await;
    scene.all_works("at first").await;
    authz_down(&mut scene).await;
    org_down(&mut scene).await;
    identity_down(&mut scene).await;
    registry_down(&mut scene).await;
    provider_down(&mut scene).await;
    module_down(&mut scene).await;
}

/// Alice, a member of a company, and an administrator.
pub(crate) async fn set_up(name: &str) -> Scene {
    let platform = Separate::start(name).await;
    let admin = platform.api().with_token(&platform.token("admin").await);
    let alice_token = platform.token("alice").await;
    let alice = platform.api().with_token(&alice_token);
    alice.get("/api/org/me/companies").await.data(200);
    let company = create_company(&admin, "ACME").await;
    let member = create_member(&admin, &company, "A1").await;
    link(&admin, &member, &subject(&alice_token)).await;
    Scene { platform, admin, alice, company }
}

impl Scene {
    pub(crate) fn projects(&self) -> String {
        format!("/api/timesheet/v1/companies/{}/projects", self.company)
    }

    pub(crate) async fn heal(&mut self, part: &'static str) {
        self.platform.bring_back(part).await;
        self.all_works(part).await;
    }

    async fn all_works(&self, after: &str) {
        eventually(&format!("everything works ({after})"), HEALING_LIMIT, || async {
            self.admin.get(&format!("/api/org/admin/units/{}", self.company)).await.expect_status(200)?;
            self.alice.get("/api/org/me/companies").await.expect_status(200)?;
            self.alice.get("/api/platform/catalog").await.expect_status(200)?;
            self.alice.get(&self.projects()).await.expect_status(200)?;
            let decision = decide(&self.alice, &self.company).await;
            decision.expect_status(200)?;
            if decision.body["data"]["allowed"] == true { Ok(()) } else { Err(decision.body.to_string()) }
        })
        .await;
    }
}

async fn authz_down(scene: &mut Scene) {
    scene.platform.kill("authz");
    let Scene { admin, alice, company, .. } = scene;
    for _ in 0..5 {
        decide(alice, company).await.refused(503, "AUTHORIZATION_UNAVAILABLE");
        admin.get(&format!("/api/org/admin/units/{company}")).await.refused(503, "AUTHORIZATION_UNAVAILABLE");
        let unit = json!({"typeKey": "company", "code": "late", "name": "Late"});
        admin.post("/api/org/admin/units", unit).await.refused(503, "AUTHORIZATION_UNAVAILABLE");
        let projects = format!("/api/timesheet/v1/companies/{company}/projects");
        alice.get(&projects).await.refused(503, "AUTHORIZATION_UNAVAILABLE");
    }
    alice.get("/api/platform/capabilities").await.data(200);
    alice.get("/api/platform/catalog").await.data(200);
    alice.get("/api/org/me/companies").await.data(200);
    let directory = format!("/api/org/companies/{company}/members");
    alice.get(&directory).await.refused(503, "AUTHORIZATION_UNAVAILABLE");
    scene.heal("authz").await;
}

async fn org_down(scene: &mut Scene) {
    scene.platform.kill("org");
    scene.alice.get("/api/org/me/companies").await.refused(503, "AUTHORIZATION_UNAVAILABLE");
    scene
        .admin
        .get(&format!("/api/org/admin/units/{}", scene.company))
        .await
        .refused(503, "AUTHORIZATION_UNAVAILABLE");
    assert_eq!(decide(&scene.alice, &scene.company).await.data(200)["allowed"], true);
    let tickets = format!("/api/helpdesk/v1/companies/{}/tickets", scene.company);
    scene.alice.get(&tickets).await.refused(503, "AUTHORIZATION_UNAVAILABLE");
    scene.alice.get(&scene.projects()).await.data(200);
    scene.heal("org").await;
}

async fn identity_down(scene: &mut Scene) {
    scene.platform.kill("identity");
    assert_eq!(decide(&scene.alice, &scene.company).await.data(200)["allowed"], true);
    scene.alice.get(&scene.projects()).await.data(200);
    let newcomer = scene.platform.api().with_token(&scene.platform.token("carol").await);
    newcomer.get("/api/org/me/companies").await.refused(503, "AUTHORIZATION_UNAVAILABLE");
    decide(&newcomer, &scene.company).await.refused(503, "AUTHORIZATION_UNAVAILABLE");
    newcomer.get("/api/platform/catalog").await.data(200);
    newcomer.get("/api/platform/capabilities").await.data(200);
    no_decision_on_an_old_look(scene).await;
    scene.heal("identity").await;
    newcomer.get("/api/org/me/companies").await.data(200);
}

async fn registry_down(scene: &mut Scene) {
    scene.platform.kill("registry");
    scene.alice.get("/api/platform/catalog").await.refused(503, "AUTHORIZATION_UNAVAILABLE");
    scene.alice.get(&scene.projects()).await.data(200);
    assert_eq!(decide(&scene.alice, &scene.company).await.data(200)["allowed"], true);
    scene.heal("registry").await;
}

async fn provider_down(scene: &mut Scene) {
    scene.platform.kill("idp");
    scene.alice.get(&scene.projects()).await.data(200);
    assert_eq!(decide(&scene.alice, &scene.company).await.data(200)["allowed"], true);
    let page = scene.platform.api().get("/auth/realms/platform/.well-known/openid-configuration").await;
    page.refused(503, "AUTHORIZATION_UNAVAILABLE");
    no_decision_on_an_old_look(scene).await;
    scene.heal("idp").await;
    scene.platform.token("dave").await;
}

/// The effect of 300 s without the provider, or without identity: the time of the last check is set back by as much,
/// and with either of them down nothing renews it.
async fn no_decision_on_an_old_look(scene: &Scene) {
    scene.platform.age_the_last_look(301).await;
    let decision = decide(&scene.alice, &scene.company).await;
    decision.refused(503, "AUTHORIZATION_UNAVAILABLE");
    assert_eq!(decision.body["error"]["details"]["dependency"], "idp");
    scene.alice.get(&scene.projects()).await.refused(503, "AUTHORIZATION_UNAVAILABLE");
    let unit = format!("/api/org/admin/units/{}", scene.company);
    scene.admin.get(&unit).await.refused(503, "AUTHORIZATION_UNAVAILABLE");
    scene.alice.get("/api/platform/catalog").await.data(200);
}

async fn module_down(scene: &mut Scene) {
    scene.platform.kill("timesheet");
    scene.alice.get(&scene.projects()).await.refused(503, "MODULE_UNAVAILABLE");
    assert_eq!(decide(&scene.alice, &scene.company).await.data(200)["allowed"], true);
    scene.heal("timesheet").await;
}
