//! The gateway without usable signing keys: a document that is garbage, empty, huge, a redirect or silence (F11), a
//! withdrawn key (F10), a flood of tokens with unknown keys (F12). The address of the keys is a server of this test, so
//! that every fetch is counted. Then wrong clocks (F16), with libfaketime, if `E2E_FAKETIME` names the library
//! (`tests/faults/provider` installs it).

mod clocks;
mod documents;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::login::kid;
use crate::harness::{Api, Separate, eventually};
use crate::provider_outage::unknown_key;
use documents::{Documents, Shape};

/// How often the gateway reads the keys here.
const INTERVAL: &str = "1s";
/// How often a bad document is fetched before the next one.
const FETCHES: usize = 2;
/// F12: tokens, connections, and the pause between two fetches for them.
const FLOOD: usize = 400;
const CONNECTIONS: usize = 8;
const PAUSE_SECONDS: u64 = 5;
const PATIENCE: Duration = Duration::from_secs(30);

struct Scene {
    platform: Separate,
    documents: Documents,
    alice: Api,
}

#[tokio::test]
async fn signing_keys_that_cannot_be_had() {
    let mut scene = Scene::start().await;
    scene.useless_documents().await;
    scene.a_withdrawn_key().await;
    scene.a_flood().await;
}

#[tokio::test]
async fn clocks_that_are_wrong() {
    let Some(library) = std::env::var_os("E2E_FAKETIME") else {
        return clocks::without_the_library().await;
    };
    clocks::each_part(&library.to_string_lossy()).await;
}

impl Scene {
    async fn start() -> Self {
        let mut platform = Separate::start("provider-faults").await;
        let keys = platform.api().get("/auth/realms/platform/protocol/openid-connect/certs").await.body;
        let documents = Documents::serve(keys).await;
        let token = platform.token("alice").await;
        let alice = platform.api().with_token(&token);
        platform.set("gateway", "IDP_JWKS_URL", &documents.url);
        platform.set("gateway", "IDP_JWKS_REFRESH_INTERVAL", INTERVAL);
        platform.kill("gateway");
        platform.bring_back("gateway").await;
        alice.get("/api/platform/catalog").await.data(200);
        Self { platform, documents, alice }
    }

    /// F11: the last good set stays in use, whatever the server returns instead of a new one.
    async fn useless_documents(&self) {
        for shape in [Shape::Garbage, Shape::Empty, Shape::Huge, Shape::Redirect, Shape::Silence] {
            let before = self.documents.fetches();
            self.documents.answer_with(shape);
            let (mut passed, begun) = (0, Instant::now());
            while self.documents.fetches() < before + FETCHES {
                self.alice.get("/api/platform/catalog").await.data(200);
                passed += 1;
                assert!(begun.elapsed() < PATIENCE, "{shape:?} is fetched again");
            }
            let told = self.documents.told();
            println!("F11 {shape:?}: {passed} requests passed meanwhile; {told}");
            self.documents.answer_with(Shape::Good);
            let bad = self.documents.fetches();
            eventually("a good document is fetched", PATIENCE, || async {
                if self.documents.fetches() > bad { Ok(()) } else { Err("not yet".to_owned()) }
            })
            .await;
        }
        assert_eq!(self.documents.followed(), 0, "no redirect is followed");
        assert!(self.documents.longest_silence() < Duration::from_millis(2_600), "{}", self.documents.told());
        assert!(self.documents.most_sent() < 8 << 20, "{}", self.documents.told());
    }

