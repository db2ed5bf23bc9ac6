//! TLS session tickets: a ticket becomes invalid with the authorities, the names and the client certificate under which
//! it was issued.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, generate_simple_self_signed,
};
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, ResolvesClientCert, Resumption, Tls12ClientSessionValue,
    Tls13ClientSessionValue,
};
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ClientConnection, HandshakeKind, NamedGroup, RootCertStore, SignatureScheme, version,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use time::OffsetDateTime;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::secured::{Folder, Identity, OK, Versions, ask, config, connect};
use crate::world::World;

const SOON: Duration = Duration::from_secs(10);
const EACH: [Versions<'static>; 2] = [&[&version::TLS13], &[&version::TLS12]];
/// Validity of a certificate that expires during a test: time for the preceding handshakes on a busy machine.
const SHORT: Duration = Duration::from_secs(6);

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority"))
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn identity(&self, ends: Option<OffsetDateTime>) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["client.example".to_owned()]).expect("parameters");
        params.not_after = ends.unwrap_or(params.not_after);
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).expect("a key"))
    }
}

/// The outcome of a connection: the kind of handshake, if any, and whether its request was answered.
#[derive(Debug, PartialEq)]
struct Outcome {
    handshake: Option<HandshakeKind>,
    answered: bool,
}

const FULL: Outcome = Outcome { handshake: Some(HandshakeKind::Full), answered: true };
const RESUMED: Outcome = Outcome { handshake: Some(HandshakeKind::Resumed), answered: true };

async fn outcome(world: &World, client: &Arc<ClientConfig>) -> Outcome {
    let Ok(mut stream) = connect(world, client, "localhost").await else {
        return Outcome { handshake: None, answered: false };
    };
    // In TLS 1.3 the client finishes its handshake before the server has seen its certificate.
    let answered = ask(&mut stream).await.is_ok_and(|status| status == OK);
    Outcome { handshake: stream.get_ref().1.handshake_kind(), answered }
}

/// Neither resumed nor answered.
fn is_refused(outcome: &Outcome) -> bool {
    outcome.handshake != Some(HandshakeKind::Resumed) && !outcome.answered
}

