//! Development certificates: a private CA and a leaf for this machine, created once and used while they are valid.
//! A real certificate (`PLATFORM_TLS_CERT`, `PLATFORM_TLS_KEY`) replaces them.

use std::fs;
use std::path::{Path, PathBuf};

use contract::{Clock, Settings};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

use crate::data_dir::DataDir;
use crate::secrets::write_private;
use crate::stop::Stop;

/// Browsers refuse leaf certificates with a longer lifetime.
const LEAF_LIFETIME: Duration = Duration::days(397);
/// Long, so that people install the CA only once.
const CA_LIFETIME: Duration = Duration::days(3_650);
/// A start replaces a leaf that expires sooner, because development machines restart rarely.
const LEAF_MARGIN: Duration = Duration::days(30);
/// Allows for client clocks that are behind.
const BACKDATE: Duration = Duration::days(1);

/// The certificate files that the gateway reads.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    /// `certs/edge.pem`: the leaf, then the CA.
    pub(crate) chain: PathBuf,
    /// `certs/edge.key`.
    pub(crate) key: PathBuf,
}

/// Names and validity of the leaf, stored beside it so that the next start need not parse it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Leaf {
    names: Vec<String>,
    /// Unix seconds. In the future if the leaf was issued while the clock was wrong.
    #[serde(default)]
    not_before: i64,
    not_after: i64,
}

/// Adds the development certificates of a data directory to the settings.
pub(crate) fn with_certificates(
    settings: Settings,
    data_dir: &DataDir,
    domain: &str,
) -> Result<Settings, Stop> {
    let made = obtain(&data_dir.path, domain, &Clock::system())?;
    Ok(settings
        .with("PLATFORM_TLS_CERT", made.chain.to_string_lossy())
        .with("PLATFORM_TLS_KEY", made.key.to_string_lossy()))
}

/// Returns the certificate files of a data directory for `localhost` and `domain` (host or host:port), and creates them
/// if needed.
pub(crate) fn obtain(data_dir: &Path, domain: &str, clock: &Clock) -> Result<Certificates, Stop> {
    let folder = data_dir.join("certs");
    let files = Certificates { chain: folder.join("edge.pem"), key: folder.join("edge.key") };
    let names = names(domain);
    if !is_usable(&folder, &files, &names, clock.now()) {
        let ca = authority(&folder, clock.now())?;
        issue(&folder, &files, &ca, names, clock.now())?;
    }
    Ok(files)
}

/// The file that cannot be used, and why.
#[derive(Debug)]
pub(crate) enum Unusable {
    Chain(String),
    Key(String),
}

/// Checks before anything is served that the files hold a certificate chain and the private key of its leaf.
pub(crate) fn check_files(chain: &Path, key: &Path) -> Result<(), Unusable> {
    let certificates = CertificateDer::pem_file_iter(chain).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = match certificates {
        Ok(found) if !found.is_empty() => found,
        Ok(_) => {
            return Err(Unusable::Chain(format!("{} contains no certificate in PEM form", chain.display())));
        }
        Err(error) => return Err(Unusable::Chain(format!("{} cannot be read: {error}", chain.display()))),
    };
    let unfit =
        |error: &dyn std::fmt::Display, what| Unusable::Key(format!("{} {what}: {error}", key.display()));
    let read = PrivateKeyDer::from_pem_file(key).map_err(|error| unfit(&error, "cannot be read"))?;
    let what = format!("is not the key of {}", chain.display());
    CertifiedKey::from_der(certificates, read, &default_provider())
        .map(drop)
        .map_err(|error| unfit(&error, what.as_str()))
}

