//! The gateway's metric families. It has no `/metrics` of its own: the aggregated route renders them.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts};
use telemetry::{InFlight, Metrics};

/// Counts what the edge does. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Meter {
    metrics: Metrics,
    upstream_requests: IntCounterVec,
    upstream_duration: HistogramVec,
}

impl Meter {
    pub(crate) fn new(commit: &str) -> prometheus::Result<Self> {
        let metrics = Metrics::new("gateway", env!("CARGO_PKG_VERSION"), commit)?;
        let upstream_requests = metrics.register(IntCounterVec::new(
            Opts::new("platform_gateway_upstream_requests_total", "Module requests forwarded."),
            &["module", "status"],
        )?)?;
        let upstream_duration = metrics.register(HistogramVec::new(
            HistogramOpts::new("platform_gateway_upstream_duration_seconds", "Latency of the proxied call."),
            &["module"],
        )?)?;
        Ok(Self { metrics, upstream_requests, upstream_duration })
    }

    /// The gateway's own series.
    pub(crate) fn render(&self) -> prometheus::Result<String> {
        self.metrics.render()
    }

    /// Counts a request as in progress until the result is dropped.
    pub(crate) fn begin(&self) -> InFlight {
        self.metrics.http().in_flight()
    }

    /// One answered request.
    pub(crate) fn observe(&self, label: &str, method: &str, status: u16, elapsed: Duration) {
        self.metrics.http().observe(label, method, status, elapsed);
    }

    /// One request that was forwarded to a module, with the status the client gets.
    pub(crate) fn forwarded(&self, module: &str, status: u16, elapsed: Duration) {
        self.upstream_requests.with_label_values(&[module, status.to_string().as_str()]).inc();
        self.upstream_duration.with_label_values(&[module]).observe(elapsed.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateways_families_are_those_of_the_catalogue() {
        let meter = Meter::new("unknown").expect("families");
        let busy = meter.begin();
        meter.observe("/api/{moduleKey}/{path}", "GET", 503, Duration::from_millis(2));
        meter.forwarded("timesheet", 503, Duration::from_millis(1));
        let text = meter.render().expect("text");
        for part in [
            "http_requests_in_flight{service=\"gateway\"} 1",
            "platform_gateway_upstream_requests_total{module=\"timesheet\",status=\"503\",service=\"gateway\"} 1",
            "platform_gateway_upstream_duration_seconds_count{module=\"timesheet\",service=\"gateway\"} 1",
            "platform_build_info{",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        drop(busy);
    }
}
