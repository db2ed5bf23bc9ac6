//! The cache of fetched programs. The account that runs the database must be able to read it; root's own cache folder
//! is closed to that account, so root then uses the machine's.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use contract::Settings;

use crate::{Account, Error};

/// Root's cache folder when the database's account cannot traverse root's home.
const OF_THE_MACHINE: &str = "/var/cache/platform";
/// Our subfolder in a shared cache folder.
const OURS: &str = "platform";

/// The folder for fetched programs.
///
/// # Errors
/// The account has no home.
pub fn cache_folder(settings: &Settings, account: Account) -> Result<PathBuf, Error> {
    let own = of_the_user(settings).map(|folder| folder.join(OURS));
    match (own, account) {
        (Some(folder), account) if account.reaches(existing(&folder)) => Ok(folder),
        (_, Account::Other { .. }) => Ok(PathBuf::from(OF_THE_MACHINE)),
        (Some(folder), Account::Ours) => Ok(folder),
        (None, Account::Ours) => Err(Error::NoCache),
    }
}

/// Makes the folder, world-readable: its content is not secret.
pub(super) fn make(folder: &Path) -> Result<(), Error> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().mode(0o755).recursive(true).create(folder).map_err(Error::file(folder))?;
    fs::set_permissions(folder, Permissions::from_mode(0o755)).map_err(Error::file(folder))
}

/// `XDG_CACHE_HOME`, else the operating system's default.
fn of_the_user(settings: &Settings) -> Option<PathBuf> {
    let absolute = |name| settings.raw(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let below_home = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
    absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(below_home)))
}

/// The folder itself, or its nearest existing ancestor.
fn existing(folder: &Path) -> &Path {
    folder.ancestors().find(|step| step.is_dir()).unwrap_or(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(pairs: &[(&str, &str)], account: Account) -> Result<PathBuf, Error> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        cache_folder(&Settings::from_pairs(pairs), account)
    }

    #[test]
    fn the_users_cache_folder_is_where_the_user_says() {
        let ours = |pairs: &[_]| folder(pairs, Account::Ours).expect("a folder");
        assert_eq!(ours(&[("XDG_CACHE_HOME", "/x/c"), ("HOME", "/h")]), Path::new("/x/c/platform"));
        let at_home =
            if cfg!(target_os = "macos") { "/h/Library/Caches/platform" } else { "/h/.cache/platform" };
        assert_eq!(ours(&[("HOME", "/h")]), Path::new(at_home));
        assert_eq!(ours(&[("XDG_CACHE_HOME", "relative"), ("HOME", "/h")]), Path::new(at_home));
        let homeless = folder(&[], Account::Ours).expect_err("no home").to_string();
        assert!(homeless.contains("XDG_CACHE_HOME"), "{homeless}");
    }

    #[test]
    fn for_another_account_it_is_one_that_the_account_reaches() {
        // A user other than the one that runs the tests.
        let (uid, gid) = (rustix::process::geteuid().as_raw() + 1, rustix::process::getegid().as_raw() + 1);
        let other = Account::Other { uid, gid };
        let closed = std::env::temp_dir().join(format!("platform-cache-test-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&closed).expect("a folder");
        let found = folder(&[("HOME", closed.to_str().expect("a path"))], other);
        fs::remove_dir(&closed).expect("it is empty");
        assert_eq!(found.expect("a folder"), Path::new(OF_THE_MACHINE));
        assert_eq!(folder(&[("XDG_CACHE_HOME", "/")], other).expect("a folder"), Path::new("/platform"));
        assert_eq!(folder(&[], other).expect("a folder"), Path::new(OF_THE_MACHINE));
    }
}
