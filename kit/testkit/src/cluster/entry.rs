//! Enters the shared cluster: one process at a time checks whether it is running, starts it if not, and registers with
//! the watcher by holding the write end of a FIFO open.
//!
//! The watcher must not stop the cluster while a process is entering. It raises a flag file before its last check of
//! the FIFO; an entrant checks the flag after it has opened the FIFO and written a byte. So one of the two always sees
//! the other: either the entrant waits, or the watcher keeps watching.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use contract::Settings;
use postgres::{Account, Binaries, ClusterDirectory, Launch, Progress, Server, obtain};
use rustix::fs::{CWD, Mode, OFlags};
use tokio::time::Instant;

use super::PASSWORD;

/// How long the watcher keeps an unused cluster: long enough for cargo to start the next test binary.
const IDLE_SECONDS: u32 = 20;
/// Interval between an entrant's checks.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Longest wait for a watcher to appear or for a cluster to stop.
const PATIENCE: Duration = Duration::from_mins(1);

/// `$1` the folder, `$2` `pg_ctl`, `$3` the data, `$4` idle seconds. Every entrant writes one byte, and `cat` reads the
/// bytes of all entrants that have left; so a byte that `dd` finds comes from a later entrant, and `dd` never blocks.
/// Removing the databases of a whole run takes minutes, so they are moved out of the next cluster's way first; when the
/// flag is removed, no process reads the FIFO any more.
const WATCHER: &str = r#"
exec 3<"$1/alive" || exit 1
while :; do
  cat <&3 >/dev/null
  sleep "$4"
  : >"$1/stopping"
  [ -n "$(dd bs=1 count=1 <&3 2>/dev/null)" ] || break
  rm -f "$1/stopping"
done
"$2" stop --pgdata "$3" --mode immediate --wait --silent
mv "$3/base" "$1/old-$$"
exec 3<&-
rm -f "$1/stopping"
rm -rf "$1"/old-*
"#;

/// Handles that a test process holds until it exits.
#[derive(Debug)]
pub(super) struct Held {
    /// The watcher stops the cluster when no process holds this.
    _alive: File,
    /// A shared lock; emptying the data folder requires an exclusive one.
    _using: File,
}

/// Enters the cluster in `folder`; returns its port.
pub(super) async fn enter(folder: &Path) -> Result<(u16, Held)> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let entering = lock_file(&folder.join("entering.lock"))?;
    let _entering = tokio::task::spawn_blocking(move || entering.lock().map(|()| entering)).await??;
    let site = Site::of(folder)?;
    let alive = site.announce().await?;
    let port = site.running().await?;
    let using = lock_file(&folder.join("using.lock"))?;
    using.lock_shared()?;
    Ok((port, Held { _alive: alive, _using: using }))
}

struct Site {
    folder: PathBuf,
    place: ClusterDirectory,
    account: Account,
    /// Owned by the database's account, as which the watcher runs.
    watch: PathBuf,
}

impl Site {
    fn of(folder: &Path) -> Result<Self> {
        let account = Account::for_database()?;
        let elsewhere = std::env::temp_dir().join("platform-pg-test");
        let place = ClusterDirectory { parent: folder.to_owned(), elsewhere: elsewhere.clone() };
        let parent = if account.reaches(folder) { folder.to_owned() } else { elsewhere };
        let watch = parent.join(format!("watch-{}", fingerprint(folder)));
        fs::create_dir_all(&watch)?;
        account.give(&watch)?;
        Ok(Self { folder: folder.to_owned(), place, account, watch })
    }

    /// Opens the FIFO while a watcher that is not about to stop the cluster sees it.
    async fn announce(&self) -> Result<File> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            match self.open_fifo()? {
                None => self.start_watcher().await?,
                Some(alive) if self.stopping().exists() => drop(alive),
                Some(alive) => return Ok(alive),
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        bail!("the watcher of {} neither watches nor ends", self.folder.display())
    }

    /// `None` when the FIFO has no reader, so there is no watcher.
    fn open_fifo(&self) -> Result<Option<File>> {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        match OpenOptions::new().write(true).custom_flags(flags).open(self.fifo()) {
            Ok(mut alive) => Ok(alive.write_all(b"x").is_ok().then_some(alive)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error).context("opening the watcher's FIFO"),
        }
    }