/// Tries fresh clients until one is answered: then the change is in use.
async fn until_answered(world: &World, client: impl Fn() -> Arc<ClientConfig>) {
    let answered = async {
        while !outcome(world, &client()).await.answered {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, answered).await.expect("the change is taken up");
}

fn client(world: &World, versions: Versions<'_>, identity: Identity) -> Arc<ClientConfig> {
    config(&[&world.root], versions, identity)
}

/// A gateway that demands client certificates of this authority.
async fn demanding(folder: &Folder, authority: &Authority) -> World {
    let file = folder.write("clients.pem", &authority.pem());
    let world = World::cold(&[("PLATFORM_TLS_CLIENT_CA", &file)]).await;
    let identity = authority.identity(None);
    until_answered(&world, || {
        client(&world, rustls::ALL_VERSIONS, Some((identity.0.clone(), identity.1.clone_key())))
    })
    .await;
    world
}

#[tokio::test]
async fn tickets_of_a_withdrawn_authority_let_nobody_in() {
    let (folder, ours, theirs) = (Folder::new(), Authority::new(), Authority::new());
    let world = demanding(&folder, &ours).await;
    let clients = EACH.map(|versions| client(&world, versions, Some(ours.identity(None))));
    for client in &clients {
        assert_eq!(outcome(&world, client).await, FULL);
        assert_eq!(outcome(&world, client).await, RESUMED, "while the authority stands");
    }
    folder.write("clients.pem", &theirs.pem());
    let identity = theirs.identity(None);
    until_answered(&world, || {
        client(&world, rustls::ALL_VERSIONS, Some((identity.0.clone(), identity.1.clone_key())))
    })
    .await;
    for client in &clients {
        let outcome = outcome(&world, client).await;
        assert!(is_refused(&outcome), "the authority was withdrawn: {outcome:?}");
    }
}

#[tokio::test]
async fn a_session_is_not_resumed_past_the_end_of_the_clients_certificate() {
    let (folder, ours) = (Folder::new(), Authority::new());
    let world = demanding(&folder, &ours).await;
    let end = OffsetDateTime::now_utc() + SHORT;
    let short = EACH.map(|versions| client(&world, versions, Some(ours.identity(Some(end)))));
    let long = EACH.map(|versions| client(&world, versions, Some(ours.identity(None))));
    for client in short.iter().chain(&long) {
        assert_eq!(outcome(&world, client).await, FULL);
        assert_eq!(outcome(&world, client).await, RESUMED, "while the certificate is valid");
    }
    // A certificate's expiry is in whole seconds.
    let left = end - OffsetDateTime::now_utc() + Duration::from_secs(1);
    sleep(left.try_into().unwrap_or_default()).await;
    for client in &short {
        let outcome = outcome(&world, client).await;
        assert!(is_refused(&outcome), "the certificate has ended: {outcome:?}");
    }
    for client in &long {
        assert_eq!(outcome(&world, client).await, RESUMED, "this one is valid still");
    }
}

#[tokio::test]
async fn a_handshake_beside_the_withdrawal_of_its_authority_lets_nobody_in() {
    let (folder, ours, theirs) = (Folder::new(), Authority::new(), Authority::new());
    let world = demanding(&folder, &ours).await;
    for withdrawn in [false, true] {
        let config = client(&world, EACH[0], Some(ours.identity(None)));
        let name = ServerName::try_from("localhost").expect("a name");
        let mut tls = ClientConnection::new(config, name).expect("a client");
        let mut stream = TcpStream::connect(world.tls).await.expect("a connection");
        let mut hello = Vec::new();
        tls.write_tls(&mut hello).expect("written");
        stream.write_all(&hello).await.expect("written");
        // It has received everything from the gateway, and has not sent its certificate yet.
        while tls.is_handshaking() {
            let mut bytes = [0; 4_096];
            let length = timeout(SOON, stream.read(&mut bytes)).await.expect("in time").expect("bytes");
            assert!(length > 0, "the gateway continues");
            tls.read_tls(&mut &bytes[..length]).expect("read");
            tls.process_new_packets().expect("a handshake");
        }
        if withdrawn {
            folder.write("clients.pem", &theirs.pem());
            let identity = theirs.identity(None);
            let fresh =
                || client(&world, rustls::ALL_VERSIONS, Some((identity.0.clone(), identity.1.clone_key())));
            until_answered(&world, fresh).await;
        }
        tls.writer().write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").expect("written");
        let mut rest = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut rest).expect("written");
        }
        stream.write_all(&rest).await.expect("written");
        let mut answer = vec![0; 4_096];
        let mut plain = String::new();
        while let Ok(length @ 1..) =
            timeout(SOON, stream.read(&mut answer)).await.expect("answered or closed")
        {
            tls.read_tls(&mut &answer[..length]).expect("read");
            tls.process_new_packets().expect("records");
            // Nothing more for now, or the end.
            let _so_far = tls.reader().read_to_string(&mut plain);
            if plain.starts_with(OK) {
                break;
            }
        }
        assert_eq!(plain.starts_with(OK), !withdrawn, "{plain}");
    }
}

/// A client that adopts a renewed certificate and keeps its tickets.
#[derive(Debug)]
struct Renewing(Mutex<Arc<CertifiedKey>>);

impl Renewing {
    fn take_up(&self, (certificate, key): (CertificateDer<'static>, PrivateKeyDer<'static>)) {
        *self.0.lock().expect("no panic") = certified(certificate, key);
    }
}

impl ResolvesClientCert for Renewing {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.lock().expect("no panic")))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn certified(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> Arc<CertifiedKey> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    Arc::new(CertifiedKey::from_der(vec![certificate], key, &provider).expect("an identity"))
}

#[tokio::test]
async fn a_client_with_a_renewed_certificate_and_an_old_ticket_shakes_hands_anew() {
    let (folder, ours) = (Folder::new(), Authority::new());
    let world = demanding(&folder, &ours).await;
    let end = OffsetDateTime::now_utc() + SHORT;
    let clients = EACH.map(|versions| {
        let (certificate, key) = ours.identity(Some(end));
        let renewing = Arc::new(Renewing(Mutex::new(certified(certificate, key))));
        let mut config = (*client(&world, versions, None)).clone();
        let resolver: Arc<Renewing> = Arc::clone(&renewing);
        config.client_auth_cert_resolver = resolver;
        (Arc::new(config), renewing)
    });
    for (client, _) in &clients {
        assert_eq!(outcome(&world, client).await, FULL);
        assert_eq!(outcome(&world, client).await, RESUMED);
    }
    let left = end - OffsetDateTime::now_utc() + Duration::from_secs(1);
    sleep(left.try_into().unwrap_or_default()).await;
    for (client, renewing) in &clients {
        renewing.take_up(ours.identity(None));
        assert_eq!(outcome(&world, client).await, FULL, "not resumed, and not refused");
        assert_eq!(outcome(&world, client).await, RESUMED, "from then on with the new certificate's ticket");
    }
}

