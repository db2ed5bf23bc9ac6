//! Finds PostgreSQL's programs on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use contract::settings::Kind;
use contract::{Settings, Variable};

use super::Error;

/// The folder to search first.
pub const PG_BIN: Variable = Variable::new(
    "PLATFORM_PG_BIN",
    Kind::Path,
    None,
    "Folder of PostgreSQL's programs for the embedded database; absent: PATH and the usual places are searched, then they are fetched",
);
/// Oldest PostgreSQL version that the migrations support.
const OLDEST: u32 = 14;

/// One installation of PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    /// Folder of the programs.
    pub folder: PathBuf,
    /// Major version.
    pub major: u32,
}

impl Binaries {
    /// The first suitable installation: any supported version for a new cluster, the same major version for the cluster
    /// in `cluster`.
    ///
    /// # Errors
    /// None found, or none that can run this cluster.
    pub fn find(settings: &Settings, cluster: Option<&Path>) -> Result<Self, Error> {
        let folders = candidates(settings);
        let needed = cluster.map(cluster_major).transpose()?;
        let mut others = Vec::new();
        for binaries in folders.iter().filter_map(|folder| Self::at(folder)) {
            if needed.is_none_or(|major| major == binaries.major) {
                return Ok(binaries);
            }
            others.push(binaries);
        }
        match (cluster, needed) {
            (Some(folder), Some(cluster)) if !others.is_empty() => {
                Err(Error::WrongVersion { folder: folder.to_owned(), cluster, found: majors(&others) })
            }
            _ => Err(Error::NotFound { searched: listed(&folders), needed }),
        }
    }

    /// Path of one program.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn at(folder: &Path) -> Option<Self> {
        // The real folder: a symlink in /usr/local/bin would hide the share folder that initdb needs.
        let server = folder.join("postgres").canonicalize().ok()?;
        let folder = server.parent().filter(|folder| folder.join("initdb").is_file())?;
        let output = Command::new(&server).arg("--version").output().ok()?;
        let major = major_of(&String::from_utf8(output.stdout).ok()?)?;
        (major >= OLDEST).then(|| Self { folder: folder.to_owned(), major })
    }
}

/// Only `PLATFORM_PG_BIN` when it is set: other installations must not hide a wrong value.
fn candidates(settings: &Settings) -> Vec<PathBuf> {
    if let Some(folder) = settings.raw(PG_BIN.name) {
        return vec![PathBuf::from(folder)];
    }
    let mut folders: Vec<PathBuf> = std::env::split_paths(settings.raw("PATH").unwrap_or_default()).collect();
    for (parent, below) in [
        ("/usr/lib/postgresql", "bin"),
        ("/opt/homebrew/opt", "bin"),
        ("/usr/local/opt", "bin"),
        ("/Applications/Postgres.app/Contents/Versions", "bin"),
    ] {
        folders.extend(versions(Path::new(parent)).into_iter().map(|folder| folder.join(below)));
    }
    folders.retain(|folder| folder.join("postgres").exists() || folder.starts_with("/usr/lib/postgresql"));
    folders.dedup();
    if folders.is_empty() {
        folders = vec![PathBuf::from("PATH"), PathBuf::from("/usr/lib/postgresql/*/bin")];
    }
    folders
}

/// The folders of installed versions, newest first.
fn versions(parent: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let digits = name.to_str()?.trim_start_matches("postgresql@");
            Some((digits.parse().ok()?, entry.path()))
        })
        .collect();
    found.sort_unstable_by(|left, right| right.cmp(left));
    found.into_iter().map(|(_, folder)| folder).collect()
}

fn cluster_major(cluster: &Path) -> Result<u32, Error> {
    let path = cluster.join("PG_VERSION");
    let text = std::fs::read_to_string(&path).map_err(Error::file(&path))?;
    let unreadable = || std::io::Error::other(format!("\"{}\" is not a version of PostgreSQL", text.trim()));
    text.trim().parse().map_err(|_| Error::File { path, source: unreadable() })
}

/// `postgres (PostgreSQL) 15.18 (Debian …)`, `postgres (PostgreSQL) 18beta1`.
fn major_of(version: &str) -> Option<u32> {
    let number = version.split("(PostgreSQL)").nth(1)?.trim_start();
    let digits = number.bytes().take_while(u8::is_ascii_digit).count();
    number.get(..digits)?.parse().ok()
}

fn listed(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn majors(found: &[Binaries]) -> String {
    let mut majors: Vec<u32> = found.iter().map(|binaries| binaries.major).collect();
    majors.sort_unstable();
    majors.dedup();
    majors.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_the_server_prints_them() {
        assert_eq!(major_of("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(major_of("postgres (PostgreSQL) 18beta1"), Some(18));
        assert_eq!(major_of("mysqld 8"), None);
    }

    #[test]
    fn a_wrong_folder_is_not_hidden_by_what_else_is_installed() {
        let settings =
            Settings::default().with("PLATFORM_PG_BIN", "/nonexistent").with("PATH", "/usr/local/bin");
        let error = Binaries::find(&settings, None).expect_err("no programs there").to_string();
        assert!(error.contains("/nonexistent") && error.contains("PLATFORM_PG_BIN"), "{error}");
    }
}
