//! The provider's configuration, read once; every invalid value is reported. The provider refuses to run on a public
//! domain unless an operator allows it, and never runs there with the well-known development passwords.

use std::collections::BTreeSet;
use std::fmt;

use contract::settings::{Kind, Problems, split_list};
use contract::{Reader, Settings, Variable, ports};
use mail::MailSettings;
use mail::settings::{MAIL_FROM, SMTP_CA, SMTP_URL};
use service::ServiceConfig;
use service::config::{env_name, offset_port};
use service::layers::{Limits, REQUEST_TIMEOUT};
use service::origins::{self, DOMAIN, EXTRA_ORIGINS, FrontendAccess};
use zeroize::Zeroizing;

use crate::form::MAX_FORM_BYTES;
use crate::users::rules::is_username;

/// The realm; part of the issuer.
pub const REALM: Variable = Variable::new(
    "PLATFORM_REALM",
    Kind::Text,
    Some("platform"),
    "Realm of the identity provider; part of the issuer",
);
const BUILTIN: Variable = Variable::new(
    "PLATFORM_IDP_BUILTIN",
    Kind::Text,
    None,
    "allow: run the built-in identity provider on a public PLATFORM_DOMAIN",
);
/// Users that are created if missing; a well-known password of an existing one is replaced.
pub const DEV_USERS: Variable = Variable::new(
    "PLATFORM_DEV_USERS",
    Kind::Secret,
    Some("admin:admin,alice:alice,bob:bob,carol:carol,dave:dave"),
    "Users of the built-in provider, name:password,…; a start adds those that are missing, and replaces a password that is its user's own name, no other",
);
const SERVICE_CLIENTS: Variable = Variable::new(
    "PLATFORM_SERVICE_CLIENTS",
    Kind::List,
    None,
    "Client ids that get a service account and tokens for the platform",
);
const SERVICE_CLIENT_SECRET: Variable = Variable::new(
    "PLATFORM_SERVICE_CLIENT_SECRET_<ID>",
    Kind::Secret,
    None,
    "Secret of one service client (crm-backend: CRM_BACKEND)",
);
const ADMIN_CLIENT_ID: Variable = Variable::new(
    "PLATFORM_IDP_ADMIN_CLIENT_ID",
    Kind::Text,
    Some("platform-admin"),
    "Client that may use the provider's administration routes",
);
const ADMIN_CLIENT_SECRET: Variable = Variable::new(
    "PLATFORM_IDP_ADMIN_CLIENT_SECRET",
    Kind::Secret,
    None,
    "Secret of the administration client",
);
const KEY_MAX_AGE: Variable = Variable::new(
    "PLATFORM_IDP_KEY_MAX_AGE",
    Kind::Duration,
    Some("2160h"),
    "Age at which the built-in provider replaces its signing key; at least 1h",
);

/// The variables that the provider reads besides those of every service.
pub const VARIABLES: &[Variable] = &[
    REALM,
    DOMAIN,
    EXTRA_ORIGINS,
    BUILTIN,
    DEV_USERS,
    SERVICE_CLIENTS,
    SERVICE_CLIENT_SECRET,
    ADMIN_CLIENT_ID,
    ADMIN_CLIENT_SECRET,
    KEY_MAX_AGE,
    SMTP_URL,
    SMTP_CA,
    MAIL_FROM,
];

/// The public client of all front ends.
pub const FRONTEND_CLIENT: &str = "platform-frontend";

/// Limits of the lists; the built-in provider is for small installations.
const MAX_DEV_USERS: usize = 1_000;
const MAX_SERVICE_CLIENTS: usize = 200;
/// A client secret shorter than this can be guessed over the token route.
const SECRET_CHARACTERS: std::ops::RangeInclusive<usize> = 8..=512;
/// Longest password that is hashed.
pub(crate) const MAX_PASSWORD_BYTES: usize = 256;

/// A text that is wiped from memory on drop and never printed.
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Copies the text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A user to create if missing.
#[derive(Clone, Debug)]
pub struct DevUser {
    /// Lower case.
    pub username: String,
    /// The password typed at the login.
    pub password: Secret,
}

