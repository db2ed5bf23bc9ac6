//! The TLS configuration of this moment. The files are looked at every second; a pair that cannot be used is logged and
//! the one in use stays.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use ring::digest::{self, SHA256_OUTPUT_LEN};
use rustls::ServerConfig;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::expiry;
use crate::wire::tls::{ALPN_H2, ALPN_HTTP1};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why a pair of files cannot be used.
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
}

/// The certificate in use, and the files it comes from.
pub(crate) struct Certificates {
    chain: PathBuf,
    key: PathBuf,
    present: ArcSwap<Usable>,
    /// Digest of what was read last, usable or not. Times and sizes would miss two writes in one tick of the clock.
    seen: Mutex<Digest>,
}

/// A pair that can be used.
struct Usable {
    config: Arc<ServerConfig>,
    /// When the first of the chain ends, in seconds since 1970.
    expiry: Option<i64>,
}

type Digest = [u8; SHA256_OUTPUT_LEN];

/// Both files as they are at one moment.
struct Files {
    chain: Vec<u8>,
    key: Vec<u8>,
}

impl Certificates {
    /// Reads the files; at the start an unusable pair is an error.
    pub(crate) fn read(chain: PathBuf, key: PathBuf) -> Result<Self, CertificateError> {
        let files = Files::read(&chain, &key)?;
        let present = ArcSwap::new(files.parse(&chain, &key)?);
        Ok(Self { seen: Mutex::new(files.digest()), chain, key, present })
    }

    pub(crate) fn present(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.present.load().config)
    }

    /// When the chain in use ends, in seconds since 1970.
    pub(crate) fn expiry(&self) -> Option<i64> {
        self.present.load().expiry
    }

    /// Looks at the files for ever; ends when its task is dropped.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        loop {
            ticks.tick().await;
            let this = Arc::clone(&self);
            // Files are read off the async threads; a panic there would be a bug, and the next look tries again.
            if let Err(error) = tokio::task::spawn_blocking(move || this.look()).await {
                tracing::error!(%error, "the TLS files could not be looked at");
            }
        }
    }

    /// Takes up the files when they have changed and can be used.
    fn look(&self) {
        // A file that is missing for a moment is being replaced; the next look sees it.
        let Ok(files) = Files::read(&self.chain, &self.key) else { return };
        let digest = files.digest();
        let before =
            std::mem::replace(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner), digest);
        if before == digest {
            return;
        }
        match files.parse(&self.chain, &self.key) {
            Ok(fresh) => {
                self.present.store(fresh);
                tracing::info!(chain = %self.chain.display(), "the new TLS certificate is in use");
            }
            Err(error) => {
                tracing::error!(%error, "the new TLS certificate cannot be used; the old one stays");
            }
        }
    }
}

impl Files {
    fn read(chain: &Path, key: &Path) -> Result<Self, CertificateError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| CertificateError::Unreadable {
                path: path.to_owned(),
                source: pem::Error::Io(error),
            })
        };
        Ok(Self { chain: read(chain)?, key: read(key)? })
    }

    fn digest(&self) -> Digest {
        let mut context = digest::Context::new(&digest::SHA256);
        for file in [&self.chain, &self.key] {
            // The length keeps bytes that move from one file to the other apart.
            context.update(&file.len().to_be_bytes());
            context.update(file);
        }
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        bytes.copy_from_slice(context.finish().as_ref());
        bytes
    }

    fn parse(&self, chain: &Path, key: &Path) -> Result<Arc<Usable>, CertificateError> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| CertificateError::Unreadable { path, source }
        };
        let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&self.chain)
            .collect::<Result<_, _>>()
            .map_err(unreadable(chain))?;
        if certificates.is_empty() {
            return Err(CertificateError::Empty { path: chain.to_owned() });
        }
        let expiry = certificates.iter().filter_map(|certificate| expiry::not_after(certificate)).min();
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(unreadable(key))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certificates, key)?;
        config.alpn_protocols = vec![ALPN_H2.to_vec(), ALPN_HTTP1.to_vec()];
        Ok(Arc::new(Usable { config: Arc::new(config), expiry }))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertifiedKey, generate_simple_self_signed};

    use super::*;

    fn write(folder: &Path, chain: &str, key: &str) {
        std::fs::write(folder.join("edge.pem"), chain).expect("a file");
        std::fs::write(folder.join("edge.key"), key).expect("a file");
    }

    fn pair() -> (String, String) {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
        (cert.pem(), signing_key.serialize_pem())
    }

    #[test]
    fn a_pair_that_cannot_be_used_never_replaces_one_that_can() {
        let folder = std::env::temp_dir().join(format!("edge-certificates-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let read = || Certificates::read(folder.join("edge.pem"), folder.join("edge.key"));
        let (chain, key) = pair();
        let (other_chain, other_key) = pair();
        write(&folder, &chain, &key);
        let certificates = read().expect("a good pair");
        let first = certificates.present();
        assert!(certificates.expiry().is_some(), "the operator is told when it ends");
        for (bad_chain, bad_key) in [("", key.as_str()), ("no PEM", &key), (&chain, ""), (&chain, &other_key)]
        {
            write(&folder, bad_chain, bad_key);
            certificates.look();
            assert!(Arc::ptr_eq(&certificates.present(), &first), "the old pair stays");
            assert!(read().is_err(), "at the start a bad pair is an error");
        }
        write(&folder, &other_chain, &other_key);
        certificates.look();
        assert!(!Arc::ptr_eq(&certificates.present(), &first), "a good pair is taken up");
        std::fs::remove_dir_all(&folder).expect("the test's own folder");
    }
}
