//! Connections to a database elsewhere: its certificate and its name are verified unless the configuration asks for
//! less.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use service::config::{DatabaseConfig, DatabaseTls, TlsMode};
use service::db;
use sqlx::{ConnectOptions, Connection};

use crate::own_server::{OwnServer, PASSWORD};

/// A name that resolves to this machine but looks like another one.
const ELSEWHERE: &str = "0.0.0.0";

/// An authority in PEM, and a certificate from it for this name, with its key.
fn certificate(name: &str) -> (String, String, String) {
    let mut authority = CertificateParams::new(Vec::new()).expect("parameters");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority =
        CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(vec![name.to_owned()]).expect("a name").signed_by(&key, &authority);
    (authority.pem(), leaf.expect("a certificate").pem(), key.serialize_pem())
}

async fn server(name: &str) -> OwnServer {
    let (authority, chain, key) = certificate(name);
    let (stranger, ..) = certificate(name);
    let files =
        [("ca.pem", authority), ("server.pem", chain), ("server.key", key), ("stranger.pem", stranger)];
    let settings =
        [("ssl", "on"), ("ssl_cert_file", "{dir}/server.pem"), ("ssl_key_file", "{dir}/server.key")];
    OwnServer::start(&files, &settings).await
}

/// Whether a service's connection is encrypted, or why it failed.
async fn connect(
    server: &OwnServer,
    host: &str,
    mode: Option<TlsMode>,
    ca: Option<&str>,
) -> Result<bool, String> {
    let config = DatabaseConfig {
        host: host.to_owned(),
        port: server.port,
        name: "postgres".to_owned(),
        role: postgres::SUPERUSER.to_owned(),
        password: PASSWORD.to_owned(),
        max_connections: 1,
        max_worker_connections: 1,
        tls: DatabaseTls { mode, ca: ca.map(|name| server.path(name)) },
    };
    let mut connection = db::options(&config, &[]).connect().await.map_err(|error| error.to_string())?;
    let encrypted = sqlx::query_scalar("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        .fetch_one(&mut connection)
        .await
        .expect("the server tells");
    connection.close().await.expect("a clean end");
    Ok(encrypted)
}

#[tokio::test]
async fn only_a_database_whose_certificate_and_name_are_right_is_spoken_to() {
    let server = server("localhost").await;
    let full = Some(TlsMode::VerifyFull);
    assert_eq!(connect(&server, "localhost", full, Some("ca.pem")).await, Ok(true), "the right one");
    for (what, host, mode, ca) in [
        ("an authority that nobody named", "localhost", full, None),
        ("another authority", "localhost", full, Some("stranger.pem")),
        ("another name", "127.0.0.1", full, Some("ca.pem")),
        ("elsewhere, unasked", ELSEWHERE, None, None),
        ("elsewhere, unasked, another name", ELSEWHERE, None, Some("ca.pem")),
    ] {
        let refused = connect(&server, host, mode, ca).await.expect_err(what);
        assert!(!refused.contains(PASSWORD), "{what}: {refused}");
    }
    let asked = connect(&server, ELSEWHERE, Some(TlsMode::Prefer), None).await;
    assert_eq!(asked, Ok(true), "less was asked for");
    assert_eq!(connect(&server, "127.0.0.1", None, None).await, Ok(false), "this machine");
}

#[tokio::test]
async fn an_owner_who_did_not_ask_for_less_verifies_too() {
    let server = server("localhost").await;
    let url = |host: &str, mode: &str| {
        let (user, port) = (postgres::SUPERUSER, server.port);
        let url = format!("postgres://{user}:{PASSWORD}@{host}:{port}/postgres?sslmode={mode}");
        url.parse::<sqlx::postgres::PgConnectOptions>().expect("an address")
    };
    let unasked = DatabaseTls::default();
    for weak in ["disable", "prefer", "require", "verify-ca"] {
        let refused = db::secured(url(ELSEWHERE, weak), &unasked).connect().await;
        assert!(refused.is_err(), "{weak}: the address alone does not ask for less");
    }
    let less = DatabaseTls { mode: Some(TlsMode::Prefer), ca: None };
    assert!(db::secured(url(ELSEWHERE, "prefer"), &less).connect().await.is_ok());
    assert!(db::secured(url("127.0.0.1", "prefer"), &unasked).connect().await.is_ok());
    let trusted = DatabaseTls { mode: Some(TlsMode::VerifyFull), ca: Some(server.path("ca.pem")) };
    assert!(db::secured(url("localhost", "disable"), &trusted).connect().await.is_ok());
}

#[tokio::test]
async fn a_server_without_tls_is_no_server_elsewhere() {
    let server = OwnServer::start(&[], &[]).await;
    let refused = connect(&server, ELSEWHERE, None, None).await.expect_err("no TLS");
    assert!(refused.contains("TLS"), "{refused}");
    assert_eq!(connect(&server, ELSEWHERE, Some(TlsMode::Prefer), None).await, Ok(false));
}

#[test]
fn what_is_not_a_mode_or_an_authority_is_refused_at_the_start() {
    let read = |name: &str, value: &str| {
        let settings = contract::Settings::default().with(name, value);
        let mut reader = settings.reader();
        let tls = DatabaseTls::read(&mut reader);
        reader.finish(tls).map_err(|problems| problems.to_string())
    };
    for bad in ["disable", "require", "verify-ca", "Verify-Full", "yes"] {
        let problem = read("PLATFORM_DATABASE_TLS", bad).expect_err(bad);
        assert!(
            problem.contains("PLATFORM_DATABASE_TLS") && problem.contains("verify-full or prefer"),
            "{problem}"
        );
    }
    let problem = read("PLATFORM_DATABASE_CA", "/nowhere/ca.pem").expect_err("no file");
    assert!(problem.contains("PLATFORM_DATABASE_CA") && problem.contains("/nowhere/ca.pem"), "{problem}");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    assert!(read("PLATFORM_DATABASE_CA", file).expect_err("no PEM").contains("holds no PEM certificate"));
    assert_eq!(read("PLATFORM_DATABASE_TLS", "prefer").map(|tls| tls.mode), Ok(Some(TlsMode::Prefer)));
}
