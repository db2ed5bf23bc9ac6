//! A data directory for one test, and the program run on it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process};
use uuid::Uuid;

/// The platform's ports without an offset.
const PORTS: [u16; 12] = [8090, 8110, 8120, 8130, 8140, 8150, 8160, 8170, 8180, 8190, 8191, 8443];

/// Variables that locate downloaded database programs, for a machine without PostgreSQL.
const KEPT: [&str; 2] = ["HOME", "XDG_CACHE_HOME"];

/// Runs the program on a data directory, with only the variables that a test sets and [`KEPT`].
pub(crate) struct Platform {
    pub(crate) data_dir: PathBuf,
    variables: Vec<(String, String)>,
}

/// The program on a data directory that another fixture removes.
pub(crate) struct Beside {
    pub(crate) data_dir: PathBuf,
    variables: Vec<(String, String)>,
}

/// A platform that has printed its ready line.
pub(crate) struct Started {
    child: Child,
    /// Its output until then.
    pub(crate) said: String,
}

impl Started {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, waits for the exit and returns the exit code; a killed process has none.
    pub(crate) fn end(mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
        self.child.wait().expect("it ends").code()
    }
}

/// The output of a run.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Platform {
    /// A data directory that does not exist yet.
    pub(crate) fn new() -> Self {
        let data_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("data-{}", Uuid::now_v7()));
        Self { data_dir, variables: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// Writes a file in the data directory.
    pub(crate) fn with_file(self, name: &str, text: &str) -> Self {
        let path = self.data_dir.join(name);
        fs::create_dir_all(path.parent().expect("below the data directory")).expect("a folder");
        fs::write(path, text).expect("a file");
        self
    }

    /// Moves it to free ports that no other test of this process uses.
    pub(crate) fn with_free_ports(self) -> Self {
        static CLAIMED: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
        let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        let free = |offset: &u16| {
            PORTS.iter().all(|port| !claimed.contains(&(port + offset)) && is_free(port + offset))
        };
        let first = u16::try_from(std::process::id() % 200).expect("below 200") * 100;
        let offset = (first..24_000).step_by(50).find(free).expect("free ports");
        claimed.extend(PORTS.map(|port| port + offset));
        self.with("PLATFORM_PORT_OFFSET", offset.to_string())
    }

    /// The offset of its ports.
    pub(crate) fn offset(&self) -> u16 {
        let set = self.variables.iter().find(|(name, _)| name == "PLATFORM_PORT_OFFSET");
        set.and_then(|(_, offset)| offset.parse().ok()).unwrap_or_default()
    }

    /// The same platform as seen by another shell in the same folder; only the first fixture cleans up.
    pub(crate) fn beside(&self) -> Beside {
        Beside { data_dir: self.data_dir.clone(), variables: self.variables.clone() }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        self.beside().run(arguments)
    }

    /// The same platform with another current folder.
    pub(crate) fn run_in(&self, folder: &Path, arguments: &[&str]) -> Run {
        finish(self.command(arguments).current_dir(folder))
    }

    /// Starts the platform and waits for its ready line.
    pub(crate) fn start(&self) -> Started {
        let errors = self.data_dir.with_extension("err");
        let mut command = self.command(&["up"]);
        command.stdout(Stdio::piped()).stderr(File::create(&errors).expect("a file"));
        let mut child = command.spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let first = lines.next().and_then(Result::ok).unwrap_or_default();
        let said = fs::read_to_string(&errors).expect("what it said");
        fs::remove_file(&errors).expect("a file that can be removed");
        assert!(first.starts_with("platform ready https://localhost:"), "{first}{said}");
        Started { child, said }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.beside().command(arguments)
    }
}

impl Beside {
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        finish(&mut self.command(arguments))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_platform"));
        command.args(arguments).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.envs(KEPT.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.env("PLATFORM_DATA_DIR", &self.data_dir);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

fn finish(command: &mut Command) -> Run {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it writes UTF-8");
    Run { code: status.code(), out: text(stdout), err: text(stderr) }
}

impl Drop for Platform {
    fn drop(&mut self) {
        // As root, the database's files are elsewhere, and only the link in the data directory refers to them.
        if let Ok(elsewhere) = fs::read_link(self.data_dir.join("pg")).and_then(fs::canonicalize) {
            fs::remove_dir_all(&elsewhere).expect("the database's folder can be removed");
            fs::remove_file(elsewhere.with_extension("origin")).expect("its note can be removed");
        }
        if self.data_dir.exists() {
            fs::remove_dir_all(&self.data_dir).expect("the data directory can be removed");
        }
    }
}

impl Run {
    /// Asserts that the start was refused before anything was served, with these words.
    #[track_caller]
    pub(crate) fn refused(&self, words: &[&str]) {
        assert_eq!(self.code, Some(2), "{}{}", self.out, self.err);
        assert!(!self.out.contains("platform ready"), "{}", self.out);
        for word in words {
            assert!(self.err.contains(word), "no \"{word}\" in: {}", self.err);
        }
    }

    #[track_caller]
    pub(crate) fn succeeded(&self) {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
    }
}
