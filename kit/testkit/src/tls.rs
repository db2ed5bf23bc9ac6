//! Certificates for servers that a test starts.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// An authority that only the test's own clients trust.
pub struct TestAuthority(CertifiedIssuer<'static, KeyPair>);

impl TestAuthority {
    /// Makes an authority.
    ///
    /// # Panics
    /// No key can be generated.
    #[expect(clippy::expect_used, reason = "a test without keys cannot run")]
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    /// The authority's certificate, for a `…_CA` variable.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// The authority's certificate, for a client's roots.
    #[must_use]
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// The TLS configuration of a server with a certificate for these names and addresses.
    ///
    /// # Panics
    /// One of them is neither a name nor an address.
    #[expect(clippy::expect_used, reason = "the test names its server")]
    #[must_use]
    pub fn server(&self, names: &[&str]) -> Arc<ServerConfig> {
        let key = KeyPair::generate().expect("a key");
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let params = CertificateParams::new(names).expect("names");
        let leaf = params.signed_by(&key, &self.0).expect("a certificate");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = builder.expect("versions").with_no_client_auth();
        Arc::new(config.with_single_cert(vec![leaf.der().clone()], key).expect("a matching key"))
    }
}

impl Default for TestAuthority {
    fn default() -> Self {
        Self::new()
    }
}
