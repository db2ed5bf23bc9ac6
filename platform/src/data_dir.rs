//! The data directory: created, checked and locked while `up` runs.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::stop::Stop;

/// Version of the directory's layout. A directory with a newer version is refused.
const FORMAT: u32 = 1;

/// A data directory, locked by this process until dropped.
#[derive(Debug)]
pub(crate) struct DataDir {
    /// Absolute path.
    pub(crate) path: PathBuf,
    /// Whether no earlier start has left its secrets here.
    pub(crate) is_new: bool,
    _lock: File,
}

impl DataDir {
    /// Creates the directory if it is missing, checks it and locks it.
    pub(crate) fn take(path: &Path, min_free: u64) -> Result<Self, Stop> {
        make_private(path)?;
        let path = path.canonicalize().map_err(|error| unfit(path, &error.to_string()))?;
        let lock = take_lock(&path)?;
        check_format(&path)?;
        check_space(&path, min_free)?;
        let is_new = !path.join("secrets").exists();
        for below in ["secrets", "certs"] {
            make_private(&path.join(below))?;
        }
        Ok(Self { path, is_new, _lock: lock })
    }
}

fn make_private(path: &Path) -> Result<(), Stop> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    let private = made.and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o700)));
    private.map_err(|error| {
        let problem = if path.is_file() { "is a file, not a folder".to_owned() } else { error.to_string() };
        unfit(path, &format!("{problem}; choose another folder with PLATFORM_DATA_DIR"))
    })
}

fn take_lock(path: &Path) -> Result<File, Stop> {
    let name = path.join("up.lock");
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&name);
    let mut file = opened.map_err(|error| unfit(&name, &error.to_string()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(unfit(path, &held_by(&mut file))),
        Err(TryLockError::Error(error)) => return Err(unfit(&name, &error.to_string())),
    }
    let note =
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
    note.map_err(|error| unfit(&name, &error.to_string()))?;
    Ok(file)
}

fn held_by(file: &mut File) -> String {
    let mut pid = String::new();
    let holder = match file.read_to_string(&mut pid) {
        Ok(_) if !pid.is_empty() => format!("process {pid}"),
        _ => "another process".to_owned(),
    };
    format!(
        "the data directory is in use by {holder}: stop that platform, or start a second one beside it with another \
         PLATFORM_DATA_DIR and PLATFORM_PORT_OFFSET=1000"
    )
}

fn check_format(path: &Path) -> Result<(), Stop> {
    let name = path.join("format");
    if !name.exists() {
        return fs::write(&name, FORMAT.to_string()).map_err(|error| unfit(&name, &error.to_string()));
    }
    let text = fs::read_to_string(&name).map_err(|error| unfit(&name, &error.to_string()))?;
    let found: u32 =
        text.trim().parse().map_err(|_| unfit(&name, &format!("\"{}\" is not a version", text.trim())))?;
    if found <= FORMAT {
        return Ok(());
    }
    let says = format!(
        "the data directory was written by a newer version of the platform (format {found}; this version supports \
        {FORMAT}): run that version, or choose another PLATFORM_DATA_DIR"
    );
    Err(unfit(path, &says))
}

/// Refuses a disk with less than `min_free` bytes left.
pub(crate) fn check_space(path: &Path, min_free: u64) -> Result<(), Stop> {
    let disk = rustix::fs::statvfs(path).map_err(|error| unfit(path, &error.to_string()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= min_free {
        return Ok(());
    }
    let says = format!(
        "the disk has {} MiB free and {} MiB are needed: make room, choose another PLATFORM_DATA_DIR, \
         or lower PLATFORM_MIN_FREE_DISK",
        free >> 20,
        min_free >> 20
    );
    Err(unfit(path, &says))
}

fn unfit(path: &Path, says: &str) -> Stop {
    Stop::Unfit(format!("{}: {says}", path.display()))
}
