//! The platform as in production: one process per part, on a database of the test cluster, so that a journey can take a
//! part away and bring it back.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use testkit::TestDatabase;

use super::client::{Api, Version};
use super::eventually;
use super::login::Provider;
use super::process::{Process, port_offset};

/// Every part with its port.
const PARTS: [(&str, u16); 10] = [
    ("idp", 8190),
    ("identity", 8120),
    ("authz", 8140),
    ("org", 8130),
    ("registry", 8110),
    ("timesheet", 8160),
    ("notification", 8150),
    ("helpdesk", 8180),
    ("docs", 8170),
    ("gateway", 8443),
];

/// Port of the second gateway, before the offset: neither it nor the next one is used by any part of the platform.
const SECOND_GATEWAY: u16 = 8300;
/// The credential for the operators' routes.
const OPERATOR: &str = "the-credential-of-an-operator";
/// The key that seals webhook secrets.
const SEALING_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// How long a part may take to become ready, on a busy machine.
const START_LIMIT: Duration = Duration::from_mins(1);

/// All parts, each in its own process.
pub(crate) struct Separate {
    parts: BTreeMap<&'static str, Process>,
    database: TestDatabase,
    offset: u16,
    directory: PathBuf,
    /// Variables of single parts, which override the common ones.
    own: BTreeMap<&'static str, Vec<(String, String)>>,
    pub(crate) base_url: String,
}

impl Separate {
    /// Starts every part and waits until all are ready.
    pub(crate) async fn start(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("platform-e2e-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a folder");
        let database = testkit::database().await;
        let offset = port_offset();
        let base_url = format!("https://localhost:{}", 8443 + offset);
        let mut platform =
            Self { parts: BTreeMap::new(), database, offset, directory, own: BTreeMap::new(), base_url };
        for (part, _) in PARTS {
            platform.spawn(part);
        }
        for (part, _) in PARTS {
            platform.wait_until_ready(part).await;
        }
        platform.wait_for_a_look().await;
        platform
    }

    /// identity becomes ready before it has checked a provider that starts concurrently; until that check, nothing is
    /// decided.
    async fn wait_for_a_look(&self) {
        let owner = self.owner();
        eventually("identity has looked at the provider", START_LIMIT, || async {
            let looks: i64 = sqlx::query_scalar("SELECT count(*) FROM identity.provider_look")
                .fetch_one(&owner)
                .await
                .map_err(|error| error.to_string())?;
            if looks > 0 { Ok(()) } else { Err(self.log("identity")) }
        })
        .await;
        owner.close().await;
    }

    /// Kills a part, as a crash would.
    pub(crate) fn kill(&mut self, part: &str) {
        self.parts.remove(part).expect("it is running").kill();
    }

    /// Sets a variable for a part's next start.
    pub(crate) fn set(&mut self, part: &'static str, name: &str, value: &str) {
        self.own.entry(part).or_default().push((name.to_owned(), value.to_owned()));
    }

    /// Resets a part's variables for its next start.
    pub(crate) fn unset(&mut self, part: &str) {
        self.own.remove(part);
    }

    /// The internal address of a part, given its port without the offset.
    pub(crate) fn internal(&self, port: u16) -> String {
        format!("http://127.0.0.1:{}", self.port(port))
    }

    /// A port with this platform's offset.
    pub(crate) const fn port(&self, fixed: u16) -> u16 {
        fixed + self.offset
    }

    /// Starts a part without waiting for it.
    pub(crate) fn begin(&mut self, part: &'static str) {
        self.spawn(part);
    }

    /// Starts a part and waits until it is ready.
    pub(crate) async fn bring_back(&mut self, part: &'static str) {
        self.spawn(part);
        self.wait_until_ready(part).await;
    }

    /// Registry's address.
    pub(crate) fn registry(&self) -> std::net::SocketAddr {
        ([127, 0, 0, 1], self.port(8110)).into()
    }

    /// Starts a second gateway process on other ports, which sees registry at `registry`.
    pub(crate) async fn second_gateway(&mut self, registry: &str) -> Api {
        let (tls, plain) = (self.port(SECOND_GATEWAY), self.port(SECOND_GATEWAY + 1));
        let mut variables = self.variables("gateway");
        variables.extend([
            ("PLATFORM_EDGE_ADDR".to_owned(), format!("127.0.0.1:{tls}")),
            ("PLATFORM_EDGE_PLAIN_ADDR".to_owned(), format!("127.0.0.1:{plain}")),
            ("PLATFORM_REGISTRY_BASE_URL".to_owned(), registry.to_owned()),
            ("PLATFORM_DATA_DIR".to_owned(), self.directory.join("data2").display().to_string()),
            (
                "PLATFORM_TLS_CERT".to_owned(),
                self.directory.join("data/certs/edge.pem").display().to_string(),
            ),
            ("PLATFORM_TLS_KEY".to_owned(), self.directory.join("data/certs/edge.key").display().to_string()),
        ]);
        let log = self.directory.join("gateway2.log");
        self.parts.insert("gateway2", Process::start("serve gateway", &variables, &log));
        let probe = testkit::Api::at(([127, 0, 0, 1], plain).into());
        eventually("the second edge is ready", START_LIMIT, || async {
            match probe.get("/readyz").try_send().await {
                Ok(answer) if answer.status == 200 => Ok(()),
                Ok(answer) => Err(answer.text),
                Err(error) => Err(format!("{error}\n{}", self.log("gateway2"))),
            }
        })
        .await;
        Api::new(&format!("https://localhost:{tls}"), &self.ca(), Version::Http2)
    }

