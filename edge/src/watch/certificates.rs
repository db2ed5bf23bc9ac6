//! The TLS configuration of this moment. The files are looked at every second; a pair that cannot be used is logged and
//! the one in use stays.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

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
        source: rustls_pki_types::pem::Error,
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
    present: ArcSwap<ServerConfig>,
}

impl Certificates {
    /// Reads the files; at the start an unusable pair is an error.
    pub(crate) fn read(chain: PathBuf, key: PathBuf) -> Result<Self, CertificateError> {
        let present = ArcSwap::new(load(&chain, &key)?);
        Ok(Self { chain, key, present })
    }

    pub(crate) fn present(&self) -> Arc<ServerConfig> {
        self.present.load_full()
    }

    /// Looks at the files for ever; ends when its task is dropped.
    pub(crate) async fn follow(&self) {
        let mut seen = self.stamp().await;
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        loop {
            ticks.tick().await;
            let now = self.stamp().await;
            if now != seen {
                seen = now;
                self.reload();
            }
        }
    }

    fn reload(&self) {
        match load(&self.chain, &self.key) {
            Ok(fresh) => {
                self.present.store(fresh);
                tracing::info!(chain = %self.chain.display(), "the new TLS certificate is in use");
            }
            Err(error) => {
                tracing::error!(%error, "the new TLS certificate cannot be used; the old one stays");
            }
        }
    }

    async fn stamp(&self) -> [Option<(SystemTime, u64)>; 2] {
        [stamp(&self.chain).await, stamp(&self.key).await]
    }
}

/// What changes when a file does.
async fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = tokio::fs::metadata(path).await.ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn load(chain: &Path, key: &Path) -> Result<Arc<ServerConfig>, CertificateError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| CertificateError::Unreadable { path, source }
    };
    let certificates: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(chain).and_then(Iterator::collect).map_err(unreadable(chain))?;
    if certificates.is_empty() {
        return Err(CertificateError::Empty { path: chain.to_owned() });
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(unreadable(key))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![ALPN_H2.to_vec(), ALPN_HTTP1.to_vec()];
    Ok(Arc::new(config))
}
