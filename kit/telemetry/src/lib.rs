//! Observability of every process: metric families with one registry per service (several services share a process
//! under `up`), the HTTP meter with labels resolved once, the text exposition, the set-up of `tracing`, the access log,
//! which is written off the request path, and traces.

mod access;
mod http_meter;
mod logs;
mod metrics;
pub mod traces;
mod writer;

use contract::settings::Problems;
use contract::{Settings, Variable};

pub use access::{ABANDONED, ABANDONED_STATUS, AccessLog, AccessRecord, Line, Lines};
pub use http_meter::{
    DURATION_BUCKETS, HttpMeter, HttpSeries, InFlight, UNMATCHED, method_label, status_label,
};
pub use logs::{LOG_FILTER, LOG_FORMAT};
pub use metrics::{EXPOSITION_TYPE, Metrics};
pub use opentelemetry::trace::{SpanContext, TraceId};
pub use traces::{Scope, Span, Tracer, Traces};
pub use writer::put_line;

/// The variables of this crate.
pub const VARIABLES: &[&[Variable]] = &[&logs::VARIABLES, &traces::VARIABLES];

/// What ends with the process: the last spans and log lines go out when it is dropped, within a limit.
#[derive(Debug)]
#[must_use = "the last spans and log lines go out when it is dropped"]
pub struct Telemetry {
    // The first to go, because it logs what it could not send.
    _traces: Traces,
    _log: writer::LastLines,
}

/// Reads the variables of logs and traces and sets both up for this process; a second call has no effect.
///
/// # Errors
/// Every bad value.
pub fn install(settings: &Settings) -> Result<Telemetry, Problems> {
    let log = logs::LogConfig::read(settings);
    // Traces first: the log's set-up depends on whether traces are on.
    let traces = Traces::start(settings);
    match (log, traces) {
        (Ok(log), Ok(traces)) => {
            log.install();
            // The default hook writes to standard error in the thread that panics, which would wait for a reader that has
            // stopped.
            std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "a thread panicked")));
            Ok(Telemetry { _traces: traces, _log: writer::last_lines() })
        }
        (log, traces) => {
            let problems = [log.err(), traces.err()].into_iter().flatten().flat_map(|Problems(found)| found);
            Err(Problems(problems.collect()))
        }
    }
}
