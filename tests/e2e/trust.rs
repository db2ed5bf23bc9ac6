//! Internal trust: what each internal route requires of a caller that reaches a service's port without the gateway, as
//! one table for human review; and which of the gateway's callers may read names. `UPDATE_GOLDEN=1` rewrites the table.

use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;

use reqwest::Method;
use serde_json::json;
use testkit::OpenApi;

use crate::harness::client::Version;
use crate::harness::login::subject;
use crate::harness::{Api, Together};
use crate::tour::{create_company, create_member, link};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/internal_routes.txt");
/// A non-existent id.
const NOTHING: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
/// The services with internal routes, with their ports and documents.
const SERVICES: [(u16, &str); 4] = [
    (8140, include_str!("../../services/authz/openapi.json")),
    (8130, include_str!("../../services/org/openapi.json")),
    (8110, include_str!("../../services/registry/openapi.json")),
    (8120, include_str!("../../services/identity/openapi.json")),
];
/// The services' credential, and the table's name for its holder.
const SERVICE: &str = "the-credential-of-the-services";
const SERVICES_OWN: &str = "service";
const CLIENT: &str = "crm-backend";
const MINE: &str = "/api/org/me/companies";
const SECRET: &str = "a secret of this journey";

#[tokio::test]
async fn whoever_opens_a_port_needs_the_credential_of_what_it_asks_for() {
    let variables = [("PLATFORM_SERVICE_TOKEN", SERVICE)];
    let platform = Together::start_with("internal", crate::harness::process::port_offset(), &variables);
    let file = platform.data().join("secrets/operator");
    let mode = std::fs::metadata(&file).expect("the operator's credential is kept").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    let operator = std::fs::read_to_string(&file).expect("it is text");
    let (admin, bob) = (platform.token("admin").await, platform.token("bob").await);
    platform.api(Version::Http2).with_token(&bob).get("/api/org/me/companies").await.data(200);
    let company = create_company(&platform.api(Version::Http2).with_token(&admin), "ACME").await;
    let callers = [
        ("nobody", None),
        ("user", Some(bob.as_str())),
        ("admin", Some(admin.as_str())),
        ("operator", Some(operator.trim())),
        (SERVICES_OWN, Some(SERVICE)),
    ];
    let table = table(&platform, &callers, &company).await;
    println!("{table}");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(GOLDEN, &table).expect("the golden file can be written");
    }
    let reviewed = std::fs::read_to_string(GOLDEN).expect("the golden file is there");
    assert_eq!(table, reviewed, "run with UPDATE_GOLDEN=1 and read the difference");
}

async fn table(platform: &Together, callers: &[(&str, Option<&str>)], company: &str) -> String {
    let mut table = format!("{:<78}", "method and route");
    for (name, _) in callers {
        write!(table, " {name:>8}").expect("text grows");
    }
    table.push('\n');
    for (port, document) in SERVICES {
        let operations = OpenApi::parse(document).operations();
        for operation in operations.iter().filter(|operation| operation.contains(" /internal/")) {
            write!(table, "{operation:<78}").expect("text grows");
            for caller in callers {
                let status = call(&platform.internal(port), operation, *caller, company).await;
                write!(table, " {status:>8}").expect("text grows");
            }
            table.push('\n');
        }
    }
    table
}

async fn call(service: &str, operation: &str, (caller, token): (&str, Option<&str>), company: &str) -> u16 {
    let (method, route) = operation.split_once(' ').expect("a method and a route");
    let path = route
        .replace("{companyId}", company)
        .replace("{key}", "nosuch")
        .replace("{module}", "nosuch")
        .replace("{moduleKey}", "nosuch")
        .replace("{role}", "platform-superadmin")
        .replace("{kcSub}", "nosuch")
        .replace("{subjectId}", "nosuch")
        .replace("{clientId}", "nosuch")
        .replace("{id}", NOTHING)
        .replace("{memberId}", NOTHING);
    assert!(!path.contains('{'), "{route} has a parameter that this table does not know");
    let method: Method = method.parse().expect("a method");
    let mut request = reqwest::Client::new().request(method.clone(), format!("{service}{path}"));
    if method == Method::POST || method == Method::PUT {
        request = request.json(&json!({}));
    }
    match token {
        Some(token) if caller == SERVICES_OWN => request = request.header("x-platform-service", token),
        Some(token) => request = request.bearer_auth(token),
        None => {}
    }
    // Reads only the head: one of the routes is a stream.
    request.send().await.expect("the service answers").status().as_u16()
}

