//! The current TLS configuration: every certificate, each presented to the clients that ask for one of its names, and
//! the authorities of client certificates. The files are checked every second; a set that is not usable as a whole is
//! logged and counted, and the current one stays. Tickets survive a renewal, and their keys rotate automatically; they
//! become invalid when the authorities of client certificates or the names of a certificate change. A ticket carries
//! its client's certificate, so each resumption verifies that certificate again against the authorities and the clock.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use ring::digest::{self, SHA256_OUTPUT_LEN};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ProducesTickets, VerifierBuilderError, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

use crate::config::{Pair, TlsFiles};
use crate::metrics::tally::Reload;
use crate::tls::names::ByName;
use crate::tls::{ALPN_H2, ALPN_HTTP1, expiry};

/// How often the files are checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Consecutive checks that find a file missing before that is reported: a file being replaced is missing for a moment.
const TELL_AFTER: u32 = 5;

/// Why the TLS files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read or holds no PEM of the right kind.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: pem::Error,
    },
    /// The chain is empty.
    #[error("{path} holds no certificate")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Certificate and key do not match, or are of an unknown kind.
    #[error("certificate and key cannot be used: {0}")]
    Unfit(#[from] rustls::Error),
    /// The authorities of client certificates cannot be used.
    #[error("PLATFORM_TLS_CLIENT_CA cannot be used: {0}")]
    Authorities(#[from] VerifierBuilderError),
}

/// The certificates in use, and the files they come from.
pub(crate) struct Certificates {
    files: TlsFiles,
    present: ArcSwap<Usable>,
    provider: Arc<CryptoProvider>,
    seen: Mutex<Seen>,
}

/// The results of checking the files.
struct Seen {
    /// The digest of the files last read, usable or not. Times and sizes would miss two writes within one clock tick.
    digest: Digest,
    /// Consecutive checks that could not read a file.
    unread: u32,
}

/// A usable set.
pub(crate) struct Usable {
    config: Arc<ServerConfig>,
    /// Set if client certificates are verified.
    clients: Option<Clients>,
    /// The earliest expiry of all chains, in seconds since 1970.
    expiry: Option<i64>,
    policy: Policy,
    /// Shared by sets with the same policy.
    tickets: Arc<dyn ProducesTickets>,
}

/// How client certificates are verified.
struct Clients {
    verifier: Arc<dyn ClientCertVerifier>,
    /// For a client whose ticket was rejected: accepts no tickets, but issues new ones.
    full: Arc<ServerConfig>,
}

/// The policy under which tickets were issued: any change invalidates earlier tickets.
#[derive(PartialEq, Eq)]
struct Policy {
    /// Certificates of the authorities, and whether a client certificate is required.
    clients: Option<(BTreeSet<Vec<u8>>, bool)>,
    /// The names of each pair.
    names: Vec<Option<Vec<u8>>>,
}

/// Issues tickets and accepts none.
#[derive(Debug)]
struct GivesOnly(Arc<dyn ProducesTickets>);

impl ProducesTickets for GivesOnly {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt(plain)
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

impl Usable {
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// The configuration for a client whose ticket was rejected; `None` if every ticket is accepted.
    pub(crate) fn full(&self) -> Option<Arc<ServerConfig>> {
        self.clients.as_ref().map(|clients| Arc::clone(&clients.full))
    }

    /// Whether a session may continue: a resumed one carries its client's certificate, which may have expired since.
    pub(crate) fn may_go_on(&self, session: &ServerConnection) -> bool {
        let Some(Clients { verifier, .. }) = &self.clients else { return true };
        if session.handshake_kind() != Some(HandshakeKind::Resumed) {
            return true;
        }
        match session.peer_certificates() {
            Some([own, others @ ..]) => verifier.verify_client_cert(own, others, UnixTime::now()).is_ok(),
            Some([]) | None => !verifier.client_auth_mandatory(),
        }
    }

    /// Whether client certificates that this set verified are still valid under `other`.
    fn agrees_with(&self, other: &Self) -> bool {
        self.clients.is_none() || Arc::ptr_eq(&self.tickets, &other.tickets)
    }
}

type Digest = [u8; SHA256_OUTPUT_LEN];

/// The contents of every file at one moment.
struct Contents {
    /// The chain and key of each pair.
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    authorities: Option<Vec<u8>>,
}

impl Certificates {
    /// Reads the files; an unusable set is an error here, at startup.
    pub(crate) fn read(files: TlsFiles) -> Result<Self, CertificateError> {
        let contents = Contents::read(&files)?;
        let provider = Arc::new(default_provider());
        let present = ArcSwap::from_pointee(contents.parse(&files, None, &provider)?);
        let seen = Mutex::new(Seen { digest: contents.digest(), unread: 0 });
        Ok(Self { files, present, provider, seen })
    }

    pub(crate) fn present(&self) -> Arc<Usable> {
        self.present.load_full()
    }

    /// Whether client certificates are verified.
    pub(crate) const fn verify_clients(&self) -> bool {
        self.files.clients.is_some()
    }

    /// Whether a client that `set` admitted would be admitted now: the authorities may have changed during the
    /// handshake.
    pub(crate) fn confirm(&self, set: &Usable) -> bool {
        set.agrees_with(&self.present.load())
    }

    /// The earliest expiry of the chains in use, in seconds since 1970.
    pub(crate) fn expiry(&self) -> Option<i64> {
        self.present.load().expiry
    }

    /// Checks the files for ever; ends when its task is dropped.
    pub(crate) async fn follow(self: Arc<Self>, tell: impl Fn(Reload)) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        loop {
            ticks.tick().await;
            self.look_off_thread(false).await.into_iter().for_each(&tell);
        }
    }

    /// Reads the files again on request; `None` if they have not changed.
    pub(crate) async fn look_now(self: &Arc<Self>) -> Option<Reload> {
        self.look_off_thread(true).await
    }

    async fn look_off_thread(self: &Arc<Self>, asked: bool) -> Option<Reload> {
        let this = Arc::clone(self);
        // Files are read off the async threads. A panic there would be a bug, and the next check tries again.
        let looked = tokio::task::spawn_blocking(move || this.look(asked)).await;
        looked.unwrap_or_else(|error| {
            tracing::error!(%error, "checking the TLS files failed");
            None
        })
    }

    /// Starts using the files if they have changed and are valid; `None` if they have not changed. A file that cannot
    /// be read is reported at once if the check was requested, otherwise once, after [`TELL_AFTER`] consecutive checks.
    fn look(&self, asked: bool) -> Option<Reload> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let contents = match Contents::read(&self.files) {
            Ok(contents) => contents,
            Err(error) => {
                seen.unread = seen.unread.saturating_add(1);
                if !asked && seen.unread != TELL_AFTER {
                    return None;
                }
                tracing::error!(%error, "cannot read the TLS files; the current ones stay, but a restart would fail");
                return Some(Reload::Refused);
            }
        };
        let fresh = Seen { digest: contents.digest(), unread: 0 };
        let is_same = fresh.digest == seen.digest;
        *seen = fresh;
        drop(seen);
        if is_same {
            return None;
        }
        match contents.parse(&self.files, Some(&self.present.load()), &self.provider) {
            Ok(fresh) => {
                self.present.store(Arc::new(fresh));
                tracing::info!(pairs = self.files.pairs.len(), "the new TLS files are in use");
                Some(Reload::Used)
            }
            Err(error) => {
                tracing::error!(%error, "cannot use the new TLS files; the old ones stay");
                Some(Reload::Refused)
            }
        }
    }
}

