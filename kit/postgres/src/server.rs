//! Makes a cluster, and starts, adopts and stops its server. The server is not tied to this process: if this process is
//! killed, the server keeps running, and the next start adopts it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::{Account, Binaries, Error, SUPERUSER};

/// Time for a killed server to disappear.
const DYING: Duration = Duration::from_secs(2);
/// Interval between checks of the status file and of an adopted process.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Time limit of a start, including recovery after a crash.
const START_PATIENCE: Duration = Duration::from_mins(1);
/// The server's message while processes of a killed server are still alive.
const MEMORY_IN_USE: &str = "pre-existing shared memory block";
/// The server's message while the process id of a killed server is still taken, because its parent has not reaped it
/// yet.
const NUMBER_IN_USE: &str = "lock file \"postmaster.pid\" already exists";
/// Folder of the server's socket, from the cluster's.
const SOCKETS: &str = ".";
/// Longest path of a socket in bytes, everywhere.
const MAX_SOCKET_PATH: usize = 103;
/// The server's message when another process has its port.
const PORT_IN_USE: &str = "could not create any TCP/IP sockets";
/// How many free ports are tried, where one is wanted.
const FREE_PORTS: usize = 10;
/// Bytes of the log that an error shows.
const LOG_TAIL: u64 = 2_000;
/// Bytes of the log in which a failed start's reason is looked for.
const LOG_READ: u64 = 1 << 20;

/// How to run a cluster.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Programs.
    pub binaries: Binaries,
    /// The account to run it as.
    pub account: Account,
    /// The server's log file.
    pub log: PathBuf,
    /// TCP port on loopback; 0 for one that is free when the server starts.
    pub port: u16,
    /// Server settings besides those of every embedded server.
    pub settings: Vec<(&'static str, String)>,
}

/// The server's status file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The server's process.
    pub pid: Pid,
    /// Its TCP port, if known.
    pub port: u16,
    /// Whether it accepts connections.
    pub ready: bool,
    /// Whether it is starting, or recovering after a crash.
    pub starting: bool,
    /// Whether it also listens on a Unix socket whose file is still in its folder.
    pub has_socket: bool,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    pid: Pid,
    /// Its TCP port on loopback.
    pub port: u16,
    /// `None` for an adopted server.
    child: Option<Child>,
}

impl Launch {
    /// Makes a cluster in the empty `folder`, whose superuser has `password`. With `durable`, waits for the disk.
    ///
    /// # Errors
    /// `initdb` fails.
    pub async fn initialise(&self, folder: &Path, password: &str, durable: bool) -> Result<(), Error> {
        let secret = folder.with_extension("secret");
        write_secret(&secret, password)?;
        self.account.give(&secret)?;
        let mut initdb = self.account.command(&self.binaries.program("initdb"));
        initdb.arg("--pgdata").arg(folder).arg("--pwfile").arg(&secret);
        initdb.args(["--username", SUPERUSER, "--encoding", "UTF8", "--locale", locale()]);
        initdb.args(["--auth-host", "scram-sha-256", "--auth-local", "scram-sha-256"]);
        if !durable {
            initdb.arg("--no-sync");
        }
        let made = run(initdb).await;
        fs::remove_file(&secret).map_err(Error::file(&secret))?;
        made
    }

    /// Starts the server of the cluster in `folder` and waits until it accepts connections, and first until the
    /// remaining processes of a killed server have ended.
    ///
    /// # Errors
    /// It does not start, or not in time.
    pub async fn start(&self, folder: &Path) -> Result<Server, Error> {
        if self.port == 0 {
            return self.start_on_first(folder, std::iter::repeat_with(free_port).take(FREE_PORTS)).await;
        }
        self.start_on_its_port(folder).await
    }

    /// Starts the server on the first of `ports` that no other process takes before the server listens on it.
    async fn start_on_first(
        &self,
        folder: &Path,
        ports: impl Iterator<Item = Result<u16, Error>>,
    ) -> Result<Server, Error> {
        let mut outcome = Err(failed("postgres", PORT_IN_USE.to_owned()));
        for port in ports {
            outcome = Self { port: port?, ..self.clone() }.start_on_its_port(folder).await;
            match &outcome {
                Err(Error::Program { output, .. }) if output.contains(PORT_IN_USE) => {}
                _ => break,
            }
        }
        outcome
    }

