//! TLS settings: the certificates that the gateway may present, and the authorities of client certificates.

use std::path::{Path, PathBuf};

use contract::settings::Kind;
use contract::{Reader, Variable};
use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::config::variables::{TLS_CERT, TLS_KEY};

pub(super) const TLS_PAIRS: Variable = Variable::new(
    "PLATFORM_TLS_PAIRS",
    Kind::List,
    None,
    "Further pairs as chain.pem:key.pem, each for the names in its certificate; any other name gets PLATFORM_TLS_CERT",
);
pub(super) const TLS_CLIENT_CA: Variable = Variable::new(
    "PLATFORM_TLS_CLIENT_CA",
    Kind::Path,
    None,
    "PEM file of the authorities whose client certificates are verified; unset: none is asked for",
);
pub(super) const TLS_CLIENT_REQUIRED: Variable = Variable::new(
    "PLATFORM_TLS_CLIENT_REQUIRED",
    Kind::Flag,
    Some("true"),
    "Whether a client without a certificate is refused where PLATFORM_TLS_CLIENT_CA is set",
);
/// A handshake looks a name up in a map, so this only bounds the files read every second.
const MAX_PAIRS: usize = 256;

/// The TLS files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The first pair is presented to clients that name none of the others' hosts.
    pub(crate) pairs: Vec<Pair>,
    pub(crate) clients: Option<Clients>,
}

/// A certificate chain and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
}

/// How client certificates are verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clients {
    pub(crate) authorities: PathBuf,
    pub(crate) required: bool,
}

impl TlsFiles {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let first = Pair {
            chain: PathBuf::from(reader.required(&TLS_CERT)),
            key: PathBuf::from(reader.required(&TLS_KEY)),
        };
        let mut pairs = vec![first];
        for text in reader.list(&TLS_PAIRS) {
            match text.split_once(':').filter(|(chain, key)| !chain.is_empty() && !key.is_empty()) {
                Some((chain, key)) => pairs.push(Pair { chain: chain.into(), key: key.into() }),
                None => reader.refuse(TLS_PAIRS.name, format!("\"{text}\" is not chain.pem:key.pem")),
            }
        }
        if pairs.len() > MAX_PAIRS {
            reader.refuse(TLS_PAIRS.name, format!("names more than {} pairs", MAX_PAIRS - 1));
        }
        let required = reader.flag(&TLS_CLIENT_REQUIRED);
        let clients = authorities(reader, &TLS_CLIENT_CA);
        let clients = clients.map(|authorities| Clients { authorities, required });
        Self { pairs, clients }
    }
}

/// Returns the PEM file of authorities that a variable names. The file is also read here, so that a configuration check
/// reports an unusable one under the variable's name.
pub(super) fn authorities(reader: &mut Reader<'_>, variable: &Variable) -> Option<PathBuf> {
    let file = PathBuf::from(reader.optional(variable)?);
    if let Err(error) = roots_of(&file) {
        reader.refuse(variable.name, format!("cannot be used: {error}"));
    }
    Some(file)
}

/// Reads the authorities of a PEM file; an error names the file.
pub(crate) fn roots_of(file: &Path) -> Result<RootCertStore, String> {
    let bad = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = std::fs::read(file).map_err(|error| bad(&error))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        roots.add(certificate.map_err(|error| bad(&error))?).map_err(|error| bad(&error))?;
    }
    if roots.is_empty() { Err(bad(&"it holds no certificate")) } else { Ok(roots) }
}
