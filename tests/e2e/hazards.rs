//! Provokes the races that span services: a company created while a module is enabled (H1), and a decision while its
//! subject loses its membership (H3). Then runs a random history of both, with restarts and with operators who remove
//! default grants: every active company has the anchor of every enabled module, and its `system` tuple unless that was
//! removed. `RACES=200` provokes each race that often.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::json;

use crate::harness::login::subject;
use crate::harness::{Api, Separate};
use crate::tour::{create_company, create_member, decide, link};

/// Steps of the random history.
const STEPS: u64 = 60;
const MODULE: &str = "timesheet";

#[tokio::test]
async fn hazards_h1_h3_and_property_7_races_between_services_break_no_rule() {
    let races = testkit::races();
    let mut scene = Scene::start().await;
    scene.companies_while_a_module_is_enabled(races).await;
    scene.decisions_while_a_member_goes(races).await;
    scene.a_history_of_default_grants().await;
}

struct Scene {
    platform: Separate,
    admin: Api,
    owner: sqlx::PgPool,
    companies: Vec<String>,
    /// Companies whose `system` tuple was removed.
    revoked: BTreeSet<String>,
}

impl Scene {
    async fn start() -> Self {
        let platform = Separate::start("hazards").await;
        let admin = platform.api().with_token(&platform.token("admin").await);
        let owner = platform.owner();
        Self { platform, admin, owner, companies: Vec::new(), revoked: BTreeSet::new() }
    }

    async fn turn(&self, what: &str) {
        let path = format!("/api/platform/admin/modules/{MODULE}/{what}");
        self.admin.send(Method::POST, &path, None).await.data(200);
    }

    /// H1: whichever commits first, the company has its grants.
    async fn companies_while_a_module_is_enabled(&mut self, races: usize) {
        for round in 0..races {
            self.turn("disable").await;
            let code = format!("H{round}");
            let (company, ()) = tokio::join!(create_company(&self.admin, &code), self.turn("enable"));
            self.companies.push(company);
            self.grants_are_whole().await;
        }
        println!("H1: {races} companies made while a module was enabled, none without its grants");
    }

    /// H3: after the response to the unlink no decision allows, and every decision before it is a valid allow or
    /// denial.
    async fn decisions_while_a_member_goes(&self, races: usize) {
        let token = self.platform.token("alice").await;
        let alice = self.platform.api().with_token(&token);
        alice.get("/api/org/me/companies").await.data(200);
        let company = self.companies[0].clone();
        let member = create_member(&self.admin, &company, "A1").await;
        let (member_path, link_path) = (
            format!("/api/org/admin/members/{member}"),
            format!("/api/org/admin/members/{member}/link-user"),
        );
        let mut overtaken = 0;
        for round in 0..races {
            let by_link = round % 2 == 0;
            if round == 0 || by_link {
                link(&self.admin, &member, &subject(&token)).await;
            }
            assert_eq!(decide(&alice, &company).await.data(200)["allowed"], true, "round {round}");
            let leave = async {
                if by_link {
                    self.admin.send(Method::DELETE, &link_path, None).await
                } else {
                    self.admin.send(Method::PUT, &member_path, Some(json!({ "isActive": false }))).await
                }
            };
            let (left, beside) = tokio::join!(leave, decide(&alice, &company));
            left.data(200);
            overtaken += usize::from(beside.data(200)["allowed"] == json!(true));
            let reason = if by_link { "COMPANY_MEMBERSHIP_REQUIRED" } else { "COMPANY_ACCESS_BLOCKED" };
            assert_eq!(decide(&alice, &company).await.data(200)["reason"], reason, "round {round}");
            if by_link {
                // The next round deactivates, which requires the link.
                link(&self.admin, &member, &subject(&token)).await;
            } else {
                let back = json!({ "isActive": true });
                self.admin.send(Method::PUT, &member_path, Some(back)).await.data(200);
            }
        }
        println!(
            "H3: {races} members left beside a decision ({overtaken} decided before), none was allowed after"
        );
    }

    /// Companies are created and deactivated, the module is disabled and enabled, operators revoke tuples, registry and
    /// org restart.
    async fn a_history_of_default_grants(&mut self) {
        for step in 0..STEPS {
            match scramble(step) % 8 {
                0 | 1 => {
                    let company = create_company(&self.admin, &format!("S{step}")).await;
                    self.companies.push(company);
                }
                2 => self.turn("disable").await,
                3 => self.turn("enable").await,
                4 => self.revoke(step).await,
                5 => {
                    let code = format!("T{step}");
                    let (company, ()) = tokio::join!(create_company(&self.admin, &code), self.turn("enable"));
                    self.companies.push(company);
                }
                6 => self.turn_company_off_and_on(step).await,
                _ if step % 3 == 0 => {
                    self.platform.kill("registry");
                    self.platform.bring_back("registry").await;
                }
                _ => {}
            }
            self.grants_are_whole().await;
        }
        self.turn("enable").await;
        self.grants_are_whole().await;
        println!(
            "history: {STEPS} steps, {} companies, {} without their system tuple for good",
            self.companies.len(),
            self.revoked.len()
        );
    }

    /// A superadmin may remove the default `system` tuple; this requires the module to be enabled.
    async fn revoke(&mut self, step: u64) {
        self.turn("enable").await;
        let index = usize::try_from(scramble(step + 1_000)).expect("64 bits") % self.companies.len();
        let company = self.companies[index].clone();
        let tuple = json!({
            "objectType": "company_module", "objectId": format!("{company}/{MODULE}"), "relation": "system",
            "subjectType": "system", "subjectId": "platform",
        });
        let body = json!({ "op": "revoke", "companyId": company, "tuples": [tuple] });
        self.admin.post("/api/auth/grants", body).await.data(200);
        self.revoked.insert(company);
    }

    async fn turn_company_off_and_on(&self, step: u64) {
        let index = usize::try_from(scramble(step + 2_000)).expect("64 bits") % self.companies.len();
        for active in [false, true] {
            self.platform.operator_sets_active(&self.companies[index], active).await;
        }
    }

    /// Checks the rule in the database, for every active company and enabled module.
    async fn grants_are_whole(&self) {
        let missing: Vec<(String, String)> = sqlx::query_as(
            "SELECT pair.relation, c.id::text FROM org.units c CROSS JOIN registry.modules m
              CROSS JOIN (VALUES ('company'), ('system')) AS pair(relation)
              WHERE c.type_key = 'company' AND c.is_active AND m.installed AND m.enabled AND m.kind = 'module'
                AND NOT EXISTS (SELECT FROM authz.tuple t WHERE t.object_type = 'company_module'
                  AND t.object_id = c.id::text || '/' || m.key AND t.relation = pair.relation)",
        )
        .fetch_all(&self.owner)
        .await
        .expect("the tuples");
        let missing: BTreeSet<(String, String)> = missing.into_iter().collect();
        let enabled: bool = sqlx::query_scalar("SELECT enabled FROM registry.modules WHERE key = $1")
            .bind(MODULE)
            .fetch_one(&self.owner)
            .await
            .expect("the module");
        let taken =
            self.revoked.iter().filter(|_| enabled).map(|company| ("system".to_owned(), company.clone()));
        assert_eq!(missing, taken.collect::<BTreeSet<_>>(), "anchors and system tuples that are missing");
    }
}

/// A fixed pseudo-random sequence (splitmix64), so that every run has the same history.
fn scramble(step: u64) -> u64 {
    let mut mixed = step.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
