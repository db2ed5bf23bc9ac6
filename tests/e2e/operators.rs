//! The operators' commands against a running platform: their effects, their output, their exit codes.

use std::process::Output;

use serde_json::json;

use crate::harness::client::Version;
use crate::harness::login::{claims, subject};
use crate::harness::{Api, Reply, Together};
use crate::tour::{create_company, create_member, link};

struct Scene {
    platform: Together,
    alice: Api,
    subject: String,
    company: String,
}

#[tokio::test]
async fn operators_change_what_no_route_changes() {
    let scene = Scene::start().await;
    scene.company_administrators().await;
    scene.deactivation().await;
    // Before the account is closed, when org forgets its members.
    scene.relations();
    scene.lifecycle().await;
    assert_eq!(code(&scene.run("org admin add nowhere")), 2, "a missing argument is a usage error");
    scene.credential();
    let Scene { mut platform, .. } = scene;
    platform.stop();
    let output = platform.output("identity suspend nobody");
    assert_eq!((code(&output), said(&output).contains("is the platform running")), (1, true), "{output:?}");
}

impl Scene {
    async fn start() -> Self {
        let platform = Together::start("operators");
        let admin = platform.api(Version::Http2).with_token(&platform.token("admin").await);
        let token = platform.token("alice").await;
        let alice = platform.api(Version::Http2).with_token(&token);
        alice.get("/api/org/me/companies").await.data(200);
        let company = create_company(&admin, "ACME").await;
        let member = create_member(&admin, &company, "A1").await;
        let subject = subject(&token);
        link(&admin, &member, &subject).await;
        Self { platform, alice, subject, company }
    }

    fn run(&self, arguments: &str) -> Output {
        self.platform.output(arguments)
    }

    /// Runs a command that must succeed, and returns its output.
    fn done(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        assert_eq!(code(&output), 0, "{arguments}: {output:?}");
        said(&output)
    }

    async fn decide(&self, role: Option<&str>) -> Reply {
        let question = json!({
            "featureKey": "timesheet.access", "scope": "company", "companyId": self.company,
            "requiredCompanyRole": role,
        });
        let mut question = question;
        if role.is_none() {
            question.as_object_mut().expect("an object").remove("requiredCompanyRole");
        }
        self.alice.post("/api/auth/effective-access/can", question).await
    }

    async fn reason(&self, role: Option<&str>) -> String {
        self.decide(role).await.data(200)["reason"].as_str().expect("a reason").to_owned()
    }

    /// Without the credential of the running platform, the commands fail.
    fn credential(&self) {
        let command = format!("org deactivate {}", self.company);
        let wrong = [("PLATFORM_OPERATOR_TOKEN", "not-the-one-of-this-platform")];
        let refused = self.platform.output_with(&command, &wrong);
        assert_eq!(
            (code(&refused), said(&refused).contains("401 AUTH_TOKEN_INVALID")),
            (1, true),
            "{refused:?}"
        );
        let elsewhere = std::env::temp_dir().display().to_string();
        let unknown = self.platform.output_with(&command, &[("PLATFORM_DATA_DIR", &elsewhere)]);
        let says = said(&unknown).contains("PLATFORM_OPERATOR_TOKEN: is required");
        assert_eq!((code(&unknown), says), (2, true), "{unknown:?}");
    }

    /// The exit code is for scripts: 0 held, 1 not held, 2 invalid question.
    fn relations(&self) {
        let question = |subject: &str| format!("authz check company:{} member user:{subject}", self.company);
        for (subject, expected) in [(self.subject.as_str(), (0, "held")), ("nobody", (1, "not held"))] {
            let output = self.run(&question(subject));
            let told = String::from_utf8_lossy(&output.stdout);
            assert_eq!((code(&output), told.lines().last().unwrap_or_default()), expected, "{output:?}");
        }
        assert_eq!(code(&self.run("authz check company member user:a")), 2);
    }

    async fn company_administrators(&self) {
        let Self { company, subject, .. } = self;
        assert_eq!(self.reason(Some("admin")).await, "COMPANY_ROLE_REQUIRED");
        let add = format!("org admin add {company} {subject}");
        assert!(self.done(&add).contains(&format!("{subject} is an administrator of company {company}")));
        assert_eq!(self.reason(Some("admin")).await, "ALLOWED");
        assert!(self.done(&add).contains("as before"));
        self.done(&format!("org admin remove {company} {subject}"));
        assert_eq!(self.reason(Some("admin")).await, "COMPANY_ROLE_REQUIRED");
        let stranger = self.run(&format!("org admin add {company} nobody-was-called-this"));
        assert_eq!((code(&stranger), said(&stranger).contains("404 NOT_FOUND")), (1, true), "{stranger:?}");
    }

    async fn deactivation(&self) {
        let company = &self.company;
        assert!(
            self.done(&format!("org deactivate {company}"))
                .contains("company ACME (ACME Corporation) is inactive")
        );
        assert_eq!(self.reason(None).await, "COMPANY_INACTIVE");
        assert_eq!(self.alice.get("/api/org/me/companies").await.data(200), &json!([]));
        self.done(&format!("org activate {company}"));
        assert_eq!(self.reason(None).await, "ALLOWED");
        assert_eq!(code(&self.run("org deactivate x")), 1);
    }

    async fn lifecycle(&self) {
        let subject = &self.subject;
        assert!(
            self.done(&format!("identity suspend {subject}")).contains(&format!("{subject} is suspended"))
        );
        assert_eq!(self.reason(None).await, "USER_LIFECYCLE_DISABLED");
        self.done(&format!("identity activate {subject} --reason back"));
        assert_eq!(self.reason(None).await, "ALLOWED");
        self.done(&format!("identity close {subject}"));
        assert_eq!(self.reason(None).await, "IDP_DISABLED", "the provider has removed the account");
        let again = self.run(&format!("identity activate {subject}"));
        assert_eq!(
            (code(&again), said(&again).contains("LIFECYCLE_TRANSITION_INVALID")),
            (1, true),
            "{again:?}"
        );
        let last = claims(&self.platform.token("admin").await)["sub"].as_str().expect("a subject").to_owned();
        let refused = self.run(&format!("identity suspend {last}"));
        assert_eq!((code(&refused), said(&refused).contains("409 CONFLICT")), (1, true), "{refused:?}");
        let account = std::process::Command::new("id").arg("-un").output().expect("id runs");
        let operator = format!("operator:{}", String::from_utf8_lossy(&account.stdout).trim());
        for (service, changes) in [("org", 4), ("identity", 3)] {
            assert_eq!(self.platform.audited_by(service, &operator).await, changes, "{service}");
        }
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it ended by itself")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
