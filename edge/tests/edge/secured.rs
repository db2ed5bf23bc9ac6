//! TLS as clients see it: a certificate per name, resumption, versions, the post-quantum key exchange, client
//! certificates; and what the operator sees.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CertifiedKey, IsCa, KeyPair,
    generate_simple_self_signed,
};
use rustls::{ClientConfig, HandshakeKind, NamedGroup, RootCertStore, SupportedProtocolVersion, version};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::world::World;

/// The files of one test, removed with it.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("edge-secured-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_string_lossy().into_owned()
    }

    /// Creates a pair for a name, in the variable's format, and returns its certificate.
    fn pair(&self, file: &str, name: &str) -> (String, CertificateDer<'static>) {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec![name.to_owned()]).expect("a certificate");
        let chain = self.write(&format!("{file}.pem"), &cert.pem());
        let key = self.write(&format!("{file}.key"), &signing_key.serialize_pem());
        (format!("{chain}:{key}"), cert.der().clone())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("the test's own folder");
    }
}

pub(crate) type Versions<'a> = &'a [&'static SupportedProtocolVersion];
pub(crate) type Identity = Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>;

/// A client that trusts these roots, and keeps its tickets.
pub(crate) fn config(
    roots: &[&CertificateDer<'static>],
    versions: Versions<'_>,
    identity: Identity,
) -> Arc<ClientConfig> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add((*root).clone()).expect("a root");
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).expect("versions");
    let builder = builder.with_root_certificates(store);
    let mut config = match identity {
        Some((certificate, key)) => {
            builder.with_client_auth_cert(vec![certificate], key).expect("an identity")
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

pub(crate) async fn connect(
    world: &World,
    config: &Arc<ClientConfig>,
    name: &'static str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(world.tls).await.expect("a connection");
    let name = ServerName::try_from(name).expect("a name");
    TlsConnector::from(Arc::clone(config)).connect(name, stream).await
}

/// Sends a request over the connection; returns its status.
pub(crate) async fn ask(stream: &mut TlsStream<TcpStream>) -> std::io::Result<String> {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
    stream.flush().await?;
    let mut answer = vec![0; 4_096];
    let length = stream.read(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer[..length.min(12)]).into_owned())
}

pub(crate) const OK: &str = "HTTP/1.1 200";

#[tokio::test]
async fn every_name_gets_its_own_certificate_and_any_other_the_first() {
    let folder = Folder::new();
    let ((one, one_root), (two, two_root)) =
        (folder.pair("one", "One.example"), folder.pair("two", "*.two.example"));
    let world = World::with(&[("PLATFORM_TLS_PAIRS", &format!("{one}, {two}"))]).await;
    let client = config(&[&one_root, &two_root, &world.root], rustls::ALL_VERSIONS, None);
    for (name, expected) in [
        ("one.example", &one_root),
        ("ONE.example", &one_root),
        ("a.two.example", &two_root),
        ("localhost", &world.root),
    ] {
        let stream = connect(&world, &client, name).await.expect(name);
        assert_eq!(stream.get_ref().1.peer_certificates(), Some(&[expected.clone()][..]), "{name}");
    }
    for stranger in ["two.example", "a.b.two.example", "other.example"] {
        let refused = connect(&world, &client, stranger).await.expect_err(stranger).to_string();
        assert!(refused.contains("not valid for name"), "{stranger}: {refused}");
    }
}

#[tokio::test]
async fn a_set_with_one_bad_pair_changes_nothing() {
    let folder = Folder::new();
    let (pair, root) = folder.pair("one", "one.example");
    let world = World::with(&[("PLATFORM_TLS_PAIRS", &pair)]).await;
    let reloads = "platform_gateway_certificate_reloads_total{result=\"refused\",service=\"gateway\"} 1";
    folder.write("one.pem", "no certificate");
    wait_for(&world, reloads).await;
    let client = config(&[&root], rustls::ALL_VERSIONS, None);
    assert_eq!(
        ask(&mut connect(&world, &client, "one.example").await.expect("the old one"))
            .await
            .expect("answered"),
        OK
    );
    let (_, fresh) = folder.pair("one", "one.example");
    wait_for(&world, "platform_gateway_certificate_reloads_total{result=\"used\",service=\"gateway\"} 1")
        .await;
    let client = config(&[&fresh], rustls::ALL_VERSIONS, None);
    assert!(connect(&world, &client, "one.example").await.is_ok(), "the new one");
}

#[tokio::test]
async fn a_session_is_resumed_in_both_versions_also_after_the_certificate_changed() {
    let world = World::start().await;
    for versions in [&[&version::TLS13][..], &[&version::TLS12]] {
        let client = config(&[&world.root], versions, None);
        let mut first = connect(&world, &client, "localhost").await.expect("a handshake");
        assert_eq!(ask(&mut first).await.expect("answered"), OK);
        assert_eq!(first.get_ref().1.handshake_kind(), Some(HandshakeKind::Full));
        let mut second = connect(&world, &client, "localhost").await.expect("a handshake");
        assert_eq!(ask(&mut second).await.expect("answered"), OK);
        assert_eq!(second.get_ref().1.handshake_kind(), Some(HandshakeKind::Resumed), "{versions:?}");
    }
    let client = config(&[&world.root], &[&version::TLS13], None);
    let mut before = connect(&world, &client, "localhost").await.expect("a handshake");
    assert_eq!(ask(&mut before).await.expect("answered"), OK);
    let fresh = generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    world.write_tls_files(&fresh.cert.pem(), &fresh.signing_key.serialize_pem());
    let strict = config(&[fresh.cert.der()], rustls::ALL_VERSIONS, None);
    let taken_up = async {
        while connect(&world, &strict, "localhost").await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), taken_up).await.expect("the new certificate is served");
    let after = connect(&world, &client, "localhost").await.expect("a handshake");
    assert_eq!(
        after.get_ref().1.handshake_kind(),
        Some(HandshakeKind::Resumed),
        "tickets outlive a certificate"
    );
}

#[tokio::test]
async fn the_key_exchange_withstands_quantum_computers_and_old_versions_are_refused() {
    let world = World::start().await;
    let client = config(&[&world.root], rustls::ALL_VERSIONS, None);
    let stream = connect(&world, &client, "localhost").await.expect("a handshake");
    let (_, session) = stream.get_ref();
    assert_eq!(session.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    let group = session.negotiated_key_exchange_group().map(rustls::crypto::SupportedKxGroup::name);
    assert_eq!(group, Some(NamedGroup::X25519MLKEM768));
    // SSL 3.0, TLS 1.0 and 1.1 with one cipher of their era.
    for minor in 0..=2 {
        let hello = [&[3, minor][..], &[7; 32], &[0, 0, 2, 0, 0x2f, 1, 0]].concat();
        let length = u8::try_from(hello.len()).expect("short");
        let record = [&[0x16, 3, minor.min(1), 0, length + 4, 1, 0, 0, length][..], &hello].concat();
        let mut stream = TcpStream::connect(world.tls).await.expect("a connection");
        stream.write_all(&record).await.expect("written");
        let mut answer = Vec::new();
        let _reset_or_not = stream.read_to_end(&mut answer).await;
        assert_eq!(answer.first(), Some(&0x15), "an alert, and no handshake, for 3.{minor}: {answer:?}");
    }
}

/// An authority, and an identity that it signed.
fn authority(name: &str) -> (String, (CertificateDer<'static>, PrivateKeyDer<'static>)) {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer =
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let client = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
    let certificate = client.signed_by(&key, &issuer).expect("a certificate");
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    (issuer.pem(), (certificate.der().clone(), key))
}

/// Whether a client with this identity is answered.
async fn passes(world: &World, identity: Identity) -> bool {
    let client = config(&[&world.root], rustls::ALL_VERSIONS, identity);
    // In TLS 1.3 the client finishes its handshake before the server has seen its certificate.
    match connect(world, &client, "localhost").await {
        Ok(mut stream) => ask(&mut stream).await.is_ok_and(|status| status == OK),
        Err(_) => false,
    }
}

#[tokio::test]
async fn a_client_certificate_is_verified_where_authorities_are_named() {
    let folder = Folder::new();
    let ((ours, identity), (_, stranger)) = (authority("client.example"), authority("client.example"));
    let file = folder.write("clients.pem", &ours);
    let again = |(certificate, key): &(CertificateDer<'static>, PrivateKeyDer<'static>)| {
        Some((certificate.clone(), key.clone_key()))
    };
    let optional = [("PLATFORM_TLS_CLIENT_CA", file.as_str()), ("PLATFORM_TLS_CLIENT_REQUIRED", "false")];
    let world = World::with(&optional).await;
    assert!(passes(&world, again(&identity)).await && passes(&world, None).await);
    assert!(!passes(&world, again(&stranger)).await, "a bad certificate is worse than none");
    let world = World::cold(&optional[..1]).await;
    assert!(passes(&world, again(&identity)).await);
    assert!(!passes(&world, None).await && !passes(&world, again(&stranger)).await);
}

/// Waits until the gateway's own metrics contain a line.
async fn wait_for(world: &World, line: &str) {
    let bearer = world.bearer("root");
    world.superadmin(true, "ALLOWED");
    let held = async {
        loop {
            let reply = world.get("/api/platform/metrics", &[("authorization", &bearer)]).await;
            if String::from_utf8_lossy(&reply.body).contains(line) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), held).await.expect(line);
}
