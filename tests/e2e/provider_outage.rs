//! The identity provider is down for a while, and comes back. Nothing else is restarted: known tokens work until they
//! expire, no new ones are issued, decisions continue while the last check is recent and are refused afterwards, and
//! everything recovers on its own. In `cargo test` the outage is short; `E2E_OUTAGE_SECONDS=600` makes it realistic.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::harness::login::{claims, subject};
use crate::harness::{Api, Separate, eventually, given_or};
use crate::tour::{create_company, create_member, decide, link};

/// The outage in `cargo test`, in seconds.
const SHORT: u64 = 6;
/// Lifetime of a check of the provider and of an access token, and the verifiers' leeway, in seconds.
const LIFETIME: u64 = 300;
const LEEWAY: u64 = 30;
/// Checks are ten seconds apart, and this machine is busy.
const SLACK: u64 = 15;
/// F8: time limit to refuse an unknown key id.
const UNKNOWN_KEY_LIMIT: Duration = Duration::from_millis(2_500);
/// Time limit of recovery: F9, and the whole platform after an outage.
const HEALING_LIMIT: Duration = Duration::from_secs(30);

struct Scene {
    platform: Separate,
    alice: Api,
    company: String,
    issued_at: i64,
}

#[tokio::test]
async fn the_provider_away_and_back() {
    let mut scene = Scene::start().await;
    let seconds = given_or("E2E_OUTAGE_SECONDS", SHORT);
    scene.outage(seconds).await;
    scene.a_start_without_the_provider().await;
}

/// The responses during the outage, by second.
#[derive(Default)]
struct Seen {
    last_200: u64,
    first_401: Option<u64>,
    last_decision: u64,
    first_503: Option<u64>,
    slowest_unknown_key: Duration,
    asked: usize,
}

impl Scene {
    async fn start() -> Self {
        let platform = Separate::start("provider-outage").await;
        let admin = platform.api().with_token(&platform.token("admin").await);
        let company = create_company(&admin, "ACME").await;
        let token = platform.token("alice").await;
        platform.api().with_token(&token).get("/api/org/me/companies").await.data(200);
        let member = create_member(&admin, &company, "A1").await;
        link(&admin, &member, &subject(&token)).await;
        let token = platform.token("alice").await;
        let issued_at = claims(&token)["iat"].as_i64().expect("a time");
        let alice = platform.api().with_token(&token);
        assert_eq!(decide(&alice, &company).await.data(200)["allowed"], true);
        Self { platform, alice, company, issued_at }
    }

    /// Seconds since the token was issued.
    fn age(&self) -> u64 {
        let age = contract::Clock::system().unix_seconds() - self.issued_at;
        u64::try_from(age).unwrap_or_default()
    }

    async fn outage(&mut self, seconds: u64) {
        self.platform.kill("idp");
        let (begun, mut seen) = (Instant::now(), Seen::default());
        let mut pace = tokio::time::interval(Duration::from_secs(1));
        while begun.elapsed() < Duration::from_secs(seconds) {
            pace.tick().await;
            self.observe(&mut seen).await;
        }
        println!(
            "provider away for {seconds} s, asked {} times: the known token passed up to {} s after its issue (first 401: {:?}), \
             decisions were made up to {} s (first 503: {:?}), an unknown key was refused within {:?}",
            seen.asked,
            seen.last_200,
            seen.first_401,
            seen.last_decision,
            seen.first_503,
            seen.slowest_unknown_key
        );
        if seconds > LIFETIME + LEEWAY + SLACK {
            Self::judge_a_long_one(&seen);
        } else {
            assert_eq!((seen.first_401, seen.first_503), (None, None), "nothing changes so soon");
        }
        self.heals(&format!("after {seconds} s")).await;
    }

    fn judge_a_long_one(seen: &Seen) {
        let (first_401, first_503) =
            (seen.first_401.expect("it expires"), seen.first_503.expect("the look gets old"));
        assert!(
            (LIFETIME - SLACK..=LIFETIME + SLACK).contains(&first_503),
            "decisions stop at {first_503} s"
        );
        assert!(
            (LIFETIME + LEEWAY - 1..=LIFETIME + LEEWAY + SLACK).contains(&first_401),
            "the token ends at {first_401} s"
        );
        assert!(seen.last_200 <= LIFETIME + LEEWAY + 1 && seen.last_decision < first_503);
    }

