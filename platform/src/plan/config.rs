//! What `up` itself is told, read and checked whole.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use contract::{Reader, Settings, ports};
use edge::ListenAddresses;
use service::config::{DatabaseTls, offset_port};

use crate::catalog;
use crate::certificates::Unusable;
use crate::stop::Stop;
use crate::variables::{DATA_DIR, DATABASE_URL, MIN_FREE_DISK, all};
use crate::{certificates, database};

use super::listeners::read_listen_host;

/// More certificates of the edge.
const PAIRS: &str = "PLATFORM_TLS_PAIRS";

/// The configuration of `up`.
#[derive(Clone, Debug)]
pub(crate) struct UpConfig {
    pub(crate) data_dir: PathBuf,
    pub(crate) min_free: u64,
    pub(crate) database_url: Option<String>,
    /// How connections to that one are secured.
    pub(crate) database_tls: DatabaseTls,
    pub(crate) postgres_port: u16,
    pub(crate) edge: ListenAddresses,
    pub(crate) listen: IpAddr,
    /// Host or host:port of the public address.
    pub(crate) domain: String,
    pub(crate) realm: String,
    /// A real identity provider.
    pub(crate) idp_url: Option<String>,
    /// Keys of the modules to run.
    pub(crate) modules: Vec<String>,
    /// No certificate was given.
    pub(crate) makes_certificates: bool,
}

impl UpConfig {
    /// Reads the variables of `up`.
    pub(crate) fn read(settings: &Settings) -> Result<Self, Stop> {
        let mut reader = settings.reader();
        let config = Self::read_with(&mut reader);
        reader.finish(config).map_err(Stop::from)
    }

    /// The same, with the default of each value that is wrong.
    pub(crate) fn read_with(reader: &mut Reader<'_>) -> Self {
        let given = |reader: &Reader<'_>, name| reader.settings().raw(name).map(ToOwned::to_owned);
        let edge = ListenAddresses::read_with(reader);
        let listen = read_listen_host(reader);
        let makes_certificates = makes_certificates(reader);
        let domain = given(reader, "PLATFORM_DOMAIN").map(|domain| domain.to_ascii_lowercase());
        Self {
            data_dir: PathBuf::from(reader.text(&DATA_DIR)),
            min_free: u64::try_from(reader.size(&MIN_FREE_DISK)).unwrap_or(u64::MAX),
            database_url: database_url(reader),
            database_tls: DatabaseTls::read(reader),
            postgres_port: offset_port(reader, ports::POSTGRES),
            domain: domain.unwrap_or_else(|| format!("localhost:{}", edge.tls.port())),
            realm: known_text(reader, "PLATFORM_REALM"),
            idp_url: given(reader, "PLATFORM_IDP_URL").map(|url| url.trim_end_matches('/').to_owned()),
            modules: modules(reader),
            edge,
            listen,
            makes_certificates,
        }
    }
}

/// Whether development certificates are to be made: both files are given or neither. Given pairs must be usable.
pub(crate) fn makes_certificates(reader: &mut Reader<'_>) -> bool {
    for text in known_list(reader, PAIRS) {
        if let Some((chain, key)) = text.split_once(':') {
            refuse_unusable(reader, [PAIRS; 2], Path::new(chain), Path::new(key));
        }
    }
    let pair =
        ["PLATFORM_TLS_CERT", "PLATFORM_TLS_KEY"].map(|name| reader.settings().raw(name).map(PathBuf::from));
    match pair {
        [None, None] => return true,
        [Some(chain), Some(key)] => {
            refuse_unusable(reader, ["PLATFORM_TLS_CERT", "PLATFORM_TLS_KEY"], &chain, &key);
        }
        [None, Some(_)] => reader.refuse("PLATFORM_TLS_CERT", "is required when PLATFORM_TLS_KEY is set"),
        [Some(_), None] => reader.refuse("PLATFORM_TLS_KEY", "is required when PLATFORM_TLS_CERT is set"),
    }
    false
}

/// `names` are those of the chain's and of the key's variable.
fn refuse_unusable(reader: &mut Reader<'_>, names: [&str; 2], chain: &Path, key: &Path) {
    let [of_chain, of_key] = names;
    match certificates::check_files(chain, key) {
        Ok(()) => {}
        Err(Unusable::Chain(message)) => reader.refuse(of_chain, message),
        Err(Unusable::Key(message)) => reader.refuse(of_key, message),
    }
}

fn database_url(reader: &mut Reader<'_>) -> Option<String> {
    let url = reader.optional(&DATABASE_URL)?;
    if let Err(problem) = database::parse_url(&url) {
        let message = problem.to_string();
        let message = message.strip_prefix("PLATFORM_DATABASE_URL: ").unwrap_or(&message).to_owned();
        reader.refuse(DATABASE_URL.name, message);
    }
    Some(url)
}

/// A list that another crate declares; the edge tells of entries that are none.
fn known_list(reader: &mut Reader<'_>, name: &str) -> Vec<String> {
    all().get(name).map(|variable| reader.list(variable)).unwrap_or_default()
}

/// A text that another crate declares.
fn known_text(reader: &mut Reader<'_>, name: &str) -> String {
    all().get(name).map(|variable| reader.text(variable)).unwrap_or_default()
}

/// Under `up` all modules, unless the list says otherwise.
fn modules(reader: &mut Reader<'_>) -> Vec<String> {
    const NAME: &str = "PLATFORM_INSTALLED_MODULES";
    let shipped: Vec<&str> = catalog::bundles().iter().map(|bundle| bundle.key).collect();
    if !reader.settings().is_set(NAME) {
        return shipped.into_iter().map(ToOwned::to_owned).collect();
    }
    let listed = contract::settings::split_list(reader.settings().raw(NAME).unwrap_or_default());
    for key in listed.iter().filter(|key| !shipped.contains(&key.as_str())) {
        reader.refuse(NAME, format!("\"{key}\" is not a module: choose from {}", shipped.join(", ")));
    }
    listed
}
