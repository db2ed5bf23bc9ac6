//! F16: each part in turn runs with its clock ten minutes ahead, ten minutes behind, or 400 days ahead. A valid token
//! may be refused, but no unauthorized caller is admitted, nothing panics, and everything works again once the clock is
//! right.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::login::subject;
use crate::harness::{Api, Separate, eventually};
use crate::tour::{create_company, create_member, decide, link};

/// Parts that read a clock to check or to issue tokens.
const PARTS: [&str; 5] = ["gateway", "identity", "authz", "org", "idp"];
const SHIFTS: [&str; 3] = ["+10m", "-10m", "+400d"];
const HEALING_LIMIT: Duration = Duration::from_secs(30);

struct Scene {
    platform: Separate,
    company: String,
}

/// Without the library, only the checks with the right clock run.
pub(super) async fn without_the_library() {
    let scene = Scene::start().await;
    scene.nobody_is_let_in("with the right clock").await;
    scene.all_is_well("at first").await;
}

pub(super) async fn each_part(library: &str) {
    let mut scene = Scene::start().await;
    for part in PARTS {
        for shift in SHIFTS {
            scene.platform.set(part, "LD_PRELOAD", library);
            scene.platform.set(part, "FAKETIME", shift);
            scene.platform.set(part, "FAKETIME_DONT_FAKE_MONOTONIC", "1");
            scene.platform.kill(part);
            scene.platform.bring_back(part).await;
            if (part, shift) == ("gateway", "+400d") {
                scene.no_certificate_of_the_future().await;
            } else {
                scene.observe(part, shift).await;
                scene.nobody_is_let_in(part).await;
            }
            assert!(!scene.platform.log(part).contains("panicked"), "{}", scene.platform.log(part));
            scene.platform.unset(part);
            scene.platform.kill(part);
            scene.platform.bring_back(part).await;
            scene.all_is_well(part).await;
        }
    }
}

impl Scene {
    async fn start() -> Self {
        let platform = Separate::start("clocks").await;
        let admin = platform.api().with_token(&platform.token("admin").await);
        let company = create_company(&admin, "ACME").await;
        let token = platform.token("alice").await;
        platform.api().with_token(&token).get("/api/org/me/companies").await.data(200);
        let member = create_member(&admin, &company, "A1").await;
        link(&admin, &member, &subject(&token)).await;
        Self { platform, company }
    }

    async fn alice(&self) -> Api {
        self.platform.api().with_token(&self.platform.token("alice").await)
    }

    /// The responses to a valid token issued just now; an allow must be correct.
    async fn observe(&self, part: &str, shift: &str) {
        let (alice, admin) =
            (self.alice().await, self.platform.api().with_token(&self.platform.token("admin").await));
        let catalog = alice.get("/api/platform/catalog").await.status.as_u16();
        let decision = decide(&alice, &self.company).await;
        let unit = admin.get(&format!("/api/org/admin/units/{}", self.company)).await.status.as_u16();
        let told = decision.body["data"]["reason"].as_str().unwrap_or_default().to_owned();
        println!(
            "F16 {part} {shift}: catalog {catalog}, decision {} {told}, administration {unit}",
            decision.status.as_u16()
        );
        let ahead = shift.starts_with('+');
        match part {
            // Five minutes and the leeway have passed: the token has expired.
            "gateway" if ahead => assert_eq!((catalog, decision.status.as_u16(), unit), (401, 401, 401)),
            "idp" if !ahead => assert_eq!((catalog, decision.status.as_u16(), unit), (401, 401, 401)),
            "authz" if ahead => assert_ne!(decision.status.as_u16(), 200, "authz judges the token again"),
            "org" if ahead => assert_ne!(unit, 200, "org judges the token again"),
            _ => {}
        }
        for status in [catalog, decision.status.as_u16(), unit] {
            assert!(matches!(status, 200 | 401 | 403 | 503), "{part} {shift}: {status}");
        }
    }

    /// The development certificate that such a gateway makes is not valid yet for others, so no client connects.
    async fn no_certificate_of_the_future(&self) {
        let answer = self.platform.api().try_send(reqwest::Method::GET, "/api/platform/catalog", None).await;
        let told = format!("{:?}", answer.expect_err("no client trusts it"));
        assert!(told.contains("NotValidYet"), "{told}");
        println!("F16 gateway +400d: its new development certificate is of the future, and refused");
    }

    /// A non-member, or a caller without a valid token, is refused whatever the clock.
    async fn nobody_is_let_in(&self, when: &str) {
        let bob = self.platform.api().with_token(&self.platform.token("bob").await);
        let decision = decide(&bob, &self.company).await;
        assert_ne!(decision.body["data"]["allowed"], json!(true), "{when}: {}", decision.body);
        let refused = bob.get(&format!("/api/org/admin/units/{}", self.company)).await;
        assert!(matches!(refused.status.as_u16(), 401 | 403 | 503), "{when}: {}", refused.body);
        let forged = self.platform.api().with_token(&crate::provider_outage::unknown_key(1));
        let refused = forged.get("/api/platform/catalog").await;
        assert_eq!((refused.status.as_u16(), &refused.body["data"]), (401, &Value::Null), "{when}");
    }

    async fn all_is_well(&self, after: &str) {
        eventually(&format!("decisions are right again ({after})"), HEALING_LIMIT, || async {
            let alice = self.alice().await;
            let decision = decide(&alice, &self.company).await;
            decision.expect_status(200)?;
            if decision.body["data"]["allowed"] == true { Ok(()) } else { Err(decision.body.to_string()) }
        })
        .await;
    }
}