    /// Starts a watcher. Call this only when there is none: an existing flag then comes from a killed watcher.
    async fn start_watcher(&self) -> Result<()> {
        if self.stopping().exists() {
            fs::remove_file(self.stopping())?;
        }
        if !self.fifo().exists() {
            rustix::fs::mkfifoat(CWD, self.fifo(), Mode::RUSR | Mode::WUSR)?;
            self.account.give(&self.fifo())?;
        }
        let binaries = self.binaries().await?;
        let mut watcher = self.account.command(Path::new("/bin/sh"));
        watcher.args(["-c", WATCHER, "watcher"]).arg(&self.watch).arg(binaries.program("pg_ctl"));
        watcher.arg(self.watch.join("data")).arg(IDLE_SECONDS.to_string());
        watcher.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut started = watcher.spawn().context("starting the watcher")?;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            ensure!(started.try_wait()?.is_none(), "the watcher ended at once");
            // Opened and closed again: the watcher then waits out its idle time, during which this process registers.
            if self.open_fifo()?.is_some() {
                return Ok(());
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        bail!("the watcher did not open its FIFO")
    }

    /// The port of the running cluster; starts it if necessary.
    async fn running(&self) -> Result<u16> {
        if let Some(folder) = self.place.finished().ok().flatten()
            && let Some(status) = Server::status(&folder).filter(|status| status.ready)
        {
            return Ok(status.port);
        }
        let using = lock_file(&self.folder.join("using.lock"))?;
        match using.try_lock() {
            Ok(()) => self.start_empty().await,
            Err(TryLockError::WouldBlock) => {
                bail!("the test cluster died while other test processes use it; see {}", self.log().display())
            }
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    async fn start_empty(&self) -> Result<u16> {
        self.place.wipe()?;
        let launch = self.launch().await?;
        let folder = self.place.begin(self.account)?;
        launch.initialise(&folder, PASSWORD, false).await?;
        let folder = self.place.finish()?;
        self.point_watcher_at(&folder)?;
        let server = launch.start(&folder).await?;
        Ok(server.port)
    }

    /// The machine's programs, or those fetched by the first test process that needs them.
    async fn binaries(&self) -> Result<Binaries> {
        Ok(obtain(&environment(), None, self.account, &told).await?)
    }

    async fn launch(&self) -> Result<Launch> {
        let on = |name, value: &str| (name, value.to_owned());
        Ok(Launch {
            binaries: self.binaries().await?,
            account: self.account,
            log: self.log(),
            port: 0,
            settings: vec![
                on("fsync", "off"),
                on("synchronous_commit", "off"),
                on("full_page_writes", "off"),
                on("autovacuum", "off"),
                on("max_connections", "300"),
                on("shared_buffers", "64MB"),
            ],
        })
    }

    /// The watcher starts before the data folder exists, so it is given a link.
    fn point_watcher_at(&self, folder: &Path) -> Result<()> {
        let link = self.watch.join("data");
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link)?;
        }
        std::os::unix::fs::symlink(folder, link).map_err(Into::into)
    }

    fn fifo(&self) -> PathBuf {
        self.watch.join("alive")
    }

    fn stopping(&self) -> PathBuf {
        self.watch.join("stopping")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("postgres.log")
    }
}

/// Writes past the test runner's capture: the user must see why a first run takes long.
pub(super) fn told(progress: Progress) {
    let line = match progress {
        Progress::Begun { address, .. } => format!("fetching PostgreSQL from {address}"),
        Progress::Again { why } => format!("the download broke off ({why}); retrying"),
        Progress::Done { folder } => format!("PostgreSQL is in {}", folder.display()),
        Progress::Waiting | Progress::Arrived { .. } | Progress::Unpacking => return,
    };
    // A failed write to stderr cannot be reported.
    drop(writeln!(std::io::stderr(), "testkit: {line}"));
}

/// Whether there is no FIFO, or no process has it open for reading.
fn is_absent(error: &std::io::Error) -> bool {
    let nobody_reads = error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error());
    nobody_reads || error.kind() == std::io::ErrorKind::NotFound
}

fn lock_file(path: &Path) -> Result<File> {
    let opened = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    opened.with_context(|| path.display().to_string())
}

pub(super) fn environment() -> Settings {
    let readable = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Settings::from_pairs(readable)
}

/// Distinguishes the watch folders of two workspaces when both are elsewhere.
fn fingerprint(folder: &Path) -> String {
    super::template::hex(&super::template::digest([folder.as_os_str().as_encoded_bytes()]))
}
