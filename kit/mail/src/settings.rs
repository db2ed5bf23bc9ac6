//! The variables of the mail server. They are named after the module that first had them; the built-in identity
//! provider reads the same ones.

use contract::settings::Kind;
use contract::{Reader, Variable};
use lettre::message::Mailbox;
use rustls_pki_types::CertificateDer;

use crate::server::SmtpUrl;

/// The mail server's address.
pub const SMTP_URL: Variable = Variable::new(
    "PLATFORM_NOTIFICATION_SMTP_URL",
    Kind::Secret,
    None,
    "Mail server: smtps://user:password@host:465 (TLS from the start) or smtp://user:password@host:587 (STARTTLS, which is required; ?tls=none sends in plain text); absent: e-mail is tried again as if the server were down, and given up like other deliveries",
);
/// Additional authorities for the mail server's certificate.
pub const SMTP_CA: Variable = Variable::new(
    "PLATFORM_NOTIFICATION_SMTP_CA",
    Kind::Path,
    None,
    "PEM file of the authorities that the mail server's certificate is trusted by besides the public ones",
);
/// The sender.
pub const MAIL_FROM: Variable = Variable::new(
    "PLATFORM_NOTIFICATION_MAIL_FROM",
    Kind::Text,
    None,
    "Sender of e-mail, as Platform <no-reply@example.com>; required with PLATFORM_NOTIFICATION_SMTP_URL",
);
/// The variables of this crate.
pub const VARIABLES: &[Variable] = &[SMTP_URL, SMTP_CA, MAIL_FROM];

/// The mail server and the sender.
#[derive(Clone, Debug)]
pub struct MailSettings {
    /// The mail server.
    pub server: SmtpUrl,
    /// Authorities trusted for its certificate besides the public ones.
    pub authorities: Vec<CertificateDer<'static>>,
    /// `From`.
    pub from: Mailbox,
    /// Host of the platform's public address, for `Message-Id` and `EHLO`.
    pub domain: String,
}

/// Reads the settings; `None` if no mail server is configured. The reader collects bad values.
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

/// The domain for `Message-Id`: the host of the public address, without its port.
fn domain(reader: &Reader<'_>) -> String {
    let address = reader.settings().raw("PLATFORM_DOMAIN").unwrap_or_default();
    let host = address.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let host = host.map_or(address, |(host, _)| host);
    let is_name =
        !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    if is_name { host.to_owned() } else { "platform.invalid".to_owned() }
}
