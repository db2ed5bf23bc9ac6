//! SQL statements as spans: sqlx emits an event for each completed statement, and an event within a traced request
//! becomes a span of that request. The text is safe to export: a request's statements pass values as parameters and
//! format only table names and constants into the text. Role passwords are set at start-up, outside any request.

use std::fmt;
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{DynFilterFn, dynamic_filter_fn};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::scope::Scope;

const TARGET: &str = "sqlx::query";
/// Longest statement text on a span; enough to recognise the statement.
const MOST_TEXT: usize = 1_024;

/// A subscriber of sqlx's events.
#[derive(Debug)]
pub(crate) struct Statements;

impl Statements {
    /// The layer; an untraced request costs one check.
    pub(crate) fn layer<S>() -> impl Layer<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        Self.with_filter(of_traced())
    }
}

fn of_traced<S>() -> DynFilterFn<S> {
    dynamic_filter_fn(|metadata, _| {
        metadata.target() == TARGET && Scope::present().is_some_and(|scope| scope.span().is_some())
    })
}

impl<S: Subscriber> Layer<S> for Statements {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let Some(scope) = Scope::present() else { return };
        let mut read = Statement::default();
        event.record(&mut read);
        let text = if read.text.is_empty() { read.summary } else { read.text };
        let name = operation(&text);
        let Some(span) = scope.span().and_then(|span| span.past(name.clone(), read.took)) else { return };
        span.set("db.system.name", "postgresql");
        span.set("db.operation.name", name);
        span.set("db.query.text", text);
        span.set("db.response.returned_rows", i64::try_from(read.returned).unwrap_or(i64::MAX));
        span.set("db.response.affected_rows", i64::try_from(read.affected).unwrap_or(i64::MAX));
    }
}

#[derive(Default)]
struct Statement {
    summary: String,
    text: String,
    took: Duration,
    returned: u64,
    affected: u64,
}

impl Visit for Statement {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "summary" => self.summary = shortened(value),
            "db.statement" => self.text = shortened(value),
            _ => {}
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "rows_returned" => self.returned = value,
            "rows_affected" => self.affected = value,
            _ => {}
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        if field.name() == "elapsed_secs" {
            self.took = Duration::try_from_secs_f64(value).unwrap_or_default();
        }
    }

    fn record_debug(&mut self, _field: &Field, _value: &dyn fmt::Debug) {}
}

/// One line of limited length, without the statement's leading comments.
fn shortened(text: &str) -> String {
    let lines = text.lines().map(str::trim).skip_while(|line| line.is_empty() || line.starts_with("--"));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    words.join(" ").chars().take(MOST_TEXT).collect()
}

/// The operation of a statement: its first word.
fn operation(text: &str) -> String {
    let word = text.split(|character: char| !character.is_ascii_alphabetic()).next().unwrap_or_default();
    if word.is_empty() { "SQL".to_owned() } else { word.to_ascii_uppercase() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_one_line_and_named_by_what_it_does() {
        let text = "\n\n-- What changed.\n-- And more.\nwith a AS (\n  SELECT 1) -- one\nSELECT * FROM a\n";
        assert_eq!(shortened(text), "with a AS ( SELECT 1) -- one SELECT * FROM a");
        assert_eq!(operation(&shortened(text)), "WITH");
        assert_eq!((operation("COMMIT").as_str(), operation("(SELECT 1)").as_str()), ("COMMIT", "SQL"));
        assert_eq!(shortened(&"x".repeat(2 * MOST_TEXT)).len(), MOST_TEXT);
    }
}