/// A member and an app's backend, and what an operator does to them.
struct Scene {
    platform: Together,
    alice: Api,
    backend: Api,
    alice_subject: String,
    backend_subject: String,
    company: String,
}

#[tokio::test]
async fn whoever_may_not_act_reads_no_names_and_asks_about_nobody() {
    let scene = Scene::start().await;
    scene.who_reads_the_directory().await;
    scene.who_asks_by_subject().await;
}

impl Scene {
    async fn start() -> Self {
        let variables =
            [("PLATFORM_SERVICE_CLIENTS", CLIENT), ("PLATFORM_SERVICE_CLIENT_SECRET_CRM_BACKEND", SECRET)];
        let platform = Together::start_with("names", crate::harness::process::port_offset(), &variables);
        let admin = platform.api(Version::Http2).with_token(&platform.token("admin").await);
        let (alice_token, token) =
            (platform.token("alice").await, platform.client_token(CLIENT, SECRET).await);
        let (alice, backend) = (
            platform.api(Version::Http2).with_token(&alice_token),
            platform.api(Version::Http2).with_token(&token),
        );
        for api in [&alice, &backend] {
            api.get("/api/org/me/companies").await.data(200);
        }
        let company = create_company(&admin, "ACME").await;
        let member = create_member(&admin, &company, "A1").await;
        let (alice_subject, backend_subject) = (subject(&alice_token), subject(&token));
        link(&admin, &member, &alice_subject).await;
        let manifest = json!({
            "key": "crm", "displayName": "CRM", "version": "1.0.0", "serviceClientId": CLIENT, "features": [],
            "authzFragment": { "crm_deal": { "company_module": {"this": true}, "viewer": {"this": true} } },
        });
        admin.post("/api/platform/admin/apps", manifest).await.data(200);
        Self { platform, alice, backend, alice_subject, backend_subject, company }
    }

    /// Runs an operator's command, which must succeed.
    fn operate(&self, arguments: &str) {
        let output = self.platform.output(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments}: {output:?}");
    }

    async fn who_reads_the_directory(&self) {
        let (alice, company) = (&self.alice_subject, &self.company);
        let directory = format!("/api/org/companies/{company}/members");
        for (off, on, reason) in [
            (
                format!("identity suspend {alice}"),
                format!("identity activate {alice} --reason back"),
                "USER_LIFECYCLE_DISABLED",
            ),
            (format!("org deactivate {company}"), format!("org activate {company}"), "COMPANY_INACTIVE"),
        ] {
            assert_eq!(self.alice.get(&directory).await.data(200)["total"], 1);
            assert_eq!(self.alice.get(MINE).await.data(200)[0]["code"], "ACME");
            self.operate(&off);
            assert_eq!(self.alice.get(MINE).await.data(200), &json!([]), "{off}");
            let reply = self.alice.get(&directory).await;
            reply.refused(403, "FORBIDDEN");
            assert_eq!(reply.body["error"]["details"]["reason"], reason);
            self.operate(&on);
        }
        assert_eq!(self.alice.get(&directory).await.data(200)["total"], 1);
    }

    async fn who_asks_by_subject(&self) {
        let Self { backend, company, .. } = self;
        let by_subject = format!("/api/org/companies/{company}/members/by-subject/{}", self.alice_subject);
        assert_eq!(backend.get(&by_subject).await.data(200)["isMember"], true);
        self.operate(&format!("org deactivate {company}"));
        assert_eq!(backend.get(&by_subject).await.data(200)["isMember"], true, "of any company");
        self.operate(&format!("identity suspend {}", self.backend_subject));
        for reply in [backend.get(&by_subject).await, backend.post("/api/auth/grants", json!({})).await] {
            reply.refused(403, "FORBIDDEN");
            assert_eq!(reply.body["error"]["details"]["reason"], "USER_LIFECYCLE_DISABLED");
        }
        self.operate(&format!("identity activate {} --reason back", self.backend_subject));
        assert_eq!(backend.get(&by_subject).await.data(200)["isMember"], true);
    }
}