/// Keeps tickets, but forgets the server's preferred key exchange: each time its client gets a `HelloRetryRequest`.
#[derive(Debug)]
struct Forgetful(ClientSessionMemoryCache);

impl ClientSessionStore for Forgetful {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.0.set_tls12_session(name, value);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.tls12_session(name)
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.0.remove_tls12_session(name);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.0.insert_tls13_ticket(name, value);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.take_tls13_ticket(name)
    }
}

/// A client whose first `ClientHello` has a key share of a group that the gateway does not accept.
fn twice_greeting(
    world: &World,
    (certificate, key): (CertificateDer<'static>, PrivateKeyDer<'static>),
) -> Arc<ClientConfig> {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.kx_groups = vec![kx_group::MLKEM768, kx_group::X25519];
    let mut roots = RootCertStore::empty();
    roots.add(world.root.clone()).expect("a root");
    let builder = ClientConfig::builder_with_provider(Arc::new(provider));
    let builder = builder.with_protocol_versions(&[&version::TLS13]).expect("versions");
    let builder = builder.with_root_certificates(roots);
    let mut config = builder.with_client_auth_cert(vec![certificate], key).expect("an identity");
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::store(Arc::new(Forgetful(ClientSessionMemoryCache::new(8))));
    Arc::new(config)
}

#[tokio::test]
async fn a_ticket_that_comes_with_a_second_hello_is_held_against_the_clock_as_well() {
    let (folder, ours) = (Folder::new(), Authority::new());
    let world = demanding(&folder, &ours).await;
    let end = OffsetDateTime::now_utc() + SHORT;
    let client = twice_greeting(&world, ours.identity(Some(end)));
    let first = outcome(&world, &client).await;
    let twice = Some(HandshakeKind::FullWithHelloRetryRequest);
    assert_eq!(first, Outcome { handshake: twice, answered: true });
    assert_eq!(outcome(&world, &client).await, RESUMED, "while the certificate is valid");
    let left = end - OffsetDateTime::now_utc() + Duration::from_secs(1);
    sleep(left.try_into().unwrap_or_default()).await;
    let outcome = outcome(&world, &client).await;
    assert!(!outcome.answered, "the certificate has ended: {outcome:?}");
}

#[tokio::test]
async fn tickets_end_with_the_names_of_the_certificate_and_outlive_its_renewal() {
    let world = World::start().await;
    let mut root = world.root.clone();
    for (names, expected) in
        [(vec!["localhost"], RESUMED), (vec!["localhost", "other.example"], FULL), (vec!["localhost"], FULL)]
    {
        let names: Vec<_> = names.into_iter().map(ToOwned::to_owned).collect();
        let fresh = generate_simple_self_signed(names.clone()).expect("a certificate");
        let clients = EACH.map(|versions| config(&[&root, fresh.cert.der()], versions, None));
        for client in &clients {
            assert_eq!(outcome(&world, client).await, FULL);
            assert_eq!(outcome(&world, client).await, RESUMED);
        }
        world.write_tls_files(&fresh.cert.pem(), &fresh.signing_key.serialize_pem());
        root = fresh.cert.der().clone();
        until_answered(&world, || config(&[&root], rustls::ALL_VERSIONS, None)).await;
        for client in &clients {
            assert_eq!(outcome(&world, client).await, expected, "{names:?}");
        }
    }
}

#[tokio::test]
async fn a_ticket_without_a_certificate_opens_nothing_where_one_is_demanded() {
    let (folder, ours) = (Folder::new(), Authority::new());
    let file = folder.write("clients.pem", &ours.pem());
    let lenient = [("PLATFORM_TLS_CLIENT_CA", file.as_str()), ("PLATFORM_TLS_CLIENT_REQUIRED", "false")];
    let lenient = World::with(&lenient).await;
    let demanding = demanding(&folder, &ours).await;
    for versions in EACH {
        let client = config(&[&lenient.root, &demanding.root], versions, None);
        assert_eq!(outcome(&lenient, &client).await, FULL);
        assert_eq!(outcome(&lenient, &client).await, RESUMED, "where it was given");
        let outcome = outcome(&demanding, &client).await;
        assert!(is_refused(&outcome), "after a restart that demands one: {outcome:?}");
    }
}
