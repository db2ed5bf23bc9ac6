//! `http_requests_total`, `http_request_duration_seconds`, `http_requests_in_flight` (module contract, "Metrics").
//! Route labels are patterns, or `unmatched`; unknown methods are `OTHER`, so that no client can create series.

use std::time::Duration;

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
        let status = status.to_string();
        let labels = [route, method_label(method), status.as_str()];
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