/// A client with a secret and a service account.
#[derive(Clone, Debug)]
pub struct ConfidentialClient {
    /// `client_id`.
    pub client_id: String,
    /// Its secret.
    pub secret: Secret,
}

/// The configuration of the provider.
#[derive(Clone, Debug)]
pub struct Config {
    /// The configuration that every service reads.
    pub service: ServiceConfig,
    /// Realm name.
    pub realm: String,
    /// Public origin.
    pub base_url: String,
    /// Audience of tokens for the platform.
    pub audience: String,
    /// Users to create if missing.
    pub users: Vec<DevUser>,
    /// Whether the platform's domain is public, where no user may have a well-known password.
    pub is_public: bool,
    /// Redirect URIs and origins of `platform-frontend`.
    pub frontend: FrontendAccess,
    /// Backends of apps.
    pub service_clients: Vec<ConfidentialClient>,
    /// The client that reads account state.
    pub admin_client: ConfidentialClient,
    /// Age at which signing keys are replaced.
    pub key_max_age: time::Duration,
    /// The mail server; without one, no e-mails are sent.
    pub mail: Option<MailSettings>,
}

impl Config {
    /// Reads the variables.
    ///
    /// # Errors
    /// Lists every invalid value.
    pub fn read(settings: &Settings) -> Result<Self, Problems> {
        let settings = with_own_keys(settings);
        let mut reader = settings.reader();
        let limits = Limits { body: MAX_FORM_BYTES, request: REQUEST_TIMEOUT };
        let service = ServiceConfig::read(&mut reader, "idp", ports::IDP, limits);
        let base_url = origins::base_url(&mut reader);
        refuse_public_domain(&mut reader, &base_url);
        let extra = origins::extra_origins(&mut reader);
        let admin_client = read_admin_client(&mut reader);
        let config = Self {
            service,
            realm: read_realm(&mut reader),
            audience: reader.text(&bearer::AUDIENCE),
            users: read_users(&mut reader),
            is_public: origins::is_public(&base_url),
            frontend: FrontendAccess::new(&base_url, &extra),
            service_clients: read_service_clients(&mut reader, &admin_client.client_id),
            admin_client,
            key_max_age: read_key_max_age(&mut reader),
            mail: mail::settings::read(&mut reader),
            base_url,
        };
        reader.finish(config)
    }

    /// `iss` of every token.
    #[must_use]
    pub fn issuer(&self) -> String {
        issuer(&self.base_url, &self.realm)
    }
}

fn issuer(base_url: &str, realm: &str) -> String {
    format!("{base_url}/realms/{realm}")
}

/// Points the service framework's bearer verification to the provider's own keys, whatever the other services use.
fn with_own_keys(settings: &Settings) -> Settings {
    let mut reader = settings.reader();
    let (base_url, realm) = (origins::base_url(&mut reader), reader.text(&REALM));
    let certs = format!(
        "http://127.0.0.1:{}/realms/{realm}/protocol/openid-connect/certs",
        offset_port(&mut reader, ports::IDP)
    );
    settings.clone().with("IDP_ISSUER_URL", issuer(&base_url, &realm)).with("IDP_JWKS_URL", certs)
}

fn read_realm(reader: &mut Reader<'_>) -> String {
    let fits = |text: &str| (is_key(text, 64) && text != "master").then(|| text.to_owned());
    let right = "a realm name: lower-case letters, digits, - and _, not master";
    reader.parsed(&REALM, fits, right).unwrap_or_default()
}

fn refuse_public_domain(reader: &mut Reader<'_>, base_url: &str) {
    let allowed = reader.parsed(&BUILTIN, |text| (text == "allow").then_some(()), "allow").is_some();
    if !origins::is_public(base_url) {
        return;
    }
    if !allowed {
        let message = "the built-in identity provider is not meant for a public domain; \
                       set PLATFORM_IDP_URL to a Keycloak, or PLATFORM_IDP_BUILTIN=allow";
        reader.refuse(DOMAIN.name, message);
    }
    if reader.settings().raw(DEV_USERS.name).is_none() {
        reader.refuse(DEV_USERS.name, "must be set on a public domain: its default passwords are well known");
        return;
    }
    let text = reader.text(&DEV_USERS);
    let own_names = split_list(&text).into_iter().filter_map(|entry| {
        let (name, password) = entry.split_once(':')?;
        name.eq_ignore_ascii_case(password).then(|| name.to_lowercase())
    });
    let own_names: Vec<String> = own_names.collect();
    if !own_names.is_empty() {
        let message = format!(
            "on a public domain no password may be the user's own name, which is well known: {}",
            own_names.join(", ")
        );
        reader.refuse(DEV_USERS.name, message);
    }
}

