//! The authorities that sign the certificates of `https://` upstreams.

use crate::config::roots_of;
use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

/// The TLS configuration for upstreams: trusts only the authorities of this file, by default the system's.
pub(crate) fn upstream_tls(authorities: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let roots = match authorities {
        Some(file) => roots_of(file)?,
        None => system_roots(),
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![crate::tls::ALPN_HTTP1.to_vec()];
    Ok(Arc::new(config))
}

/// On a machine without authorities no upstream can be verified; the error shows when one is dialled.
fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    let (added, ignored) = roots.add_parsable_certificates(system.certs);
    tracing::debug!(added, ignored, "the system's authorities");
    roots
}
