//! TLS of outbound calls: the certificate and its name are always verified.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, DnsName, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Host;
use super::error::{FailureKind, OutboundError};

/// A configuration that trusts the system's authorities and the given ones.
pub(super) fn config(authorities: &[CertificateDer<'static>]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots.add_parsable_certificates(authorities.iter().cloned());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    #[expect(clippy::expect_used, reason = "the provider and the versions are constants of this crate")]
    let versions = versions.expect("aws-lc-rs speaks TLS 1.2 and 1.3");
    versions.with_root_certificates(roots).with_no_client_auth()
}

/// Performs a TLS handshake on a connection, as a client of `host`.
pub(super) async fn handshake<T>(
    connector: &TlsConnector,
    stream: T,
    host: &Host,
) -> Result<TlsStream<T>, OutboundError>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let name = server_name(host)?;
    connector.connect(name, stream).await.map_err(|error| {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        let kind = match cause {
            Some(rustls::Error::InvalidCertificate(_)) => FailureKind::Certificate,
            Some(_) | None => FailureKind::Tls,
        };
        OutboundError::new(kind, error)
    })
}

/// The name in the certificate: without the trailing dot of an absolute name.
fn server_name(host: &Host) -> Result<ServerName<'static>, OutboundError> {
    match host {
        Host::Address(address) => Ok(ServerName::IpAddress((*address).into())),
        Host::Name(name) => {
            let name = DnsName::try_from(name.strip_suffix('.').unwrap_or(name).to_owned());
            name.map(ServerName::DnsName).map_err(|error| OutboundError::new(FailureKind::RefusedUrl, error))
        }
    }
}