fn names(domain: &str) -> Vec<String> {
    let host = domain
        .rsplit_once(':')
        .filter(|(_, port)| port.parse::<u16>().is_ok())
        .map_or(domain, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(ToOwned::to_owned).into();
    if !names.iter().any(|name| name == host) {
        names.push(host.to_owned());
    }
    names
}

fn is_usable(folder: &Path, files: &Certificates, names: &[String], now: OffsetDateTime) -> bool {
    let text = fs::read_to_string(note(folder)).unwrap_or_default();
    let Ok(leaf) = serde_json::from_str::<Leaf>(&text) else { return false };
    let has_begun = leaf.not_before <= now.unix_timestamp();
    let lasts = leaf.not_after > (now + LEAF_MARGIN).unix_timestamp();
    has_begun
        && lasts
        && leaf.names == names
        && check_files(&files.chain, &files.key).is_ok()
        && folder.join("ca.pem").exists()
}

fn note(folder: &Path) -> PathBuf {
    folder.join("edge.json")
}

/// The CA: its certificate as PEM, and the issuer that signs with its key.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority(folder: &Path, now: OffsetDateTime) -> Result<Authority, Stop> {
    let (certificate, key) = (folder.join("ca.pem"), folder.join("ca.key"));
    if !(certificate.exists() && key.exists()) {
        make_authority(&certificate, &key, now)?;
    }
    let pem = fs::read_to_string(&certificate).map_err(|error| unfit(&certificate, &error))?;
    let secret = fs::read_to_string(&key).map_err(|error| unfit(&key, &error))?;
    let pair = KeyPair::from_pem(&secret).map_err(|error| unfit(&key, &error))?;
    let issuer = Issuer::from_ca_cert_pem(&pem, pair).map_err(|error| unfit(&certificate, &error))?;
    Ok(Authority { pem, issuer })
}

fn make_authority(certificate: &Path, key: &Path, now: OffsetDateTime) -> Result<(), Stop> {
    let make = || -> Result<(String, String), rcgen::Error> {
        let pair = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "platform development CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        (params.not_before, params.not_after) = (now - BACKDATE, now + CA_LIFETIME);
        Ok((params.self_signed(&pair)?.pem(), pair.serialize_pem()))
    };
    let (pem, secret) = make().map_err(|error| unfit(certificate, &error))?;
    write_private(key, &secret)?;
    write_private(certificate, &pem)
}

fn issue(
    folder: &Path,
    files: &Certificates,
    ca: &Authority,
    names: Vec<String>,
    now: OffsetDateTime,
) -> Result<(), Stop> {
    let (not_before, not_after) = (now - BACKDATE, now + LEAF_LIFETIME);
    let make = || -> Result<(String, String), rcgen::Error> {
        let pair = KeyPair::generate()?;
        let mut params = CertificateParams::new(names.clone())?;
        params.distinguished_name.push(DnType::CommonName, "platform edge");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = (not_before, not_after);
        Ok((params.signed_by(&pair, &ca.issuer)?.pem(), pair.serialize_pem()))
    };
    let (leaf, secret) = make().map_err(|error| unfit(&files.chain, &error))?;
    write_private(&files.key, &secret)?;
    write_private(&files.chain, &format!("{leaf}{}", ca.pem))?;
    let leaf = Leaf { names, not_before: not_before.unix_timestamp(), not_after: not_after.unix_timestamp() };
    let text = serde_json::to_string(&leaf).map_err(|error| unfit(&note(folder), &error))?;
    write_private(&note(folder), &text)
}

fn unfit(path: &Path, error: &dyn std::fmt::Display) -> Stop {
    Stop::Unfit(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_that_a_wrong_clock_made_is_replaced() {
        let folder = std::env::temp_dir().join(format!("platform-certificates-{}", std::process::id()));
        fs::create_dir_all(folder.join("certs")).expect("a folder");
        let obtain_at = |days: i64| {
            let clock = Clock::standing_at(1_790_000_000 + days * 86_400);
            let files = obtain(&folder, "localhost:8443", &clock).expect("certificates");
            fs::read(files.chain).expect("a chain")
        };
        let ahead = obtain_at(400);
        assert_eq!(obtain_at(401), ahead, "kept while it is good");
        let right = obtain_at(0);
        assert_ne!(right, ahead, "it begins in the future");
        assert_eq!(obtain_at(1), right);
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn the_domain_is_named_once_and_without_its_port() {
        assert_eq!(names("localhost:8443"), ["localhost", "127.0.0.1", "::1"]);
        assert_eq!(names("platform.test:8443"), ["localhost", "127.0.0.1", "::1", "platform.test"]);
        assert_eq!(names("[::1]:8443"), ["localhost", "127.0.0.1", "::1"]);
        assert_eq!(names("platform.test"), ["localhost", "127.0.0.1", "::1", "platform.test"]);
    }
}
