//! Generated secrets: created once and kept in the data directory, each in a file that only this account may read.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};

use crate::stop::Stop;

/// 256 bits: cannot be guessed, and serves as an AES-256 key.
const SECRET_BYTES: usize = 32;

/// Name of the kept secret that is the operator's credential.
pub(crate) const OPERATOR: &str = "operator";

/// The folder of generated secrets.
#[derive(Clone, Debug)]
pub(crate) struct Secrets(PathBuf);

impl Secrets {
    /// The secrets of one data directory.
    pub(crate) fn in_dir(data_dir: &Path) -> Self {
        Self(data_dir.join("secrets"))
    }

    /// Returns the secret `name`, and creates it if it is missing.
    pub(crate) fn obtain(&self, name: &str) -> Result<String, Stop> {
        match self.find(name)? {
            Some(secret) => Ok(secret),
            None => self.make(name),
        }
    }

    /// Returns the secret `name`, if it exists.
    pub(crate) fn find(&self, name: &str) -> Result<Option<String>, Stop> {
        let path = self.0.join(name);
        match fs::read_to_string(&path) {
            Ok(text) if !text.trim().is_empty() => Ok(Some(text.trim().to_owned())),
            Ok(_) => Err(Stop::Unfit(format!("{} is empty: restore it", path.display()))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Stop::Unfit(format!("{}: {error}", path.display()))),
        }
    }

    /// Creates a secret. A temporary file is written first, so that a secret is complete or absent.
    fn make(&self, name: &str) -> Result<String, Stop> {
        let secret = random()?;
        write_private(&self.0.join(name), &secret)?;
        Ok(secret)
    }
}

/// Generates a secret.
pub(crate) fn random() -> Result<String, Stop> {
    let mut bytes = [0; SECRET_BYTES];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Stop::Unfit("the system's random source failed".to_owned()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Writes a file that only this account may read, completely or not at all.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), Stop> {
    let unfinished = path.with_extension("new");
    let write = || {
        let options =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished);
        options.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))?;
        fs::rename(&unfinished, path)
    };
    write().map_err(|error| Stop::Unfit(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use service::sealed::SealingKeys;

    use super::*;

    #[test]
    fn a_made_secret_is_kept_for_us_alone_and_seals() {
        let name = format!("platform-secrets-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(folder.join("secrets")).expect("a folder");
        let secrets = Secrets::in_dir(&folder);
        let first = secrets.obtain("sealing-keys").expect("made");
        assert_eq!(secrets.obtain("sealing-keys").expect("found"), first, "made once");
        let mode = fs::metadata(folder.join("secrets/sealing-keys")).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let keys = SealingKeys::parse(&first).expect("a key");
        let sealed = keys.seal(b"secret", &["company-1"]).expect("sealed");
        assert_eq!(keys.open(&sealed, &["company-1"]).expect("opened").expose(), b"secret");
        fs::remove_dir_all(folder).expect("removed");
    }
}