impl Contents {
    fn read(files: &TlsFiles) -> Result<Self, CertificateError> {
        let read = |path: &Path| {
            let unreadable =
                |error| CertificateError::Unreadable { path: path.to_owned(), source: pem::Error::Io(error) };
            std::fs::read(path).map_err(unreadable)
        };
        let pairs = files.pairs.iter().map(|pair| Ok((read(&pair.chain)?, read(&pair.key)?)));
        let authorities = files.clients.as_ref().map(|clients| read(&clients.authorities)).transpose()?;
        Ok(Self { pairs: pairs.collect::<Result<_, CertificateError>>()?, authorities })
    }

    fn digest(&self) -> Digest {
        let mut context = digest::Context::new(&digest::SHA256);
        let pairs = self.pairs.iter().flat_map(|(chain, key)| [chain, key]);
        for file in pairs.chain(&self.authorities) {
            // The length keeps bytes that move from one file to the other apart.
            context.update(&file.len().to_be_bytes());
            context.update(file);
        }
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        bytes.copy_from_slice(context.finish().as_ref());
        bytes
    }

    fn parse(
        &self,
        files: &TlsFiles,
        before: Option<&Usable>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Usable, CertificateError> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_safe_default_protocol_versions()?;
        let clients = match (&files.clients, &self.authorities) {
            (Some(clients), Some(text)) => {
                Some((certificates(text, &clients.authorities)?, clients.required))
            }
            _ => None,
        };
        let verifier = clients
            .as_ref()
            .map(|(authorities, required)| client_verifier(authorities, *required, provider))
            .transpose()?;
        let builder = match &verifier {
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
            None => builder.with_no_client_auth(),
        };
        let (mut by_name, mut expiry, mut names) = (ByName::default(), None, Vec::new());
        for (pair, (chain, key)) in files.pairs.iter().zip(&self.pairs) {
            let certified = certified(pair, chain, key, provider)?;
            let ends = certified.cert.iter().filter_map(|certificate| expiry::not_after(certificate)).min();
            expiry = [expiry, ends].into_iter().flatten().min();
            names.push(expiry::names(certified.end_entity_cert()?).map(<[u8]>::to_vec));
            by_name.add(certified)?;
        }
        let mut config = builder.with_cert_resolver(Arc::new(by_name));
        config.alpn_protocols = vec![ALPN_H2.to_vec(), ALPN_HTTP1.to_vec()];
        let bytes =
            |authorities: Vec<CertificateDer<'_>>| authorities.iter().map(|der| der.to_vec()).collect();
        let clients = clients.map(|(authorities, required)| (bytes(authorities), required));
        let policy = Policy { clients, names };
        let tickets = match before.filter(|before| before.policy == policy) {
            Some(before) => Arc::clone(&before.tickets),
            None => Ticketer::new()?,
        };
        config.ticketer = Arc::clone(&tickets);
        let clients = verifier.map(|verifier| Clients { verifier, full: full_only(&config) });
        Ok(Usable { config: Arc::new(config), clients, expiry, policy, tickets })
    }
}

