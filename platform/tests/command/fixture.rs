//! A data directory of one's own and the program run on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use uuid::Uuid;

/// Runs the program with nothing in its environment but what a test sets.
pub(crate) struct Platform {
    pub(crate) data_dir: PathBuf,
    variables: Vec<(String, String)>,
}

/// What a run said.
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

    /// Puts a file into the data directory.
    pub(crate) fn with_file(self, name: &str, text: &str) -> Self {
        let path = self.data_dir.join(name);
        fs::create_dir_all(path.parent().expect("below the data directory")).expect("a folder");
        fs::write(path, text).expect("a file");
        self
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_platform"));
        command.args(arguments).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.env("PLATFORM_DATA_DIR", &self.data_dir);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let Output { status, stdout, stderr } = command.output().expect("the program starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it writes UTF-8");
        Run { code: status.code(), out: text(stdout), err: text(stderr) }
    }
}

impl Drop for Platform {
    fn drop(&mut self) {
        if self.data_dir.exists() {
            fs::remove_dir_all(&self.data_dir).expect("the data directory can be removed");
        }
    }
}

impl Run {
    /// The start was refused before anything was served, with these words.
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
