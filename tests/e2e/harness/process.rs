//! The `platform` command as child processes of the test binary.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

/// The variable with arguments of the `platform` command, separated by spaces, that turns the test binary into that
/// command.
const ARGUMENTS: &str = "E2E_PLATFORM_ARGUMENTS";

/// Runs the `platform` command in this process and exits like it, if the environment asks for it.
pub(crate) fn become_the_platform_if_asked() {
    let environment = platform::environment();
    let Some(arguments) = environment.as_ref().ok().and_then(|environment| environment.raw(ARGUMENTS)) else {
        return;
    };
    let arguments: Vec<OsString> =
        std::iter::once("platform").chain(arguments.split(' ')).map(OsString::from).collect();
    let code = platform::run(arguments, environment);
    let number = [0, 1, 2].into_iter().find(|number| ExitCode::from(*number) == code);
    std::process::exit(number.map_or(101, i32::from));
}

/// A `platform` process. Dropping it stops the process and waits for it.
pub(crate) struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts `platform <arguments>` with exactly these variables (and `PATH`), its log in `log`.
    pub(crate) fn start(arguments: &str, variables: &[(String, String)], log: &Path) -> Self {
        let log =
            std::fs::File::options().create(true).append(true).open(log).expect("the log can be written");
        let child = command(arguments, variables)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("this binary starts again");
        Self { child, name: arguments.to_owned() }
    }

    /// Runs `platform <arguments>` to completion.
    pub(crate) fn output(arguments: &str, variables: &[(String, String)]) -> Output {
        command(arguments, variables).output().expect("this binary starts again")
    }

    /// Reads standard output until a line begins with `prefix`; `None` when the process ends first.
    pub(crate) fn wait_for_line(&mut self, prefix: &str) -> Option<String> {
        let output = self.child.stdout.take().expect("standard output is read once");
        let mut lines = BufReader::new(output).lines();
        let found = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with(prefix));
        // Discards the rest, so that the process never writes into a closed pipe.
        std::thread::spawn(move || lines.for_each(drop));
        found
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("the process can be killed");
        self.child.wait().expect("the process was waited for");
    }

    /// Stops it gracefully and waits until it has ended.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        signal(self.child.id(), "TERM");
        self.child.wait().expect("the process was waited for")
    }

    /// Waits until it ends on its own.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("the process was waited for")
    }
}

/// This binary as the `platform` command, with only these variables.
fn command(arguments: &str, variables: &[(String, String)]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary has a path"));
    command
        .args(["--exact", "platform_process", "--nocapture", "--quiet"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", std::env::var_os("HOME").unwrap_or_default())
        .env(ARGUMENTS, arguments)
        .envs(variables.iter().cloned())
        .stdin(Stdio::null());
    command
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let status = self.stop();
            if !std::thread::panicking() {
                assert!(status.success(), "platform {} ended with {status}", self.name);
            }
        }
    }
}

fn signal(process: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "the signal {name} could not be sent");
}

/// A port offset that no other part of this test run uses: shifts every port of the platform, 8090 to 8443, to below
/// the kernel's ephemeral range.
pub(crate) fn port_offset() -> u16 {
    const FIRST: u16 = 2_000;
    const STEP: u16 = 400;
    const COPIES: u16 = 50;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let copy = NEXT.fetch_add(1, Ordering::SeqCst);
        assert!(copy < COPIES, "no free range of ports");
        let offset = FIRST + copy * STEP;
        let free = |port: u16| std::net::TcpListener::bind(("127.0.0.1", port + offset)).is_ok();
        if [8090, 8110, 8120, 8130, 8140, 8150, 8160, 8170, 8180, 8190, 8191, 8443].into_iter().all(free) {
            return offset;
        }
    }
}
