//! [`Open`]: the account of a request whose answer is under way, and of a tunnel while it lasts. It is closed when the last
//! byte is sent or nobody wants any more: the request's span ends, and its line goes to the access log.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bearer::Claims;
use http::Method;
use telemetry::{AccessRecord, Lines, Value};
use time::OffsetDateTime;
use tokio::time::Instant;

use super::clearance::Destination;
use super::named::Named;

/// Where a worker's lines go.
pub(crate) type Log = Arc<Lines>;

/// What is told of a request in the end: never a token, a body, or a path with ids; the subject only as a hash.
pub(crate) struct Account {
    pub(super) at: OffsetDateTime,
    pub(super) began: Instant,
    pub(super) named: Named,
    pub(super) caller: Option<Arc<Claims>>,
    pub(super) method: Method,
    pub(super) route: &'static str,
    pub(super) status: u16,
    pub(super) first_byte: Duration,
    pub(super) forwarded: Option<Forwarded>,
    pub(super) received: Option<Arc<AtomicU64>>,
    pub(super) from_edge: bool,
    pub(super) reason: Cow<'static, str>,
    /// The log, where it wants a line.
    pub(super) log: Option<Log>,
    /// Known when it is closed.
    pub(super) elapsed: Duration,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
}

/// A request that went to an upstream, and how long its answer's head took.
pub(crate) struct Forwarded {
    pub(super) to: Destination,
    pub(super) took: Duration,
}

/// An account that is closed when this is dropped; none where nobody wants one.
#[derive(Default)]
pub(crate) struct Open(Option<Box<Account>>);

impl Open {
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    /// Bytes of the answer's body went to the client.
    pub(crate) fn sent(&mut self, bytes: usize) {
        if let Some(account) = &mut self.0 {
            account.bytes_out += u64::try_from(bytes).unwrap_or(u64::MAX);
        }
    }

    /// Bytes that a tunnel has passed on so far, up and down.
    pub(crate) fn carried(&mut self, up: u64, down: u64) {
        if let Some(account) = &mut self.0 {
            (account.bytes_in, account.bytes_out) = (up, down);
        }
    }

    /// The answer broke off after its head.
    pub(crate) fn broke_off(&mut self, reason: &'static str) {
        if let Some(account) = &mut self.0 {
            account.reason = Cow::Borrowed(reason);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(account) = self.0.take() {
            account.close();
        }
    }
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Open").field(&self.0.is_some()).finish()
    }
}

impl Account {
    /// Opens it: something of the request is still to come.
    pub(super) fn open(self) -> Open {
        Open(Some(Box::new(self)))
    }

    fn close(mut self: Box<Self>) {
        self.elapsed = self.began.elapsed();
        if let Some(received) = &self.received {
            self.bytes_in = received.load(Ordering::Relaxed);
        }
        if let Some(span) = self.named.span() {
            span.answered(self.method.as_str(), self.route, self.status, self.named.correlation.as_str());
            if !self.reason.is_empty() {
                span.set("error.type", self.reason.to_string());
            }
            span.end();
        }
        if let Some(log) = self.log.take() {
            log.put(&*self);
        }
    }
}

impl AccessRecord for Account {
    fn at(&self) -> OffsetDateTime {
        self.at
    }

    fn fields(&self, field: &mut dyn FnMut(&'static str, Value<'_>)) {
        let subject = self.caller.as_ref().map(|caller| caller.subject_hash.to_be_bytes());
        let trace = self.named.context().map(|context| context.trace_id().to_bytes());
        let upstream = self.forwarded.as_ref().map(|forwarded| forwarded.to.name());
        let took = self.forwarded.as_ref().map_or(0, |forwarded| micros(forwarded.took));
        field("service", Value::Plain("gateway"));
        field("correlation_id", Value::Text(self.named.correlation.as_str()));
        field("trace_id", Value::Hex(trace.as_ref().map_or(&[], |id| id.as_slice())));
        field("subject", Value::Hex(subject.as_ref().map_or(&[], |hash| hash.as_slice())));
        field("method", Value::Plain(self.method.as_str()));
        field("route", Value::Plain(self.route));
        field("status", Value::Number(u64::from(self.status)));
        field("elapsed_us", Value::Number(micros(self.elapsed)));
        field("first_byte_us", Value::Number(micros(self.first_byte)));
        field("upstream", Value::Text(upstream.unwrap_or_default()));
        field("upstream_us", Value::Number(took));
        field("bytes_in", Value::Number(self.bytes_in));
        field("bytes_out", Value::Number(self.bytes_out));
        field("origin", Value::Plain(if self.from_edge { "edge" } else { "upstream" }));
        field("reason", Value::Text(&self.reason));
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
