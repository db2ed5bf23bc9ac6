//! Selects the certificate for a client: by the requested name (exact, then wildcard), by default the first.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use webpki::EndEntityCert;

/// Certificates by name.
#[derive(Debug, Default)]
pub(crate) struct ByName {
    first: Option<Arc<CertifiedKey>>,
    /// In lower case; wildcards start with `*.`.
    names: HashMap<String, Arc<CertifiedKey>>,
}

impl ByName {
    /// Adds a pair; a name that an earlier pair contains stays with that pair.
    pub(crate) fn add(&mut self, certified: Arc<CertifiedKey>) -> Result<(), rustls::Error> {
        let leaf = EndEntityCert::try_from(certified.end_entity_cert()?)
            .map_err(|_| rustls::Error::InvalidCertificate(rustls::CertificateError::BadEncoding))?;
        for name in leaf.valid_dns_names() {
            self.names.entry(name.to_ascii_lowercase()).or_insert_with(|| Arc::clone(&certified));
        }
        self.first.get_or_insert(certified);
        Ok(())
    }

    fn find(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        let wildcard = || self.names.get(&format!("*.{}", name.split_once('.')?.1));
        self.names.get(&name).or_else(wildcard)
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        client.server_name().and_then(|name| self.find(name)).or(self.first.as_ref()).cloned()
    }
}
