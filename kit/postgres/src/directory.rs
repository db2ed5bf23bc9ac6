//! Where a cluster's files are: in `<parent>/pg`, or, when the database's account cannot reach that, in a fresh folder
//! elsewhere that `<parent>/pg` links to. A cluster appears under its name only when it is complete.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::{Account, Error};

/// Name of the finished cluster in its parent.
const NAME: &str = "pg";
/// Name while it is made.
const UNFINISHED: &str = "pg.new";

/// The place of one cluster.
#[derive(Clone, Debug)]
pub struct ClusterDirectory {
    /// The folder that belongs to whoever starts the cluster.
    pub parent: PathBuf,
    /// Where the files go when the account cannot reach `parent`.
    pub elsewhere: PathBuf,
}

impl ClusterDirectory {
    /// The finished cluster, if there is one. A parent that was moved takes its cluster with it.
    ///
    /// # Errors
    /// A link that leads nowhere, or to the cluster of another parent, of which this one is a copy.
    pub fn finished(&self) -> Result<Option<PathBuf>, Error> {
        let link = self.parent.join(NAME);
        match link.canonicalize() {
            Ok(folder) => {
                self.claim(&link, &folder)?;
                Ok(Some(folder))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => match fs::read_link(&link) {
                Ok(target) => Err(Error::LostData { link, target }),
                Err(_) => Ok(None),
            },
            Err(error) => Err(Error::File { path: link, source: error }),
        }
    }

    /// Makes sure that a cluster elsewhere is this parent's.
    fn claim(&self, link: &Path, folder: &Path) -> Result<(), Error> {
        let file = origin_file(folder);
        let Ok(origin) = fs::read_to_string(&file).map(PathBuf::from) else { return Ok(()) };
        let is_same = |left: &Path, right: &Path| {
            left == right
                || left.canonicalize().is_ok_and(|left| right.canonicalize().is_ok_and(|right| left == right))
        };
        if is_same(&origin, &self.parent) {
            return Ok(());
        }
        if is_abandoned(folder) {
            return fs::write(&file, self.parent.as_os_str().as_encoded_bytes()).map_err(Error::file(&file));
        }
        Err(Error::OthersData { link: link.to_owned(), origin })
    }

    /// A fresh folder for a cluster that is about to be made; what an interrupted attempt left is not used again.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn begin(&self, account: Account) -> Result<PathBuf, Error> {
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
        fs::write(&origin, self.parent.as_os_str().as_encoded_bytes()).map_err(Error::file(&origin))?;
        symlink(&folder, &unfinished).map_err(Error::file(&unfinished))?;
        Ok(folder)
    }

    /// Gives the complete cluster its name.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn finish(&self) -> Result<PathBuf, Error> {
        let (from, to) = (self.parent.join(UNFINISHED), self.parent.join(NAME));
        fs::rename(from, &to).map_err(Error::file(&to))?;
        to.canonicalize().map_err(Error::file(&to))
    }

    /// Removes the cluster and its name. Only for clusters that hold nobody's data, as the test harness's.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn wipe(&self) -> Result<(), Error> {
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

fn make_folder(folder: &Path, account: Account) -> Result<(), Error> {
    DirBuilder::new().mode(0o700).create(folder).map_err(Error::file(folder))?;
    account.give(folder)
}

/// A folder that others may pass through, not list.
fn open_folder(folder: &Path) -> Result<(), Error> {
    DirBuilder::new().mode(0o711).recursive(true).create(folder).map_err(Error::file(folder))
}

/// Removes a link, a file or a folder; nothing there is fine.
fn remove(path: &Path) -> Result<(), Error> {
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    let removed = if found.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(Error::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_parent_does_not_get_the_cluster_and_a_moved_one_does() {
        let folder = std::env::temp_dir().join(format!("platform-place-{}", Uuid::new_v4().simple()));
        let (parent, copy, elsewhere) = (folder.join("data"), folder.join("copy"), folder.join("elsewhere"));
        let cluster = elsewhere.join("pg-1");
        for made in [&parent, &copy, &cluster] {
            fs::create_dir_all(made).expect("a folder");
        }
        fs::write(origin_file(&cluster), parent.as_os_str().as_encoded_bytes()).expect("its note");
        symlink(&cluster, parent.join(NAME)).expect("a link");
        let found = |parent: &Path| {
            ClusterDirectory { parent: parent.to_owned(), elsewhere: elsewhere.clone() }.finished()
        };
        assert_eq!(found(&parent).expect("its own"), Some(cluster.clone()));

        symlink(&cluster, copy.join(NAME)).expect("a link");
        let refused = found(&copy).expect_err("another's").to_string();
        assert!(refused.contains(&parent.display().to_string()), "{refused}");

        fs::remove_dir_all(&copy).expect("removed");
        fs::rename(&parent, &copy).expect("moved");
        assert_eq!(found(&copy).expect("its own"), Some(cluster.clone()));
        assert_eq!(found(&copy).expect("its own, noted"), Some(cluster));
        fs::remove_dir_all(&folder).expect("the test's own folder");
    }
}
