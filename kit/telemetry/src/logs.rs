//! `tracing` set up once a process: one JSON line an event on standard error, or text for people, written by a thread of its
//! own (`writer`). A line of a request names the request and its trace.

use std::fmt::Write as _;
use std::io::IsTerminal;

use contract::settings::{Kind, Problems};
use contract::{Settings, Variable};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, JsonFields, Writer};
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::fmt::{self, FmtContext};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, registry};

use crate::traces::{Scope, Statements, Traces};
use crate::writer;

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
    "Log filter: a level, or target=level,…; access is the access log; optimised builds have no trace events",
);

/// The variables of the log.
pub(crate) const VARIABLES: [Variable; 2] = [LOG_FORMAT, LOG_FILTER];

/// How this process logs.
#[derive(Debug)]
pub(crate) struct LogConfig {
    json: bool,
    filter: String,
}

impl LogConfig {
    /// Reads the two variables.
    ///
    /// # Errors
    /// A format other than the two, or a filter that does not parse.
    pub(crate) fn read(settings: &Settings) -> Result<Self, Problems> {
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
    pub(crate) fn install(&self) {
        let filter = EnvFilter::try_new(&self.filter).unwrap_or_else(|_| EnvFilter::new("info"));
        let installed = if Traces::are_on() {
            // Statements are listened to whatever the log says, so the filter is the lines' own.
            registry().with(self.lines().with_filter(filter)).with(Statements::layer()).try_init()
        } else {
            registry().with(filter).with(self.lines()).try_init()
        };
        if installed.is_err() {
            tracing::debug!("logging was set up before; the first set-up stays");
        }
    }

    fn lines<S>(&self) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let ansi = std::io::stderr().is_terminal();
        let lines = fmt::layer().with_ansi(ansi).with_writer(writer::of_process());
        let plain = fmt::format().with_timer(SystemTime).with_ansi(ansi);
        if self.json {
            let plain = plain.json().flatten_event(true);
            lines.fmt_fields(JsonFields::new()).event_format(OfRequest { plain, json: true }).boxed()
        } else {
            lines.event_format(OfRequest { plain, json: false }).boxed()
        }
    }
}

/// A line as ever; after it which request and which trace it belongs to, where the task has one and the line does not say
/// so itself.
struct OfRequest<F> {
    plain: F,
    json: bool,
}

impl<S, N, F> FormatEvent<S, N> for OfRequest<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let Some(scope) = Scope::present() else { return self.plain.format_event(context, writer, event) };
        let mut line = String::with_capacity(256);
        self.plain.format_event(context, Writer::new(&mut line), event)?;
        put_request(&mut line, &scope, self.json)?;
        writer.write_str(&line)
    }
}

/// Both ids are of characters that need no escape in JSON but these two.
fn put_request(line: &mut String, scope: &Scope, json: bool) -> std::fmt::Result {
    if line.contains("correlation_id") {
        return Ok(());
    }
    let end = if json { "}\n" } else { "\n" };
    let Some(kept) = line.strip_suffix(end).map(str::len) else { return Ok(()) };
    line.truncate(kept);
    let correlation = scope.correlation().as_str();
    let trace = scope.trace();
    if json {
        let escaped = correlation.replace('\\', "\\\\").replace('"', "\\\"");
        write!(line, ",\"correlation_id\":\"{escaped}\"")?;
        trace.map_or(Ok(()), |trace| write!(line, ",\"trace_id\":\"{trace}\""))?;
    } else {
        write!(line, " correlation_id={correlation}")?;
        trace.map_or(Ok(()), |trace| write!(line, " trace_id={trace}"))?;
    }
    line.push_str(end);
    Ok(())
}

#[cfg(test)]
mod tests {
    use contract::CorrelationId;
    use http::HeaderMap;
    use http::header::HeaderValue;

    use super::*;
    use crate::traces::context;

    #[test]
    fn a_line_names_its_request_and_trace_once() {
        let mut headers = HeaderMap::new();
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        headers.insert("traceparent", HeaderValue::from_static(parent));
        let id = CorrelationId::parse(br#"a"b\c"#).expect("an id");
        let scope = Scope::new(id, context::accept(&headers), None);
        for (json, line, expected) in [
            (
                true,
                "{\"message\":\"x\"}\n",
                "{\"message\":\"x\",\"correlation_id\":\"a\\\"b\\\\c\",\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\"}\n",
            ),
            (false, "x\n", "x correlation_id=a\"b\\c trace_id=4bf92f3577b34da6a3ce929d0e0e4736\n"),
            (true, "{\"correlation_id\":\"b\"}\n", "{\"correlation_id\":\"b\"}\n"),
        ] {
            let mut line = line.to_owned();
            put_request(&mut line, &scope, json).expect("text");
            assert_eq!(line, expected);
        }
    }
}
