//! Why the program fails, and its exit code.

use std::process::ExitCode;

use contract::settings::Problems;
use service::migrate::MigrateError;

use crate::console;

/// The reason for a failed run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    /// It could not start (exit code 2): usage, configuration, busy port, unfit data directory, no space.
    #[error("{0}")]
    Unfit(String),
    /// It could not start, because of variables (exit code 2).
    #[error("the configuration is wrong:\n{0}")]
    Misconfigured(Problems),
    /// It failed while running (exit code 1).
    #[error("{0}")]
    Failed(String),
    /// The answer to a question is no and has been printed (exit code 1).
    #[error("the answer is no")]
    No,
}

impl Stop {
    /// Prints the reason and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if !matches!(self, Self::No) {
            console::say(&format!("platform: {self}"));
        }
        match self {
            Self::Unfit(_) | Self::Misconfigured(_) => ExitCode::from(2),
            Self::Failed(_) | Self::No => ExitCode::from(1),
        }
    }
}

impl From<Problems> for Stop {
    fn from(problems: Problems) -> Self {
        Self::Misconfigured(problems)
    }
}

impl From<postgres::Error> for Stop {
    fn from(error: postgres::Error) -> Self {
        Self::Unfit(error.to_string())
    }
}

impl From<MigrateError> for Stop {
    fn from(error: MigrateError) -> Self {
        Self::Unfit(error.to_string())
    }
}