/// Names of the users that the provider creates if none are configured.
pub(crate) fn default_users() -> impl Iterator<Item = String> {
    let entries = split_list(DEV_USERS.default.unwrap_or_default());
    entries.into_iter().filter_map(|entry| entry.split_once(':').map(|(name, _)| name.to_owned()))
}

fn read_users(reader: &mut Reader<'_>) -> Vec<DevUser> {
    let text = reader.text(&DEV_USERS);
    let mut users = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, entry) in split_list(&text).into_iter().enumerate() {
        match parse_user(&entry) {
            Ok(user) if seen.insert(user.username.clone()) => users.push(user),
            Ok(user) => {
                reader.refuse(DEV_USERS.name, format!("\"{}\" is named twice", user.username));
            }
            // The entry may be a password, so the message gives its position instead.
            Err(problem) => reader.refuse(DEV_USERS.name, format!("entry {}: {problem}", index + 1)),
        }
    }
    if users.len() > MAX_DEV_USERS {
        reader.refuse(DEV_USERS.name, format!("at most {MAX_DEV_USERS} users"));
    }
    users
}

fn parse_user(entry: &str) -> Result<DevUser, String> {
    let (name, password) = entry.split_once(':').ok_or("must be name:password")?;
    let username = name.to_lowercase();
    if !is_username(&username) {
        return Err("the name must be letters, digits, '.', '_' or '-', at most 64 characters".to_owned());
    }
    if password.is_empty() || password.len() > MAX_PASSWORD_BYTES {
        return Err(format!("the password must have 1 to {MAX_PASSWORD_BYTES} bytes"));
    }
    Ok(DevUser { username, password: Secret::new(password) })
}

fn read_service_clients(reader: &mut Reader<'_>, admin_client: &str) -> Vec<ConfidentialClient> {
    let ids: BTreeSet<String> = reader.list(&SERVICE_CLIENTS).into_iter().collect();
    if ids.len() > MAX_SERVICE_CLIENTS {
        reader.refuse(SERVICE_CLIENTS.name, format!("at most {MAX_SERVICE_CLIENTS} clients"));
    }
    let mut clients = Vec::new();
    for client_id in ids {
        if client_id == FRONTEND_CLIENT || client_id == admin_client || !is_service_client(&client_id) {
            let right =
                "a client id of 2 to 64 lower-case letters, digits, - and _, and none of the platform's own";
            reader.refuse(SERVICE_CLIENTS.name, format!("\"{client_id}\" is not {right}"));
            continue;
        }
        let variable = format!("PLATFORM_SERVICE_CLIENT_SECRET_{}", env_name(&client_id));
        let secret = read_secret(reader, &variable);
        clients.push(ConfidentialClient { client_id, secret });
    }
    clients
}

fn read_admin_client(reader: &mut Reader<'_>) -> ConfidentialClient {
    let fits = |text: &str| (is_key(text, 64) && text != FRONTEND_CLIENT).then(|| text.to_owned());
    let right = "a client id of lower-case letters, digits, - and _, not platform-frontend";
    let client_id = reader.parsed(&ADMIN_CLIENT_ID, fits, right).unwrap_or_default();
    ConfidentialClient { client_id, secret: read_secret(reader, ADMIN_CLIENT_SECRET.name) }
}

/// Reads the age; replaced keys are kept for hours, so a shorter age would accumulate them.
fn read_key_max_age(reader: &mut Reader<'_>) -> time::Duration {
    let age = reader.duration(&KEY_MAX_AGE);
    if age < std::time::Duration::from_hours(1) {
        reader.refuse(KEY_MAX_AGE.name, "must be at least 1h");
    }
    time::Duration::try_from(age).unwrap_or(time::Duration::MAX)
}

