//! A gateway with one scripted backend for everything behind it: foundation services, modules and the provider, each
//! under its own paths.

use std::path::PathBuf;
use std::time::Duration;

use contract::Settings;
use edge::EdgeConfig;
use http::Method;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls_pki_types::CertificateDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::backend::{Answer, Backend};
use crate::client::{Client, Reply, Version, request};
use crate::tokens::{ISSUER, Signer};

pub(crate) const COMPANY: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
pub(crate) const SUPERADMIN: &str = "/internal/authz/superadmin/";
pub(crate) const PROVISION: &str = "/internal/identity/provision";

/// A running gateway.
pub(crate) struct World {
    pub(crate) backend: Backend,
    pub(crate) signer: Signer,
    pub(crate) tls: std::net::SocketAddr,
    pub(crate) plain: std::net::SocketAddr,
    pub(crate) root: CertificateDer<'static>,
    pub(crate) catalog: watch::Sender<String>,
    pub(crate) stop: CancellationToken,
    pub(crate) served: JoinHandle<Result<(), edge::EdgeError>>,
    folder: PathBuf,
}

impl World {
    /// Starts a gateway, and waits for its keys and its catalog.
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// The same with some variables set; `{backend}` stands for the backend's address.
    pub(crate) async fn with(variables: &[(&str, &str)]) -> Self {
        let world = Self::cold(variables).await;
        world.ready().await;
        world
    }

    /// A gateway that has just started.
    pub(crate) async fn cold(variables: &[(&str, &str)]) -> Self {
        let backend = Backend::start().await;
        let signer = Signer::new();
        let (catalog, lines) = watch::channel(snapshot(1, "OK"));
        backend.on_path("/certs", Answer::Json(200, signer.jwks()));
        backend.on_path("/internal/platform/snapshot", Answer::Lines(lines));
        backend.on_path(PROVISION, Answer::Json(200, json!({"data": {"kcSub": "alice", "created": true}})));
        let (folder, root) = certificate();
        let settings = settings(&backend, &folder, variables);
        let config = EdgeConfig::read(&settings).expect("good settings");
        let bind = || async { TcpListener::bind("127.0.0.1:0").await.expect("a free port") };
        let (tls, plain) = (bind().await, bind().await);
        let (tls_address, plain_address) =
            (tls.local_addr().expect("an address"), plain.local_addr().expect("an address"));
        let stop = CancellationToken::new();
        let served = tokio::spawn(edge::serve(config, tls, Some(plain), stop.clone()));
        Self { backend, signer, tls: tls_address, plain: plain_address, root, catalog, stop, served, folder }
    }

    pub(crate) async fn ready(&self) {
        let waiting = async {
            while self.get("/readyz", &[]).await.status != 200 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("the edge gets ready");
    }

    pub(crate) async fn client(&self, version: Version) -> Client {
        Client::connect(self.tls, &self.root, version).await
    }

    /// Returns the `Authorization` of a subject, which the backend provisions.
    pub(crate) fn bearer(&self, subject: &str) -> String {
        self.bearer_with(subject, &json!({}))
    }

    pub(crate) fn bearer_with(&self, subject: &str, changes: &Value) -> String {
        self.backend
            .on_path(PROVISION, Answer::Json(200, json!({"data": {"kcSub": subject, "created": true}})));
        format!("Bearer {}", self.signer.token(subject, changes))
    }

    /// Sets authz's answer to the superadmin question; a subject refused only for lack of the role has an active
    /// account.
    pub(crate) fn superadmin(&self, held: bool, reason: &str) {
        let active = held || reason == "PLATFORM_ROLE_REQUIRED";
        let evidence = json!([{"key": "step", "value": "4"}]);
        let data = json!({"held": held, "reason": reason, "evidence": evidence, "accountActive": active});
        self.backend.on_path(SUPERADMIN, Answer::Json(200, json!({ "data": data })));
    }

    /// Writes other TLS files without notifying the gateway.
    pub(crate) fn write_tls_files(&self, chain: &str, key: &str) {
        std::fs::write(self.folder.join("edge.key"), key).expect("a file");
        std::fs::write(self.folder.join("edge.pem"), chain).expect("a file");
    }

    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.send(Version::H1, Method::GET, path, headers, "").await
    }

    pub(crate) async fn post(&self, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        self.send(Version::H1, Method::POST, path, headers, body).await
    }

    pub(crate) async fn send(
        &self,
        version: Version,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Reply {
        self.client(version).await.send(request(method, path, headers, body)).await
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
        std::fs::remove_dir_all(&self.folder).expect("the test's own folder");
    }
}

/// One line of registry's stream: timesheet in `state`, the app crm, and two apps whose backends are unknown.
pub(crate) fn snapshot(revision: i64, state: &str) -> String {
    let missing: &[&str] = if state == "MODULE_DEPENDENCY_MISSING" { &["notification"] } else { &[] };
    json!({
        "revision": revision,
        "modules": [
            {"key": "timesheet", "state": state, "port": 8160, "missing": missing},
            {"key": "docs", "state": "MODULE_NOT_INSTALLED", "port": 8170, "missing": []},
        ],
        "apps": [
            {"key": "crm", "clientId": "crm-backend", "subject": "service-1", "enabled": false},
            {"key": "erp", "clientId": "erp-backend", "subject": null, "enabled": true},
            {"key": "old", "clientId": "old-backend", "enabled": true},
        ],
    })
    .to_string()
}

fn settings(backend: &Backend, folder: &std::path::Path, more: &[(&str, &str)]) -> Settings {
    Settings::from_pairs(variables(backend, folder, more))
}

/// The variables of a gateway in front of this backend.
pub(crate) fn variables(
    backend: &Backend,
    folder: &std::path::Path,
    more: &[(&str, &str)],
) -> Vec<(String, String)> {
    let address = backend.address.to_string();
    let base_urls = ["REGISTRY", "IDENTITY", "ORG", "AUTHZ"]
        .map(|service| (format!("PLATFORM_{service}_BASE_URL"), format!("http://{address}")));
    let own = [
        ("PLATFORM_IDP_URL", format!("http://{address}")),
        ("PLATFORM_MODULE_HOST_TIMESHEET", address.clone()),
        ("PLATFORM_TLS_CERT", folder.join("edge.pem").to_string_lossy().into_owned()),
        ("PLATFORM_TLS_KEY", folder.join("edge.key").to_string_lossy().into_owned()),
        ("IDP_JWKS_URL", format!("http://{address}/certs")),
        ("IDP_ISSUER_URL", ISSUER.to_owned()),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value));
    let more = more.iter().map(|(name, value)| ((*name).to_owned(), value.replace("{backend}", &address)));
    base_urls.into_iter().chain(own).chain(more).collect()
}

/// Creates a folder with a certificate for `localhost`; returns both.
pub(crate) fn certificate() -> (PathBuf, CertificateDer<'static>) {
    let folder = std::env::temp_dir().join(format!("edge-test-{}", uuid::Uuid::now_v7()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    std::fs::write(folder.join("edge.pem"), cert.pem()).expect("a file");
    std::fs::write(folder.join("edge.key"), signing_key.serialize_pem()).expect("a file");
    (folder, cert.der().clone())
}
