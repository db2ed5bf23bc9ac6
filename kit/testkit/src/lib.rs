//! The test harness: everything that an API test needs besides the service under test. A development dependency only.
//!
//! ```no_run
//! use contract::Settings;
//! use serde_json::json;
//! use testkit::{Api, OpenApi, Stub, TokenIssuer};
//!
//! # async fn example() {
//! // A new database with all migrations, in one cluster that all test processes share.
//! let database = testkit::database().await;
//! let rows = database.pool_as("org");             // with exactly the privileges of the role platform_org
//! let everything = database.owner_pool();         // the superuser, to prepare and to look
//!
//! // Tokens as the identity provider would issue them, and invalid ones.
//! let issuer = TokenIssuer::start().await;
//! let alice = issuer.issue("alice-subject");
//! let expired = issuer.token("alice-subject").expires_in(-600).sign();
//! let app = issuer.service_account("crm-subject", "crm-backend");
//!
//! // Other services, scripted.
//! let authz = Stub::start().await;
//! authz.answer("POST", "/internal/authz/can", 200, json!({ "data": { "allowed": true } }));
//! authz.hang("GET", "/internal/authz/slow");
//!
//! // Receivers outside the platform: of webhooks, with bodies byte for byte, and of mail.
//! authz.respond_with("POST", "/hook", |request| http::Response::new(request.raw.clone()));
//! let mail = testkit::SmtpReceiver::start().await;
//! mail.answer(testkit::Step::Recipient, 550, "no such user");
//!
//! // The settings of the service under test: pass them to its `Config::read`, bind port 0, spawn `serve`.
//! let settings: Settings = testkit::settings("org", &database, &issuer).with("PLATFORM_AUTHZ_BASE_URL", authz.url());
//! let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
//! let api = Api::at(listener.local_addr().expect("bound"));
//!
//! // Send a request, and check every response against the service's document.
//! let reply = api.post("/internal/org/companies").bearer(&alice).json(json!({ "code": "ACME" })).send().await;
//! assert_eq!((reply.status, reply.code()), (403, "PLATFORM_ROLE_REQUIRED"), "{}", reply.text);
//! let document = OpenApi::parse(r#"{"openapi":"3.1.0","paths":{}}"#); // OpenApi::parse(org::OPENAPI)
//! document.check("POST", "/internal/org/companies", &reply);
//! assert_eq!(authz.requests().len(), 1);
//! # }
//! ```

pub mod client;
pub mod cluster;
pub mod holdings;
pub mod module;
pub mod openapi;
pub mod smtp;
pub mod stub;
pub mod tls;
pub mod tokens;
mod wait;

use contract::Settings;

pub use client::{Api, Call, Reply};
pub use cluster::{OwnCluster, TestDatabase, database, empty_database};
pub use module::suite::races;
pub use module::world::{Holder, Person, World};
pub use module::{ModuleApi, Operation};
pub use openapi::OpenApi;
pub use postgres::SUPERUSER;
pub use smtp::{Mail, SmtpReceiver, Step};
pub use stub::{Recorded, Stub};
pub use tls::TestAuthority;
pub use tokens::{TokenBuilder, TokenIssuer};
pub use wait::until;

/// The services' credential in tests.
pub const SERVICE: &str = "the-credential-of-the-services";
/// The key that seals secrets in tests.
const SEALING_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// The settings that every service needs: its database, the token issuer, the services' credential, and a sealing key.
#[must_use]
pub fn settings(key: &str, database: &TestDatabase, issuer: &TokenIssuer) -> Settings {
    let issuer = issuer.settings();
    let pairs = issuer.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    let own = database.settings(key).with("PLATFORM_SERVICE_TOKEN", SERVICE);
    let own = own.with("PLATFORM_SEALING_KEYS", SEALING_KEY);
    pairs.fold(own, |settings, (name, value)| settings.with(name, value))
}