    pub(crate) fn api(&self) -> Api {
        Api::new(&self.base_url, &self.ca(), Version::Http2)
    }

    /// The access token of a user whose password is the name.
    pub(crate) async fn token(&self, user: &str) -> String {
        Provider { base_url: &self.base_url, ca: &self.ca() }.token(user).await
    }

    fn ca(&self) -> PathBuf {
        self.directory.join("data/certs/ca.pem")
    }

    fn spawn(&mut self, part: &'static str) {
        let log = self.directory.join(format!("{part}.log"));
        let process = Process::start(&format!("serve {part}"), &self.variables(part), &log);
        self.parts.insert(part, process);
    }

    async fn wait_until_ready(&self, part: &str) {
        let (_, fixed) = PARTS.into_iter().find(|(known, _)| *known == part).expect("a known part");
        let (listener, path) = if part == "gateway" { (8090, "/readyz") } else { (fixed, "/ready") };
        let probe = testkit::Api::at(([127, 0, 0, 1], self.port(listener)).into());
        eventually(&format!("{part} is ready"), START_LIMIT, || async {
            match probe.get(path).try_send().await {
                Ok(answer) if answer.status == 200 => Ok(()),
                Ok(answer) => Err(answer.text),
                Err(error) => Err(format!("{error}\n{}", self.log(part))),
            }
        })
        .await;
    }

    /// The database as its owner, for states that no route produces.
    pub(crate) fn owner(&self) -> sqlx::PgPool {
        self.database.owner_pool()
    }

    /// Every row of a module, to compare before with after.
    pub(crate) async fn contents(&self, module: &str) -> Vec<serde_json::Value> {
        self.database.contents(module).await
    }

    /// Deactivates or activates a company, like the operators' command.
    pub(crate) async fn operator_sets_active(&self, company: &str, is_active: bool) {
        let service = testkit::Api::at(([127, 0, 0, 1], self.port(8130)).into());
        let body = serde_json::json!({ "isActive": is_active, "operator": "e2e" });
        let path = format!("/internal/org/units/{company}/activity");
        let reply = service.put(path).bearer(OPERATOR).json(body).send().await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }

    /// Makes identity's last check of the provider older.
    pub(crate) async fn age_the_last_look(&self, seconds: i32) {
        sqlx::query("UPDATE identity.provider_look SET at = at - make_interval(secs => $1)")
            .bind(f64::from(seconds))
            .execute(&self.database.owner_pool())
            .await
            .expect("the look is there");
    }

    pub(crate) fn log(&self, part: &str) -> String {
        std::fs::read_to_string(self.directory.join(format!("{part}.log"))).unwrap_or_default()
    }

    fn variables(&self, part: &str) -> Vec<(String, String)> {
        let provider = format!("http://127.0.0.1:{}/realms/platform", self.port(8190));
        let mut variables = vec![
            ("PLATFORM_PORT_OFFSET".to_owned(), self.offset.to_string()),
            ("PLATFORM_DATA_DIR".to_owned(), self.directory.join("data").display().to_string()),
            ("IDP_JWKS_URL".to_owned(), format!("{provider}/protocol/openid-connect/certs")),
            ("IDP_ISSUER_URL".to_owned(), format!("{}/realms/platform", self.base_url)),
            ("PLATFORM_IDP_ADMIN_CLIENT_ID".to_owned(), "platform-admin".to_owned()),
            ("PLATFORM_IDP_ADMIN_CLIENT_SECRET".to_owned(), "end-to-end".to_owned()),
            ("PLATFORM_SUPERADMINS".to_owned(), "admin".to_owned()),
            ("PLATFORM_OPERATOR_TOKEN".to_owned(), OPERATOR.to_owned()),
            ("PLATFORM_SEALING_KEYS".to_owned(), SEALING_KEY.to_owned()),
            ("PLATFORM_INSTALLED_MODULES".to_owned(), "timesheet,notification,helpdesk,docs".to_owned()),
        ];
        let database = [
            ("HOST", self.database.host().to_owned()),
            ("PORT", self.database.port().to_string()),
            ("NAME", self.database.name().to_owned()),
            ("PASSWORD", self.database.password().to_owned()),
        ];
        if part != "gateway" {
            let prefix = format!("PLATFORM_{}_DB_", part.to_uppercase());
            variables.extend(database.map(|(what, value)| (format!("{prefix}{what}"), value)));
        }
        variables.extend(self.own.get(part).into_iter().flatten().cloned());
        variables
    }
}

impl Drop for Separate {
    fn drop(&mut self) {
        self.parts.clear();
        drop(std::fs::remove_dir_all(&self.directory));
    }
}