    /// F10: the new key is accepted while the old one is still published; the old one is refused once it is withdrawn.
    async fn a_withdrawn_key(&self) {
        let rotated = Instant::now();
        self.rotate().await;
        let newer = self.platform.api().with_token(&self.platform.token("alice").await);
        self.documents.replace(self.keys().await);
        eventually("the new key is taken", PATIENCE, || async {
            newer.get("/api/platform/catalog").await.expect_status(200)
        })
        .await;
        println!("F10: the new key's first token passed {:?} after the rotation", rotated.elapsed());
        self.alice.get("/api/platform/catalog").await.data(200);
        let mut keys = self.keys().await;
        let active = kid(&self.platform.token("alice").await);
        keys["keys"].as_array_mut().expect("keys").retain(|key| key["kid"] == json!(active));
        let (withdrawn, before) = (Instant::now(), self.documents.fetches());
        self.documents.replace(keys);
        eventually("the withdrawn key is refused", PATIENCE, || async {
            newer.get("/api/platform/catalog").await.expect_status(200)?;
            self.alice.get("/api/platform/catalog").await.expect_status(401)
        })
        .await;
        let fetches = self.documents.fetches() - before;
        println!(
            "F10: the withdrawn key was refused after {:?} and {fetches} fetches (interval {INTERVAL})",
            withdrawn.elapsed()
        );
    }

    /// F12: every forged token is refused, the provider is hardly queried, and other clients are served meanwhile.
    async fn a_flood(&mut self) {
        self.platform.set("gateway", "IDP_JWKS_REFRESH_INTERVAL", "10m");
        self.platform.kill("gateway");
        self.platform.bring_back("gateway").await;
        let good = self.platform.api().with_token(&self.platform.token("alice").await);
        good.get("/api/platform/catalog").await.data(200);
        let alone = p95(&good, || false).await;
        let (before, begun) = (self.documents.fetches(), Instant::now());
        let floods: Vec<_> =
            (0..CONNECTIONS).map(|connection| tokio::spawn(flood(self.platform.api(), connection))).collect();
        let beside = p95(&good, || floods.iter().any(|flood| !flood.is_finished())).await;
        for flood in floods {
            flood.await.expect("every forged token was refused with 401");
        }
        let (took, fetches) = (begun.elapsed(), self.documents.fetches() - before);
        println!(
            "F12: {FLOOD} forged tokens in {took:?}: all 401, {fetches} fetches; a good client's p95 {alone:?} alone, {beside:?} beside"
        );
        let allowed = 1 + took.as_secs() / PAUSE_SECONDS;
        assert!(
            u64::try_from(fetches).is_ok_and(|fetches| fetches <= allowed),
            "{fetches} fetches in {took:?}"
        );
    }

    async fn keys(&self) -> Value {
        self.platform.api().get("/auth/realms/platform/protocol/openid-connect/certs").await.body
    }

    async fn rotate(&self) {
        let provider = self.platform.internal(8190);
        let client = reqwest::Client::new();
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", "platform-admin"),
            ("client_secret", "end-to-end"),
        ];
        let token = format!("{provider}/realms/platform/protocol/openid-connect/token");
        let token: Value =
            client.post(token).form(&form).send().await.expect("a token").json().await.expect("JSON");
        let rotated = client
            .post(format!("{provider}/admin/realms/platform/keys/rotate"))
            .bearer_auth(token["access_token"].as_str().expect("a token"))
            .send()
            .await
            .expect("the provider answers");
        assert_eq!(rotated.status(), 200);
    }
}

async fn flood(api: Api, connection: usize) {
    for number in 0..FLOOD / CONNECTIONS {
        let forged = api.with_token(&unknown_key(connection * FLOOD + number));
        forged.get("/api/platform/catalog").await.refused(401, "AUTH_TOKEN_INVALID");
    }
}

/// The 95th percentile of at least a hundred requests, and of as many as fit while `go_on`.
async fn p95(api: &Api, go_on: impl Fn() -> bool) -> Duration {
    let mut taken = Vec::new();
    while taken.len() < 100 || go_on() {
        let begun = Instant::now();
        api.get("/api/platform/catalog").await.data(200);
        taken.push(begun.elapsed());
    }
    taken.sort_unstable();
    taken[taken.len() * 95 / 100]
}
