//! Where a cluster's files are: in `<parent>/pg`, or, when the database's account cannot reach that, in a fresh folder
//! elsewhere that `<parent>/pg` links to. A cluster appears under its name only when it is complete.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::{Account, EmbeddedError};

/// Name of the finished cluster in its parent.
const NAME: &str = "pg";
/// Name while it is made.
const UNFINISHED: &str = "pg.new";

/// The place of one cluster.
#[derive(Clone, Debug)]
pub struct Place {
    /// The folder that belongs to whoever starts the cluster.
    pub parent: PathBuf,
    /// Where the files go when the account cannot reach `parent`.
    pub elsewhere: PathBuf,
}

impl Place {
    /// The finished cluster, if there is one.
    ///
    /// # Errors
    /// A link that leads nowhere.
    pub fn finished(&self) -> Result<Option<PathBuf>, EmbeddedError> {
        let link = self.parent.join(NAME);
        match link.canonicalize() {
            Ok(folder) => Ok(Some(folder)),
            Err(error) if error.kind() == ErrorKind::NotFound => match fs::read_link(&link) {
                Ok(target) => Err(EmbeddedError::LostData { link, target }),
                Err(_) => Ok(None),
            },
            Err(error) => Err(EmbeddedError::File { path: link, source: error }),
        }
    }

    /// A fresh folder for a cluster that is about to be made; what an interrupted attempt left is not used again.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn begin(&self, account: Account) -> Result<PathBuf, EmbeddedError> {
        let unfinished = self.parent.join(UNFINISHED);
        remove(&unfinished)?;
        if account.reaches(&self.parent) {
            make_folder(&unfinished, account)?;
            return Ok(unfinished);
        }
        let folder = self.elsewhere.join(format!("pg-{}", Uuid::new_v4().simple()));
        open_folder(&self.elsewhere)?;
        make_folder(&folder, account)?;
        let origin = origin_file(&folder);
        fs::write(&origin, self.parent.as_os_str().as_encoded_bytes())
            .map_err(EmbeddedError::file(&origin))?;
        symlink(&folder, &unfinished).map_err(EmbeddedError::file(&unfinished))?;
        Ok(folder)
    }

    /// Gives the complete cluster its name.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn finish(&self) -> Result<PathBuf, EmbeddedError> {
        let (from, to) = (self.parent.join(UNFINISHED), self.parent.join(NAME));
        fs::rename(from, &to).map_err(EmbeddedError::file(&to))?;
        to.canonicalize().map_err(EmbeddedError::file(&to))
    }

    /// Removes the cluster and its name. Only for clusters that hold nobody's data, as the test harness's.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn wipe(&self) -> Result<(), EmbeddedError> {
        for name in [NAME, UNFINISHED] {
            let path = self.parent.join(name);
            if let Ok(target) = fs::read_link(&path) {
                remove(&target)?;
                remove(&origin_file(&target))?;
            }
            remove(&path)?;
        }
        Ok(())
    }

    /// Folders elsewhere that no data directory links to any more.
    #[must_use]
    pub fn abandoned(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.elsewhere).into_iter().flatten().flatten();
        let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
        folders.filter(|folder| is_abandoned(folder)).collect()
    }
}

/// A folder that has an origin file and whose origin does not link to it.
fn is_abandoned(folder: &Path) -> bool {
    let Ok(origin) = fs::read_to_string(origin_file(folder)) else { return false };
    let links = [NAME, UNFINISHED].map(|name| fs::read_link(Path::new(&origin).join(name)).ok());
    links.iter().all(|target| target.as_deref() != Some(folder))
}

fn origin_file(folder: &Path) -> PathBuf {
    folder.with_extension("origin")
}

fn make_folder(folder: &Path, account: Account) -> Result<(), EmbeddedError> {
    DirBuilder::new().mode(0o700).create(folder).map_err(EmbeddedError::file(folder))?;
    account.give(folder)
}

/// A folder that others may pass through, not list.
fn open_folder(folder: &Path) -> Result<(), EmbeddedError> {
    DirBuilder::new().mode(0o711).recursive(true).create(folder).map_err(EmbeddedError::file(folder))
}

/// Removes a link, a file or a folder; nothing there is fine.
fn remove(path: &Path) -> Result<(), EmbeddedError> {
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    let removed = if found.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(EmbeddedError::file(path))
}
