//! The variables of the mail server. They bear the name of the module that had them first; the built-in identity provider
//! reads the same ones.

use contract::settings::Kind;
use contract::{Reader, Variable};
use lettre::message::Mailbox;
use rustls_pki_types::CertificateDer;

use crate::server::SmtpUrl;

/// Where it is.
pub const SMTP_URL: Variable = Variable::new(
    "PLATFORM_NOTIFICATION_SMTP_URL",
    Kind::Secret,
    None,
    "Mail server: smtps://user:password@host:465 (TLS from the start) or smtp://user:password@host:587 (STARTTLS, which is required; ?tls=none sends in plain text); absent: e-mail waits",
);
/// Whose certificates it may have.
pub const SMTP_CA: Variable = Variable::new(
    "PLATFORM_NOTIFICATION_SMTP_CA",
    Kind::Path,
    None,
    "PEM file of the authorities that the mail server's certificate is trusted by besides the public ones",
);
/// Who sends.
pub const MAIL_FROM: Variable = Variable::new(
    "PLATFORM_NOTIFICATION_MAIL_FROM",
    Kind::Text,
    None,
    "Sender of e-mail, as Platform <no-reply@example.com>; required with PLATFORM_NOTIFICATION_SMTP_URL",
);
/// The variables that are read here.
pub const VARIABLES: &[Variable] = &[SMTP_URL, SMTP_CA, MAIL_FROM];

/// The mail server and the sender.
#[derive(Clone, Debug)]
pub struct MailSettings {
    /// Where it is.
    pub server: SmtpUrl,
    /// Whom it is trusted by besides the public authorities.
    pub authorities: Vec<CertificateDer<'static>>,
    /// `From`.
    pub from: Mailbox,
    /// Host of the platform's public address: it stands in `Message-Id` and in `EHLO`.
    pub domain: String,
}

/// Reads them; `None` where no mail server is configured. A bad value is told to the reader.
pub fn read(reader: &mut Reader<'_>) -> Option<MailSettings> {
    let from = reader.parsed(
        &MAIL_FROM,
        |text| text.parse::<Mailbox>().ok(),
        "an address such as Platform <no-reply@example.com>",
    );
    let authorities = service::outbound::authorities(reader, &SMTP_CA);
    let url = reader.optional(&SMTP_URL)?;
    let server = SmtpUrl::parse(&url);
    if let Err(problem) = &server {
        reader.refuse(SMTP_URL.name, *problem);
    }
    if reader.settings().raw(MAIL_FROM.name).is_none() {
        reader.refuse(MAIL_FROM.name, "is required with PLATFORM_NOTIFICATION_SMTP_URL");
    }
    let domain = domain(reader);
    Some(MailSettings { server: server.ok()?, authorities, from: from?, domain })
}

/// A name that stands in `Message-Id`: of the public address, without its port.
fn domain(reader: &Reader<'_>) -> String {
    let address = reader.settings().raw("PLATFORM_DOMAIN").unwrap_or_default();
    let host = address.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let host = host.map_or(address, |(host, _)| host);
    let is_name =
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    if is_name { host.to_owned() } else { "platform.invalid".to_owned() }
}
