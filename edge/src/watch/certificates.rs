//! The TLS configuration of this moment: every pair, each shown to the clients that ask for one of its names, and the
//! authorities of client certificates. The files are looked at every second; a set that cannot be used as a whole is
//! logged and counted, and the one in use stays. Tickets outlive a change; their keys rotate by themselves.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use ring::digest::{self, SHA256_OUTPUT_LEN};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::server::{ProducesTickets, VerifierBuilderError, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::expiry;
use super::names::ByName;
use crate::config::{Pair, TlsFiles};
use crate::tally::Reload;
use crate::wire::tls::{ALPN_H2, ALPN_HTTP1};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

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
    /// Certificate and key do not fit together, or are of an unknown kind.
    #[error("certificate and key cannot be used: {0}")]
    Unfit(#[from] rustls::Error),
    /// The authorities of client certificates cannot be used.
    #[error("the authorities of client certificates cannot be used: {0}")]
    Authorities(#[from] VerifierBuilderError),
}

/// The certificates in use, and the files they come from.
pub(crate) struct Certificates {
    files: TlsFiles,
    present: ArcSwap<Usable>,
    tickets: Arc<dyn ProducesTickets>,
    provider: Arc<CryptoProvider>,
    /// Digest of what was read last, usable or not. Times and sizes would miss two writes in one tick of the clock.
    seen: Mutex<Digest>,
}

/// A set that can be used.
struct Usable {
    config: Arc<ServerConfig>,
    /// When the first of all chains ends, in seconds since 1970.
    expiry: Option<i64>,
}

type Digest = [u8; SHA256_OUTPUT_LEN];

/// Every file as it is at one moment.
struct Contents {
    /// Chain and key of each pair.
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    authorities: Option<Vec<u8>>,
}

impl Certificates {
    /// Reads the files; at the start an unusable set is an error.
    pub(crate) fn read(files: TlsFiles) -> Result<Self, CertificateError> {
        let contents = Contents::read(&files)?;
        let (tickets, provider) = (Ticketer::new()?, Arc::new(default_provider()));
        let present = ArcSwap::new(contents.parse(&files, &tickets, &provider)?);
        Ok(Self { seen: Mutex::new(contents.digest()), files, present, tickets, provider })
    }

    pub(crate) fn present(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.present.load().config)
    }

    /// When the first chain in use ends, in seconds since 1970.
    pub(crate) fn expiry(&self) -> Option<i64> {
        self.present.load().expiry
    }

    /// Looks at the files for ever; ends when its task is dropped.
    pub(crate) async fn follow(self: Arc<Self>, tell: impl Fn(Reload)) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        loop {
            ticks.tick().await;
            self.look_now().await.into_iter().for_each(&tell);
        }
    }

    /// Looks at the files once; `None` when they are the same.
    pub(crate) async fn look_now(self: &Arc<Self>) -> Option<Reload> {
        let this = Arc::clone(self);
        // Files are read off the async threads; a panic there would be a bug, and the next look tries again.
        let looked = tokio::task::spawn_blocking(move || this.look()).await;
        looked.unwrap_or_else(|error| {
            tracing::error!(%error, "the TLS files could not be looked at");
            None
        })
    }

    /// Takes up the files when they have changed and can be used; `None` when they are the same.
    fn look(&self) -> Option<Reload> {
        // A file that is missing for a moment is being replaced; the next look sees it.
        let contents = Contents::read(&self.files).ok()?;
        let digest = contents.digest();
        let before =
            std::mem::replace(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner), digest);
        if before == digest {
            return None;
        }
        match contents.parse(&self.files, &self.tickets, &self.provider) {
            Ok(fresh) => {
                self.present.store(fresh);
                tracing::info!(pairs = self.files.pairs.len(), "the new TLS files are in use");
                Some(Reload::Used)
            }
            Err(error) => {
                tracing::error!(%error, "the new TLS files cannot be used; the old ones stay");
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
        tickets: &Arc<dyn ProducesTickets>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<Usable>, CertificateError> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_safe_default_protocol_versions()?;
        let builder = match (&files.clients, &self.authorities) {
            (Some(clients), Some(text)) => {
                let roots = Arc::new(authorities(text, &clients.authorities)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
                let verifier = if clients.required { verifier } else { verifier.allow_unauthenticated() };
                builder.with_client_cert_verifier(verifier.build()?)
            }
            _ => builder.with_no_client_auth(),
        };
        let mut by_name = ByName::default();
        let mut expiry = None;
        for (pair, (chain, key)) in files.pairs.iter().zip(&self.pairs) {
            let certified = certified(pair, chain, key, provider)?;
            let ends = certified.cert.iter().filter_map(|certificate| expiry::not_after(certificate)).min();
            expiry = [expiry, ends].into_iter().flatten().min();
            by_name.add(certified)?;
        }
        let mut config = builder.with_cert_resolver(Arc::new(by_name));
        config.alpn_protocols = vec![ALPN_H2.to_vec(), ALPN_HTTP1.to_vec()];
        config.ticketer = Arc::clone(tickets);
        Ok(Arc::new(Usable { config: Arc::new(config), expiry }))
    }
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

fn authorities(text: &[u8], path: &Path) -> Result<RootCertStore, CertificateError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(text, path)? {
        roots.add(certificate)?;
    }
    Ok(roots)
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
            assert_eq!(certificates.look(), Some(Reload::Refused));
            assert!(Arc::ptr_eq(&certificates.present(), &first), "the old pair stays");
            assert!(read().is_err(), "at the start a bad pair is an error");
        }
        write(&folder, &other_chain, &other_key);
        assert_eq!(certificates.look(), Some(Reload::Used));
        assert_eq!(certificates.look(), None, "the same files again");
        assert!(!Arc::ptr_eq(&certificates.present(), &first), "a good pair is taken up");
        std::fs::remove_dir_all(&folder).expect("the test's own folder");
    }
}
