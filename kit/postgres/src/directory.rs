//! The location of a cluster's files: `<parent>/pg`, or, when the database's account cannot reach that, a new folder
//! elsewhere that `<parent>/pg` links to. A cluster appears under its final name only when it is complete.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::{Account, Error};

/// Name of the finished cluster in its parent.
const NAME: &str = "pg";
/// Name of a cluster that is being made.
const UNFINISHED: &str = "pg.new";

/// The location of one cluster.
#[derive(Clone, Debug)]
pub struct ClusterDirectory {
    /// The folder of the user who starts the cluster.
    pub parent: PathBuf,
    /// Parent of the files when the account cannot reach `parent`.
    pub elsewhere: PathBuf,
}

impl ClusterDirectory {
    /// The path of the finished cluster: its folder, or a link to it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.parent.join(NAME)
    }

    /// The finished cluster, if there is one. A parent that was moved keeps its cluster.
    ///
    /// # Errors
    /// A dangling link, or a link to the cluster of another parent, of which this one is a copy.
    pub fn finished(&self) -> Result<Option<PathBuf>, Error> {
        let link = self.path();
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

    /// Checks that a cluster elsewhere belongs to this parent.
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

    /// Makes an empty folder for a new cluster; discards the remains of an interrupted attempt.
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

    /// Gives the complete cluster its final name.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn finish(&self) -> Result<PathBuf, Error> {
        let (from, to) = (self.parent.join(UNFINISHED), self.parent.join(NAME));
        fs::rename(from, &to).map_err(Error::file(&to))?;
        to.canonicalize().map_err(Error::file(&to))
    }

    /// Removes the cluster and its name. Only for clusters without user data, such as the test harness's.
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

    /// Folders elsewhere to which no data directory links any more.
    #[must_use]
    pub fn abandoned(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.elsewhere).into_iter().flatten().flatten();
        let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
        folders.filter(|folder| is_abandoned(folder)).collect()
    }
}

/// Whether the folder has an origin file and its origin does not link to it.
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

/// Makes a folder that others may traverse but not list.
fn open_folder(folder: &Path) -> Result<(), Error> {
    DirBuilder::new().mode(0o711).recursive(true).create(folder).map_err(Error::file(folder))
}

/// Removes a link, a file or a folder, if it exists.
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
