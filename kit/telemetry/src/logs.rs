//! `tracing` set up once a process: one JSON line an event on standard error, or text for people.

use std::io::IsTerminal;

use contract::settings::{Kind, Problems};
use contract::{Settings, Variable};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::util::SubscriberInitExt;

/// Format of the log.
pub const LOG_FORMAT: Variable = Variable::new(
    "PLATFORM_LOG_FORMAT",
    Kind::Text,
    Some("text"),
    "Log lines as json, or as text for people",
);
/// Filter of the log, a level or `target=level` pairs.
pub const LOG_FILTER: Variable = Variable::new(
    "PLATFORM_LOG",
    Kind::Text,
    Some("info,access=off,sqlx=warn"),
    "Log filter: a level, or target=level,…; access is the access log",
);

/// The variables of this crate.
pub const VARIABLES: &[Variable] = &[LOG_FORMAT, LOG_FILTER];

/// How this process logs.
#[derive(Debug)]
pub struct LogConfig {
    json: bool,
    filter: String,
}

impl LogConfig {
    /// Reads the two variables.
    ///
    /// # Errors
    /// A format other than the two, or a filter that does not parse.
    pub fn read(settings: &Settings) -> Result<Self, Problems> {
        let mut reader = settings.reader();
        let word = |text: &str| match text {
            "json" => Some(true),
            "text" => Some(false),
            _ => None,
        };
        let json = reader.parsed(&LOG_FORMAT, word, "json or text").unwrap_or_default();
        let filter = reader.text(&LOG_FILTER);
        if let Err(error) = EnvFilter::try_new(&filter) {
            reader.refuse(LOG_FILTER.name, format!("\"{filter}\" is not a log filter: {error}"));
        }
        reader.finish(Self { json, filter })
    }

    /// Installs the subscriber; a second call in one process changes nothing.
    pub fn install(&self) {
        let filter = EnvFilter::try_new(&self.filter).unwrap_or_else(|_| EnvFilter::new("info"));
        let lines = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_timer(SystemTime)
            .with_ansi(std::io::stderr().is_terminal())
            .with_writer(std::io::stderr);
        let installed = if self.json {
            lines.json().flatten_event(true).finish().try_init()
        } else {
            lines.finish().try_init()
        };
        if installed.is_err() {
            tracing::debug!("logging was set up before; the first set-up stays");
        }
    }
}