fn client_verifier(
    authorities: &[CertificateDer<'static>],
    required: bool,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
    let mut roots = RootCertStore::empty();
    for certificate in authorities {
        roots.add(certificate.clone())?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    Ok(if required { verifier } else { verifier.allow_unauthenticated() }.build()?)
}

/// The same without resumption.
fn full_only(config: &ServerConfig) -> Arc<ServerConfig> {
    let mut config = config.clone();
    config.ticketer = Arc::new(GivesOnly(config.ticketer));
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Arc::new(config)
}

fn certificates(text: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|source| CertificateError::Unreadable { path: path.to_owned(), source })?;
    if found.is_empty() { Err(CertificateError::Empty { path: path.to_owned() }) } else { Ok(found) }
}

fn certified(
    pair: &Pair,
    chain: &[u8],
    key: &[u8],
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, CertificateError> {
    let chain = certificates(chain, &pair.chain)?;
    let unreadable = |source| CertificateError::Unreadable { path: pair.key.clone(), source };
    let key = PrivateKeyDer::from_pem_slice(key).map_err(unreadable)?;
    Ok(Arc::new(CertifiedKey::from_der(chain, key, provider)?))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertifiedKey, generate_simple_self_signed};

    use super::*;

    fn write(folder: &Path, chain: &str, key: &str) {
        std::fs::write(folder.join("edge.pem"), chain).expect("a file");
        std::fs::write(folder.join("edge.key"), key).expect("a file");
    }

    fn made() -> (String, String) {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        (cert.pem(), signing_key.serialize_pem())
    }

    #[test]
    fn a_pair_that_cannot_be_used_never_replaces_one_that_can() {
        let folder = std::env::temp_dir().join(format!("edge-certificates-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let pair = || Pair { chain: folder.join("edge.pem"), key: folder.join("edge.key") };
        let read = || Certificates::read(TlsFiles { pairs: vec![pair()], clients: None });
        let (chain, key) = made();
        let (other_chain, other_key) = made();
        write(&folder, &chain, &key);
        let certificates = read().expect("a good pair");
        let first = certificates.present();
        assert!(certificates.expiry().is_some(), "the operator is told when it ends");
        for (bad_chain, bad_key) in [("", key.as_str()), ("no PEM", &key), (&chain, ""), (&chain, &other_key)]
        {
            write(&folder, bad_chain, bad_key);
            assert_eq!(certificates.look(false), Some(Reload::Refused));
            assert!(Arc::ptr_eq(&certificates.present(), &first), "the old pair stays");
            assert!(read().is_err(), "at the start a bad pair is an error");
        }
        write(&folder, &other_chain, &other_key);
        assert_eq!(certificates.look(false), Some(Reload::Used));
        assert_eq!(certificates.look(false), None, "the same files again");
        assert!(!Arc::ptr_eq(&certificates.present(), &first), "a good pair is taken up");
        std::fs::remove_file(pair().key).expect("a file");
        assert_eq!(certificates.look(true), Some(Reload::Refused), "on request");
        let looks: Vec<_> = (0..3 * TELL_AFTER).map(|_| certificates.look(false)).collect();
        assert_eq!(looks.iter().flatten().count(), 1, "told once: {looks:?}");
        assert_eq!(looks.first(), Some(&None), "it may be replaced at this moment");
        write(&folder, &other_chain, &other_key);
        assert_eq!(certificates.look(false), None, "the same files are back");
        std::fs::remove_dir_all(&folder).expect("the test's own folder");
    }
}