    async fn start_on_its_port(&self, folder: &Path) -> Result<Server, Error> {
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            let written = self.log.metadata().map_or(0, |log| log.len());
            match self.start_once(folder, deadline).await {
                // Among what the processes of a killed server write as they end, the reason may be far from the end.
                Err(Error::Program { .. })
                    if is_left_over(folder, &written_since(&self.log, written, LOG_READ))
                        && Instant::now() < deadline =>
                {
                    tokio::time::sleep(LOOK_INTERVAL).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn start_once(&self, folder: &Path, deadline: Instant) -> Result<Server, Error> {
        let written = self.log.metadata().map_or(0, |log| log.len());
        let mut child =
            self.command(folder)?.spawn().map_err(|error| failed("postgres", error.to_string()))?;
        while Instant::now() < deadline {
            if let Some(status) =
                Server::status(folder).filter(|status| status.ready && is_child(&child, *status))
            {
                return Ok(Server { pid: status.pid, port: status.port, child: Some(child) });
            }
            if let Ok(Some(ended)) = child.try_wait() {
                return Err(failed(
                    "postgres",
                    format!("it ended with {ended}: {}", written_since(&self.log, written, LOG_TAIL)),
                ));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Err(not_ready(&self.log))
    }

    /// Loopback and a socket in the cluster's folder, which only the account may enter; both with passwords. The socket's
    /// address is relative, because the path of a folder may be longer than an address.
    fn command(&self, folder: &Path) -> Result<Command, Error> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.map_err(Error::file(&self.log))?;
        let errors = log.try_clone().map_err(Error::file(&self.log))?;
        let mut command = self.account.command(&self.binaries.program("postgres"));
        command.arg("-D").arg(folder).stdin(Stdio::null()).stdout(log).stderr(errors);
        command.args([
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            &format!("unix_socket_directories={SOCKETS}"),
        ]);
        command.arg("-c").arg(format!("port={}", self.port));
        for (name, value) in &self.settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        Ok(command)
    }
}

impl Server {
    /// The server running on the cluster in `folder`, including one that is starting or stopping.
    #[must_use]
    pub fn status(folder: &Path) -> Option<Status> {
        let text = fs::read_to_string(folder.join("postmaster.pid")).ok()?;
        let mut lines = text.lines();
        let pid = lines.next()?.trim().parse().ok().and_then(Pid::from_raw)?;
        let port = lines.nth(2).and_then(|line| line.trim().parse().ok()).unwrap_or_default();
        let has_socket = lines.next().map(str::trim) == Some(SOCKETS)
            && folder.join(format!(".s.PGSQL.{port}")).symlink_metadata().is_ok();
        let state = lines.nth(2).map(str::trim);
        let (ready, starting) = (state == Some("ready"), state == Some("starting"));
        is_server(pid).then_some(Status { pid, port, ready, starting, has_socket })
    }

    /// The server running on the cluster in `folder`. One that is starting is awaited as long as a start is.
    ///
    /// # Errors
    /// It is still starting then, and goes on.
    pub async fn started(folder: &Path, log: &Path) -> Result<Option<Status>, Error> {
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            match Self::status(folder) {
                Some(Status { starting: true, .. }) if Instant::now() < deadline => {
                    tokio::time::sleep(LOOK_INTERVAL).await;
                }
                Some(Status { starting: true, .. }) => return Err(not_ready(log)),
                status => return Ok(status),
            }
        }
    }

    /// Adopts a server that another process started.
    #[must_use]
    pub const fn adopt(status: Status) -> Self {
        Self { pid: status.pid, port: status.port, child: None }
    }

    /// Whether an adopted server was already dying and now ends. A killed process closes its sockets a while before it
    /// is gone.
    pub async fn was_dying(&mut self) -> bool {
        self.child.is_none() && tokio::time::timeout(DYING, self.ended()).await.is_ok()
    }

    /// Waits until the server ends by itself.
    pub async fn ended(&mut self) {
        if let Some(child) = &mut self.child {
            // An error means that the child is already gone.
            drop(child.wait().await);
            return;
        }
        while is_server(self.pid) {
            tokio::time::sleep(LOOK_INTERVAL * 10).await;
        }
    }

    /// Ends all sessions, writes everything and stops; after `patience`, stops at once (the next start recovers).
    pub async fn stop(mut self, patience: Duration) {
        self.signal(Signal::INT);
        if tokio::time::timeout(patience, self.ended()).await.is_err() {
            self.stop_at_once();
            self.ended().await;
        }
    }

    /// Stops without a checkpoint; the next start recovers from the write-ahead log.
    pub fn stop_at_once(&self) {
        self.signal(Signal::QUIT);
    }

    fn signal(&self, signal: Signal) {
        if let Err(error) = rustix::process::kill_process(self.pid, signal) {
            tracing::debug!(%error, pid = self.pid.as_raw_nonzero(), "the database server is already gone");
        }
    }
}

/// The folder of a cluster as the host of its server's socket; `None` if a socket's path there is too long for an address.
#[must_use]
pub fn socket_host(folder: &Path) -> Option<&str> {
    let host = folder.to_str().filter(|host| host.starts_with('/'))?;
    (host.len() + "/.s.PGSQL.65535".len() <= MAX_SOCKET_PATH).then_some(host)
}

/// A port that no process has at this moment.
fn free_port() -> Result<u16, Error> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|error| failed("a free port", error.to_string()))
}

/// Whether a start failed only because a killed server has not quite disappeared.
fn is_left_over(folder: &Path, output: &str) -> bool {
    let dead = Server::status(folder).is_none();
    output.contains(MEMORY_IN_USE) || (output.contains(NUMBER_IN_USE) && dead)
}

fn not_ready(log: &Path) -> Error {
    Error::NotReady { seconds: START_PATIENCE.as_secs(), log: log.to_owned() }
}

fn is_child(child: &Child, status: Status) -> bool {
    child.id().and_then(|id| i32::try_from(id).ok()) == Some(status.pid.as_raw_nonzero().get())
}

/// Whether the process is alive and, where the system tells, is PostgreSQL: after a reboot another process may have the
/// id, and a killed process that has not been reaped is dead although its id is still taken.
fn is_server(pid: Pid) -> bool {
    if rustix::process::test_kill_process(pid).is_err() {
        return false;
    }
    let status = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    status.map_or_else(|_| !Path::new("/proc/self").exists(), |status| is_living_postgres(&status))
}

/// Parses `<pid> (<name>) <state> …` as Linux writes it.
fn is_living_postgres(status: &str) -> bool {
    let Some((head, tail)) = status.rsplit_once(')') else { return false };
    let named = head.split_once('(').is_some_and(|(_, name)| name.starts_with("postgres"));
    named && !tail.trim_start().starts_with(['Z', 'X'])
}

/// A locale with code point order that still knows upper and lower case, where the system has one.
const fn locale() -> &'static str {
    if cfg!(target_os = "linux") { "C.UTF-8" } else { "C" }
}

