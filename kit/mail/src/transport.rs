//! Connections to the mail server, reused for several mails.

use std::time::Duration;

use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::{self, PoolConfig};
use lettre::{AsyncSmtpTransport, Tokio1Executor};

use crate::server::Security;
use crate::settings::MailSettings;

/// Closes an idle connection before the server does (five minutes, RFC 5321).
const IDLE: Duration = Duration::from_mins(1);
/// Time limit for one reply of the mail server.
const REPLY: Duration = Duration::from_secs(10);

/// A transport that connects on demand, with at most `max_connections` connections.
///
/// # Errors
/// One of the operator's certificates is invalid.
pub fn transport(
    settings: &MailSettings,
    max_connections: u32,
) -> Result<AsyncSmtpTransport<Tokio1Executor>, smtp::Error> {
    let server = &settings.server;
    let tls = match server.security {
        Security::None => Tls::None,
        Security::StartTls => Tls::Required(tls(settings)?),
        Security::Implicit => Tls::Wrapper(tls(settings)?),
    };
    let pool = PoolConfig::new().max_size(max_connections).idle_timeout(IDLE);
    let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&server.host)
        .port(server.port)
        .tls(tls)
        .timeout(Some(REPLY))
        .hello_name(ClientId::Domain(settings.domain.clone()))
        .pool_config(pool);
    if let Some((user, password)) = &server.login {
        transport = transport.credentials(Credentials::new(user.clone(), password.as_str().to_owned()));
    }
    Ok(transport.build())
}

fn tls(settings: &MailSettings) -> Result<TlsParameters, smtp::Error> {
    let mut tls = TlsParameters::builder(settings.server.host.clone());
    for authority in &settings.authorities {
        tls = tls.add_root_certificate(Certificate::from_der(authority.to_vec())?);
    }
    tls.build_rustls()
}

/// The text with every line end (CR, LF or CRLF) written as CRLF. A bare CR or LF is not allowed in a mail (RFC 5321,
/// section 2.3.8), and some relays take `<CR>.<CR>` for the end of the message.
#[must_use]
pub fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n")
}
