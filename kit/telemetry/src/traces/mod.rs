//! Traces: W3C context in and out (`context`), spans of requests (`span`), the request that a task works on (`scope`),
//! SQL statements (`sql`), and the export to a receiver (`export`, over `wire`). All of it is off until a variable
//! names a receiver (`config`); then a process has one queue and one thread, whatever it runs.

mod config;
pub mod context;
mod export;
mod scope;
mod span;
mod sql;
#[cfg(test)]
mod tests;
mod wire;

use contract::Settings;
use contract::settings::Problems;

pub(crate) use config::VARIABLES;
pub use scope::{Scope, step};
pub use span::{Span, Tracer};
pub(crate) use sql::Statements;

/// Owns the export. Dropping it sends the last spans, within a time limit.
#[derive(Debug)]
#[must_use = "the last spans are sent when it is dropped"]
pub struct Traces(());

impl Traces {
    /// Reads the variables and starts the export if a receiver is configured.
    ///
    /// # Errors
    /// Every bad value, or the thread could not be spawned.
    pub(crate) fn start(settings: &Settings) -> Result<Self, Problems> {
        if let Some(config) = config::TraceConfig::read(settings)? {
            export::start(config).map_err(|error| {
                let mut reader = settings.reader();
                reader.refuse("OTEL_EXPORTER_OTLP_ENDPOINT", format!("traces cannot be exported: {error}"));
                reader.finish(()).err().unwrap_or_else(|| Problems(Vec::new()))
            })?;
        }
        Ok(Self(()))
    }

    /// Whether this process exports traces.
    pub(crate) fn are_on() -> bool {
        export::is_on()
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        export::finish();
    }
}