fn write_secret(path: &Path, secret: &str) -> Result<(), Error> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(secret.as_bytes()));
    written.map_err(Error::file(path))
}

async fn run(mut command: Command) -> Result<(), Error> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().await.map_err(|error| failed(&program, error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(&program, String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

fn failed(program: &str, output: String) -> Error {
    Error::Program { program: program.to_owned(), output }
}

/// What was written to the log after its first `from` bytes, at most the last `most` bytes of it.
fn written_since(log: &Path, from: u64, most: u64) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(log)?;
        let end = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(end.saturating_sub(most).max(from)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    read().unwrap_or_else(|error| format!("its log {} cannot be read: {error}", log.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_or_foreign_process_is_no_server() {
        assert!(is_living_postgres("12 (postgres) S 1 12 12 0"));
        for other in
            ["12 (postgres) Z 1 12", "12 (postgres) X 1", "12 (bash) S 1", "12 (a) postgres) S 1", ""]
        {
            assert!(!is_living_postgres(other), "{other}");
        }
    }

    /// Runs `name` for `seconds` without reaping it, so that its process id outlives it.
    fn running(name: &str, seconds: &str) -> std::process::Child {
        let folder = std::env::temp_dir().join(format!("embedded-{name}-{seconds}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let program = folder.join(name);
        // A copy could be open for writing in a process that another test starts at this moment ("Text file busy").
        std::os::unix::fs::symlink("/bin/sleep", &program).expect("a link");
        let child = std::process::Command::new(program).arg(seconds).spawn().expect("it starts");
        // It keeps running without its link.
        fs::remove_dir_all(folder).expect("removed");
        child
    }

    #[test]
    fn a_folder_has_a_socket_if_its_path_fits_an_address() {
        let folder = |bytes: usize| PathBuf::from(format!("/{}", "x".repeat(bytes - 1)));
        let most = MAX_SOCKET_PATH - "/.s.PGSQL.65535".len();
        assert_eq!(socket_host(&folder(most)).map(str::len), Some(most));
        assert_eq!(socket_host(&folder(most + 1)), None);
        assert_eq!(socket_host(Path::new("data/pg")), None, "a name, which would be looked up");
    }

    #[tokio::test]
    async fn a_port_that_another_process_takes_first_is_passed_over() {
        let folder = std::env::temp_dir().join(format!("embedded-ports-{}", std::process::id()));
        let data = folder.join("data");
        fs::create_dir_all(&data).expect("a folder");
        let account = Account::for_database().expect("an account");
        account.give(&data).expect("an owner");
        let environment = contract::Settings::from_pairs(std::env::vars().filter(|(name, _)| name == "PATH"));
        let binaries = crate::obtain(&environment, None, account, &|_| {}).await.expect("PostgreSQL");
        let settings = vec![("fsync", "off".to_owned()), ("shared_buffers", "16MB".to_owned())];
        let launch = Launch { binaries, account, log: folder.join("log"), port: 0, settings };
        launch.initialise(&data, "of-no-interest", false).await.expect("a cluster");

        let holder = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let held = holder.local_addr().expect("bound").port();
        let refused = Launch { port: held, ..launch.clone() }.start(&data).await;
        assert!(refused.is_err_and(|error| error.to_string().contains(PORT_IN_USE)), "control: a set port");
        let free = free_port().expect("a port");
        let server = launch.start_on_first(&data, [Ok(held), Ok(free)].into_iter()).await.expect("a server");
        assert_eq!(server.port, free);
        server.stop(DYING).await;
        let server = launch.start(&data).await.expect("a server");
        assert_ne!(server.port, 0);
        server.stop(DYING).await;
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn a_reason_is_found_before_much_else_in_the_log() {
        let log = std::env::temp_dir().join(format!("embedded-log-{}", std::process::id()));
        let ending = "FATAL:  terminating connection due to unexpected postmaster exit\n".repeat(100);
        let before = format!("FATAL:  {NUMBER_IN_USE}\n");
        fs::write(&log, format!("{before}FATAL:  {MEMORY_IN_USE}\n{ending}")).expect("a log");
        let from = u64::try_from(before.len()).expect("it is short");
        let none = log.with_extension("none");
        assert!(!is_left_over(&none, &written_since(&log, from, LOG_TAIL)), "control: it is not in the end");
        assert!(is_left_over(&none, &written_since(&log, from, LOG_READ)));
        assert!(
            !written_since(&log, from, LOG_READ).contains(NUMBER_IN_USE),
            "what was there before does not count"
        );
        fs::remove_file(log).expect("removed");
    }

    #[tokio::test]
    async fn a_server_that_is_starting_is_awaited_and_one_that_stops_is_not() {
        let folder = std::env::temp_dir().join(format!("embedded-starting-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let mut child = running("postgres", "61");
        let tell = |state: &str| {
            let sockets = if state == "stopping" { "" } else { SOCKETS };
            let text = format!("{}\n/data\n1\n5432\n{sockets}\n127.0.0.1\n\n{state}\n", child.id());
            fs::write(folder.join("postmaster.pid"), text).expect("a status file");
        };
        let (log, socket) = (folder.join("log"), folder.join(".s.PGSQL.5432"));
        fs::write(&socket, "").expect("a file");
        for (first, then) in [("starting", "ready   "), ("starting", "stopping"), ("stopping", "stopping")] {
            tell(first);
            let mut found = Box::pin(Server::started(&folder, &log));
            if first == "starting" {
                tokio::select! {
                    biased;
                    early = &mut found => panic!("it is not ready yet: {early:?}"),
                    () = std::future::ready(()) => {}
                }
            }
            tell(then);
            let status = found.await.expect("not awaited any longer").expect("a server");
            assert_eq!((status.ready, status.starting), (then == "ready   ", false), "{first} {then}");
            assert_eq!((status.port, status.has_socket), (5_432, then != "stopping"), "{first} {then}");
        }
        tell("ready");
        assert!(Server::status(&folder).is_some_and(|status| status.has_socket), "control");
        fs::remove_file(socket).expect("removed");
        assert!(
            Server::status(&folder).is_some_and(|status| !status.has_socket),
            "no client can connect without the socket's file"
        );
        child.kill().expect("it can be ended");
        child.wait().expect("it ends");
        assert_eq!(Server::started(&folder, &log).await.expect("nothing to wait for"), None);
        fs::remove_dir_all(folder).expect("removed");
    }

    #[tokio::test]
    async fn a_server_that_ends_soon_was_dying_and_one_that_goes_on_was_not() {
        for (seconds, dying) in [("0.3", true), ("60", false)] {
            let mut child = running("postgres", seconds);
            let pid = Pid::from_child(&child);
            let mut server =
                Server::adopt(Status { pid, port: 1, ready: true, starting: false, has_socket: true });
            assert_eq!(server.was_dying().await, dying, "{seconds} s");
            child.kill().expect("it can be ended");
            child.wait().expect("it ends");
        }
    }
}