fn read_secret(reader: &mut Reader<'_>, variable: &str) -> Secret {
    let text = reader.settings().raw(variable).unwrap_or_default().to_owned();
    let secret = Secret::new(&text);
    if !SECRET_CHARACTERS.contains(&text.chars().count()) {
        let (min, max) = (SECRET_CHARACTERS.start(), SECRET_CHARACTERS.end());
        reader.refuse(variable, format!("must be set to a secret of {min} to {max} characters"));
    }
    secret
}

/// The form of `serviceClientId` in an app's manifest (gateway document, "Limits").
fn is_service_client(text: &str) -> bool {
    text.len() >= 2 && text.starts_with(|first: char| first.is_ascii_lowercase()) && is_key(text, 64)
}

fn is_key(text: &str, max: usize) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    (1..=max).contains(&text.len()) && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::default()
            .with("PLATFORM_IDP_DB_PORT", "5432")
            .with("PLATFORM_IDP_DB_NAME", "platform")
            .with("PLATFORM_IDP_DB_PASSWORD", "x")
            .with("PLATFORM_IDP_ADMIN_CLIENT_SECRET", "administration")
    }

    fn problems(settings: &Settings) -> String {
        Config::read(settings).map_or_else(|problems| problems.to_string(), |_| String::new())
    }

    #[test]
    fn the_defaults_are_five_users_and_two_clients() {
        let config = Config::read(&settings()).expect("good");
        assert_eq!(config.issuer(), "https://localhost:8443/realms/platform");
        let names: Vec<_> = config.users.iter().map(|user| user.username.as_str()).collect();
        assert_eq!(names, ["admin", "alice", "bob", "carol", "dave"]);
        assert_eq!(config.admin_client.client_id, "platform-admin");
        assert!(config.service_clients.is_empty());
        assert!(!format!("{config:?}").contains("administration"), "a secret is never printed");
    }

    #[test]
    fn every_bad_value_names_its_variable_and_passwords_are_not_repeated() {
        for (name, bad) in [
            ("PLATFORM_DEV_USERS", "hunter2"),
            ("PLATFORM_DEV_USERS", "a b:hunter2"),
            ("PLATFORM_DEV_USERS", "a:"),
            ("PLATFORM_DEV_USERS", "a:hunter2,A:hunter2"),
            ("PLATFORM_REALM", "master"),
            ("PLATFORM_REALM", "a/b"),
            ("PLATFORM_SERVICE_CLIENTS", "platform-frontend"),
            ("PLATFORM_SERVICE_CLIENTS", "platform-admin"),
            ("PLATFORM_SERVICE_CLIENTS", "CRM"),
            ("PLATFORM_IDP_ADMIN_CLIENT_SECRET", "short"),
            ("PLATFORM_IDP_BUILTIN", "yes"),
        ] {
            let found = problems(&settings().with(name, bad));
            assert!(found.starts_with(&format!("{name}: ")), "{name}={bad}: {found}");
            assert!(!found.contains("hunter2") && !found.contains("short"), "{found}");
        }
    }

    #[test]
    fn a_service_client_needs_its_secret_by_name() {
        let listed = settings().with("PLATFORM_SERVICE_CLIENTS", "crm-backend");
        assert!(problems(&listed).starts_with("PLATFORM_SERVICE_CLIENT_SECRET_CRM_BACKEND: must be set"));
        let config = Config::read(&listed.with("PLATFORM_SERVICE_CLIENT_SECRET_CRM_BACKEND", "long enough"));
        assert_eq!(config.expect("good").service_clients[0].client_id, "crm-backend");
    }

    #[test]
    fn a_public_domain_is_refused_unless_allowed_and_never_with_the_well_known_passwords() {
        let public = settings().with("PLATFORM_DOMAIN", "example.com");
        let found = problems(&public);
        assert!(found.contains("PLATFORM_DOMAIN: the built-in"), "{found}");
        let allowed = public.with("PLATFORM_IDP_BUILTIN", "allow");
        assert!(problems(&allowed).starts_with("PLATFORM_DEV_USERS: must be set on a public domain"));
        assert_eq!(problems(&allowed.with("PLATFORM_DEV_USERS", "root:of all evil")), "");
    }
}
