//! Unpacks an archive: a jar that holds one `.txz`. Called only on a file with the pinned checksum; even so, it writes
//! nothing outside the folder, and no more than an archive of this kind holds.

use std::borrow::Cow;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use liblzma::read::XzDecoder;
use tar::Archive;
use zip::ZipArchive;

use crate::Error;

/// Suffix of the compressed file in the jar.
const SUFFIX: &str = ".txz";
/// Most bytes that an archive unpacks to: about four times today's largest.
const MAX_UNPACKED: u64 = 1 << 30;
/// Read buffer size; the decoder asks for little at a time.
const BUFFER: usize = 64 << 10;

/// Unpacks `archive` to `folder`, which appears complete or not at all.
pub(super) fn unpack(archive: &Path, folder: &Path) -> Result<(), Error> {
    // Not `with_extension`: the folder's name ends in a version, which holds a dot.
    let mut unfinished = folder.as_os_str().to_owned();
    unfinished.push(".new");
    let unfinished = PathBuf::from(unfinished);
    remove(&unfinished).and_then(|()| make(&unfinished)).map_err(Error::file(&unfinished))?;
    extract(archive, &unfinished).map_err(Error::file(&unfinished))?;
    // An earlier folder that lacks its programs is in the way.
    remove(folder).and_then(|()| fs::rename(&unfinished, folder)).map_err(Error::file(folder))
}

fn extract(archive: &Path, folder: &Path) -> io::Result<()> {
    let mut jar = ZipArchive::new(BufReader::new(File::open(archive)?))?;
    let name = jar.file_names().flatten().find(|name| name.ends_with(SUFFIX)).map(Cow::into_owned);
    let name = name.ok_or_else(|| io::Error::other(format!("{} holds no {SUFFIX}", archive.display())))?;
    let inner = BufReader::with_capacity(BUFFER, jar.by_name(&name)?);
    let mut files = Archive::new(XzDecoder::new(inner).take(MAX_UNPACKED));
    files.set_preserve_mtime(false);
    files.unpack(folder)
}

/// Makes a folder that the database's account can read, whatever this process's umask.
fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o755).create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    // Folders that the archive only implies would follow the umask.
    for below in ["bin", "lib", "share"] {
        let below = folder.join(below);
        fs::create_dir(&below)?;
        fs::set_permissions(&below, Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn remove(folder: &Path) -> io::Result<()> {
    if folder.symlink_metadata().is_ok() { fs::remove_dir_all(folder) } else { Ok(()) }
}
