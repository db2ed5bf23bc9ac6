//! The account that the database runs as: the process's own, or an unprivileged one when the process runs as root.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;

use tokio::process::Command;

use super::Error;

/// Accounts that may run the database for root, in order of preference.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

/// The account that runs the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// This process's own account, which is not root.
    Ours,
    /// Another account, because this process runs as root.
    Other {
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
    },
}

impl Account {
    /// The account for this process.
    ///
    /// # Errors
    /// The process runs as root and no candidate exists.
    pub fn for_database() -> Result<Self, Error> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::Ours);
        }
        let path = Path::new("/etc/passwd");
        let accounts = std::fs::read_to_string(path).map_err(Error::file(path))?;
        CANDIDATES.iter().find_map(|name| find(&accounts, name)).ok_or(Error::NoAccount)
    }

    /// Changes the owner of a file or folder to the account.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn give(self, path: &Path) -> Result<(), Error> {
        match self {
            Self::Ours => Ok(()),
            Self::Other { uid, gid } => {
                std::os::unix::fs::chown(path, Some(uid), Some(gid)).map_err(Error::file(path))
            }
        }
    }

    /// A command that runs as the account, in its own process group and without this process's environment: a
    /// terminal's Ctrl-C must not reach the database, and a stray `PG…` variable must not affect it.
    #[must_use]
    pub fn command(self, program: &Path) -> Command {
        let mut command = std::process::Command::new(program);
        command.env_clear().env("LC_ALL", "C").env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.current_dir("/").process_group(0);
        if let Self::Other { uid, gid } = self {
            command.uid(uid).gid(gid);
        }
        Command::from(command)
    }

    /// Whether the account may traverse every folder down to `folder`, which must exist.
    #[must_use]
    pub fn reaches(self, folder: &Path) -> bool {
        folder.ancestors().all(|step| step.metadata().is_ok_and(|found| self.passes(&found)))
    }

    fn passes(self, folder: &Metadata) -> bool {
        let Self::Other { uid, gid } = self else { return true };
        let execute = if folder.uid() == uid {
            0o100
        } else if folder.gid() == gid {
            0o010
        } else {
            0o001
        };
        folder.mode() & execute != 0
    }
}

fn find(accounts: &str, name: &str) -> Option<Account> {
    let mut fields = accounts.lines().map(|line| line.split(':')).find_map(|mut fields| {
        let found = fields.next() == Some(name);
        found.then_some(fields)
    })?;
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    (uid != 0).then_some(Account::Other { uid, gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_from_the_table() {
        let table =
            "root:x:0:0:root:/root:/bin/sh\npostgresx:x:7:7::/:\npostgres:x:101:104:,,,:/var/lib:/bin/sh\n";
        assert_eq!(find(table, "postgres"), Some(Account::Other { uid: 101, gid: 104 }));
        assert_eq!(find(table, "nobody"), None);
        assert_eq!(find("postgres:x:0:0::/:", "postgres"), None, "an account that is root does not help");
        assert_eq!(find("postgres:x", "postgres"), None);
    }
}
