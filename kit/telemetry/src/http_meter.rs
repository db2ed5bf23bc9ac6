//! `http_requests_total`, `http_request_duration_seconds`, `http_requests_in_flight` (module contract, "Metrics").
//! Route labels are patterns, or `unmatched`; unknown methods are `OTHER` and unregistered statuses their class, so that
//! neither a client nor an upstream can create series.

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;
use prometheus::local::{LocalHistogram, LocalIntCounter};
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
};

/// Route label of a request that matches no pattern.
pub const UNMATCHED: &str = "unmatched";

/// Buckets of every duration family, 100 µs to 10 s: a cached read through the gateway is near the first, a timeout
/// near the last.
pub const DURATION_BUCKETS: [f64; 16] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The methods with their own label.
const METHODS: [&str; 9] = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE"];

/// The label of a method: its name, or `OTHER`.
#[must_use]
pub fn method_label(method: &str) -> &'static str {
    METHODS.iter().find(|known| **known == method).copied().unwrap_or("OTHER")
}

/// The label of a status: its number if it is registered, otherwise its class (`4xx`), so that no upstream can create any
/// number of series. As clients must, it takes a status past 599 for a server error (RFC 9110, section 15).
#[must_use]
pub fn status_label(status: u16) -> Cow<'static, str> {
    let known = StatusCode::from_u16(status).ok().filter(|status| status.canonical_reason().is_some());
    match status {
        _ if known.is_some() => Cow::Owned(status.to_string()),
        0..200 => Cow::Borrowed("1xx"),
        200..300 => Cow::Borrowed("2xx"),
        300..400 => Cow::Borrowed("3xx"),
        400..500 => Cow::Borrowed("4xx"),
        500.. => Cow::Borrowed("5xx"),
    }
}

/// Counts requests of one service. Cheap to clone.
#[derive(Clone)]
pub struct HttpMeter {
    total: IntCounterVec,
    duration: HistogramVec,
    in_flight: IntGauge,
}

impl HttpMeter {
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let labels = ["route", "method", "status"];
        let meter = Self {
            total: IntCounterVec::new(Opts::new("http_requests_total", "Requests handled."), &labels)?,
            duration: HistogramVec::new(
                HistogramOpts::new("http_request_duration_seconds", "Handling latency.")
                    .buckets(DURATION_BUCKETS.to_vec()),
                &labels,
            )?,
            in_flight: IntGauge::new("http_requests_in_flight", "Requests in progress.")?,
        };
        registry.register(Box::new(meter.total.clone()))?;
        registry.register(Box::new(meter.duration.clone()))?;
        registry.register(Box::new(meter.in_flight.clone()))?;
        Ok(meter)
    }

    /// Records one answered request. `route` is the matched pattern or [`UNMATCHED`], never a raw path.
    pub fn observe(&self, route: &str, method: &str, status: u16, elapsed: Duration) {
        let (total, duration) = self.labelled(route, method, status);
        total.inc();
        duration.observe(elapsed.as_secs_f64());
    }

    /// The series of one route, method and status, for a thread with many such requests: looking the series up costs
    /// more than counting, and so does counting on a shared counter.
    #[must_use]
    pub fn series(&self, route: &str, method: &str, status: u16) -> HttpSeries {
        let (total, duration) = self.labelled(route, method, status);
        HttpSeries { total: total.local(), duration: duration.local() }
    }

    fn labelled(&self, route: &str, method: &str, status: u16) -> (IntCounter, Histogram) {
        let status = status_label(status);
        let labels = [route, method_label(method), &*status];
        (self.total.with_label_values(&labels), self.duration.with_label_values(&labels))
    }

    /// Counts a request as in progress until the guard is dropped.
    #[must_use]
    pub fn in_flight(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// Sets the number of requests in progress, for callers that count them otherwise.
    pub fn set_in_flight(&self, requests: i64) {
        self.in_flight.set(requests);
    }
}

/// Thread-local counts of requests with one route, method and status. [`HttpSeries::flush`] adds them to the metrics.
pub struct HttpSeries {
    total: LocalIntCounter,
    duration: LocalHistogram,
}

impl HttpSeries {
    /// Records one answered request.
    pub fn observe(&self, elapsed: Duration) {
        self.total.inc();
        self.duration.observe(elapsed.as_secs_f64());
    }

    /// Adds the counts to the metrics.
    pub fn flush(&self) {
        self.total.flush();
        self.duration.flush();
    }
}

/// A request in progress.
pub struct InFlight(IntGauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_status_that_is_not_registered_is_labelled_with_its_class() {
        for (status, label) in
            [(200, "200"), (404, "404"), (499, "4xx"), (299, "2xx"), (101, "101"), (999, "5xx")]
        {
            assert_eq!(status_label(status), label);
        }
        let labels: BTreeSet<_> = (0..=u16::MAX).map(status_label).collect();
        assert!(labels.len() < 80, "{}", labels.len());
    }
}