    /// One second of the outage: no login, the known token and decisions as before, and never an unknown key.
    async fn observe(&self, seen: &mut Seen) {
        seen.asked += 1;
        let page = self.platform.api().get("/auth/realms/platform/.well-known/openid-configuration").await;
        page.refused(503, "AUTHORIZATION_UNAVAILABLE");
        let age = self.age();
        match self.alice.get("/api/platform/catalog").await.status.as_u16() {
            200 => seen.last_200 = age,
            401 => seen.first_401 = seen.first_401.or(Some(age)),
            other => panic!("catalog: {other} after {age} s"),
        }
        let decision = decide(&self.alice, &self.company).await;
        match decision.status.as_u16() {
            200 => {
                assert_eq!(decision.body["data"]["allowed"], true);
                assert_eq!(seen.first_503, None, "no yes after a 503 while the provider is away");
                seen.last_decision = age;
            }
            503 => {
                assert_eq!(decision.body["error"]["details"]["dependency"], "idp", "{}", decision.body);
                seen.first_503 = seen.first_503.or(Some(age));
            }
            401 => assert!(age >= LIFETIME, "refused after {age} s"),
            other => panic!("decision: {other} after {age} s"),
        }
        let asked = Instant::now();
        let stranger = self.platform.api().with_token(&unknown_key(seen.asked));
        stranger.get("/api/platform/catalog").await.refused(401, "AUTH_TOKEN_INVALID");
        seen.slowest_unknown_key = seen.slowest_unknown_key.max(asked.elapsed());
        assert!(seen.slowest_unknown_key <= UNKNOWN_KEY_LIMIT, "{:?}", seen.slowest_unknown_key);
    }

    /// Brings the provider back, and touches nothing else.
    async fn heals(&mut self, when: &str) {
        // The provider's own start does not count.
        self.platform.bring_back("idp").await;
        let back = Instant::now();
        let (platform, company) = (&self.platform, &self.company);
        let alice = platform.api().with_token(&platform.token("alice").await);
        eventually("decisions are made again", HEALING_LIMIT, || async {
            let decision = decide(&alice, company).await;
            decision.expect_status(200)?;
            alice.get(&format!("/api/timesheet/v1/companies/{company}/projects")).await.expect_status(200)
        })
        .await;
        println!(
            "healed {:?} after the provider was ready again ({when}), a new login included",
            back.elapsed()
        );
    }

    /// F9: a gateway that starts without the provider admits no one, and becomes ready soon after the provider.
    async fn a_start_without_the_provider(&mut self) {
        self.platform.kill("idp");
        self.platform.kill("gateway");
        self.platform.begin("gateway");
        let begun = Instant::now();
        let mut answers = 0;
        while begun.elapsed() < Duration::from_secs(SHORT) {
            if let Ok(reply) = self.alice.try_send(reqwest::Method::GET, "/api/platform/catalog", None).await
            {
                assert!(
                    matches!(reply.status.as_u16(), 401 | 503),
                    "no 200 before there are keys: {}",
                    reply.body
                );
                answers += 1;
            }
        }
        assert!(answers > 0, "the edge answered before the provider was there");
        self.platform.bring_back("idp").await;
        let back = Instant::now();
        let nobody = self.platform.api();
        eventually("the edge leads to the provider", HEALING_LIMIT, || async {
            let page = nobody.get("/auth/realms/platform/.well-known/openid-configuration").await;
            page.expect_status(200)
        })
        .await;
        let alice = nobody.with_token(&self.platform.token("alice").await);
        eventually("the edge takes tokens", HEALING_LIMIT, || async {
            alice.get("/api/platform/catalog").await.expect_status(200)
        })
        .await;
        println!(
            "F9: {answers} refusals without the provider, healed {:?} after it was ready",
            back.elapsed()
        );
    }
}

/// A token with a key id that never existed.
pub(crate) fn unknown_key(number: usize) -> String {
    let part = |text: String| URL_SAFE_NO_PAD.encode(text);
    let head = part(format!(r#"{{"alg":"RS256","typ":"JWT","kid":"unknown-{number}"}}"#));
    format!("{head}.{}.{}", part("{\"sub\":\"x\"}".to_owned()), part("x".repeat(256)))
}
