//! [`OpenRecord`]: the access record of a request whose answer is being sent, or of an open tunnel. It is closed after
//! the last byte or when the request is abandoned: the request's span ends, and its line goes to the access log.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bearer::Claims;
use http::Method;
use telemetry::{Lines, TraceId, access_line};
use tokio::time::Instant;

use crate::config::Destination;
use crate::metrics::ids::RequestIds;

/// A worker's access log.
pub(crate) type Log = Arc<Lines<AccessRecord>>;

/// The logged fields of a request: never a token, a body, or a path with ids; the subject only as a hash.
pub(crate) struct AccessRecord {
    pub(crate) began: Instant,
    pub(crate) ids: RequestIds,
    pub(crate) caller: Option<Arc<Claims>>,
    pub(crate) method: Method,
    pub(crate) route: &'static str,
    pub(crate) status: u16,
    pub(crate) first_byte: Duration,
    pub(crate) forwarded: Option<Forwarded>,
    pub(crate) received: Option<Arc<AtomicU64>>,
    pub(crate) from_edge: bool,
    pub(crate) reason: Cow<'static, str>,
    /// The log, if it is on.
    pub(crate) log: Option<Log>,
    /// Set when the record is closed.
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

/// A request for an upstream, and how long it took until the answer's head or the failure.
pub(crate) struct Forwarded {
    pub(crate) to: Destination,
    pub(crate) took: Duration,
    /// When the head arrived, or the request failed.
    pub(crate) at: Instant,
    /// The request was not refused before any of it was sent; only then is it counted as forwarded (module contract,
    /// Metrics).
    pub(crate) is_sent: bool,
}

/// An access record that is closed when this is dropped; empty if the request is neither logged nor traced.
#[derive(Default)]
pub(crate) struct OpenRecord(Option<Box<AccessRecord>>);

impl OpenRecord {
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    /// Counts bytes of the answer's body sent to the client.
    pub(crate) fn sent(&mut self, bytes: usize) {
        if let Some(record) = &mut self.0 {
            record.bytes_out += u64::try_from(bytes).unwrap_or(u64::MAX);
        }
    }

    /// Sets the bytes that a tunnel has carried so far, up and down.
    pub(crate) fn carried(&mut self, up: u64, down: u64) {
        if let Some(record) = &mut self.0 {
            (record.bytes_in, record.bytes_out) = (up, down);
        }
    }

    #[cfg(test)]
    pub(crate) fn reason(&self) -> &str {
        self.0.as_ref().map_or("", |record| &record.reason)
    }

    /// Records that the answer broke off after its head.
    pub(crate) fn broke_off(&mut self, reason: &'static str) {
        if let Some(record) = &mut self.0 {
            record.reason = Cow::Borrowed(reason);
        }
    }
}

impl Drop for OpenRecord {
    fn drop(&mut self) {
        if let Some(record) = self.0.take() {
            record.close();
        }
    }
}

impl std::fmt::Debug for OpenRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OpenRecord").field(&self.0.is_some()).finish()
    }
}

impl AccessRecord {
    /// Opens the record while parts of the request are still to come.
    pub(crate) fn open(self) -> OpenRecord {
        OpenRecord(Some(Box::new(self)))
    }

    fn close(mut self: Box<Self>) {
        if let Some(received) = &self.received {
            self.bytes_in = received.load(Ordering::Relaxed);
        }
        if let Some(span) = self.ids.span() {
            span.answered(self.method.as_str(), self.route, self.status, self.ids.correlation.as_str());
            if !self.reason.is_empty() {
                span.set("error.type", self.reason.to_string());
            }
            span.end();
        }
        if let Some(log) = self.log.take() {
            log.put(Instant::now().into_std(), self);
        }
    }

    fn trace(&self) -> Option<[u64; 2]> {
        self.ids.context().map(|context| halves(context.trace_id()))
    }

    fn subject(&self) -> Option<u64> {
        self.caller.as_ref().map(|caller| caller.subject_hash)
    }

    fn upstream(&self) -> (&str, Duration) {
        self.forwarded.as_ref().map_or(("", Duration::ZERO), Forwarded::told)
    }
}

access_line!(AccessRecord, |record, ended| {
    "service": word("gateway"),
    "correlation_id": quoted(record.ids.correlation.as_str()),
    "trace_id": hex(record.trace().as_ref().map_or(&[], |id| id.as_slice())),
    "subject": hex(record.subject().as_slice()),
    "method": word(record.method.as_str()),
    "route": word(record.route),
    "status": number(u64::from(record.status)),
    "elapsed_us": number(micros(ended.saturating_duration_since(record.began.into_std()))),
    "first_byte_us": number(micros(record.first_byte)),
    "upstream": quoted(record.upstream().0),
    "upstream_us": number(micros(record.upstream().1)),
    "bytes_in": number(record.bytes_in),
    "bytes_out": number(record.bytes_out),
    "origin": word(if record.from_edge { "edge" } else { "upstream" }),
    "reason": quoted(&record.reason),
});

impl Forwarded {
    fn told(&self) -> (&str, Duration) {
        (self.to.name(), self.took)
    }
}

/// Splits the id into its upper and lower half.
fn halves(id: TraceId) -> [u64; 2] {
    let id = u128::from_be_bytes(id.to_bytes());
    [id >> 64, id & u128::from(u64::MAX)].map(|half| u64::try_from(half).unwrap_or_default())
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;
    use crate::config::LeastRate;
    use crate::http::credit::Credit;
    use crate::response::body::EdgeBody;

    fn record() -> AccessRecord {
        AccessRecord {
            began: Instant::now(),
            ids: RequestIds::of(&HeaderMap::new(), None),
            caller: None,
            method: Method::GET,
            route: "/x",
            status: 200,
            first_byte: Duration::ZERO,
            forwarded: None,
            received: None,
            from_edge: false,
            reason: Cow::Borrowed(""),
            log: None,
            bytes_in: 0,
            bytes_out: 0,
        }
    }

    #[test]
    fn an_answer_that_is_cut_off_has_the_reason_in_its_account() {
        for (bytes, reason) in [(512, "client_too_slow"), (0, "client_stalled")] {
            let mut credit = Credit::new(LeastRate { bytes, grace: Duration::ZERO });
            let now = Instant::now();
            assert_eq!(credit.wait(now).is_some(), bytes > 0);
            let mut body = EdgeBody::full(Bytes::from_static(b"unread"));
            body.record(record().open());
            assert_eq!(body.reason(), "");
            body.cut_off(credit.slow_reader(now + Duration::from_secs(11)));
            assert_eq!(body.reason(), reason);
        }
    }
}
