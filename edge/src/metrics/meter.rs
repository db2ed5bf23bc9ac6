//! The gateway's metric families: those of the catalogue, and its own. It serves no `/metrics`: the aggregated route
//! renders them. Every label has a fixed set of values, or the keys of the catalog.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Method;
use prometheus::local::{LocalHistogram, LocalIntCounter};
use prometheus::{Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts};
use telemetry::{DURATION_BUCKETS, HttpSeries, Metrics, Tracer, method_label};

use crate::metrics::tally::Tally;

/// Counts the gateway's work. Every worker has its own; the families are shared, but counters updated by every request
/// are per worker.
#[derive(Clone)]
pub(crate) struct Meter {
    counted: Arc<Counted>,
    workers: Arc<Mutex<Vec<Arc<Counted>>>>,
    metrics: Metrics,
    upstream_requests: IntCounterVec,
    upstream_duration: HistogramVec,
    connections: IntGaugeVec,
    connections_total: IntCounterVec,
    handshakes: IntCounterVec,
    refusals: IntCounterVec,
    catalog_revision: IntGaugeVec,
    catalog_silence: GaugeVec,
    certificate_expiry: IntGaugeVec,
    keys_age: GaugeVec,
    upstream_connections: IntCounterVec,
    /// Counters of limits that apply outside a refusal.
    pub(crate) tally: Tally,
}

/// A worker's counters, which a scrape merges into the metrics: with shared counters the cores would contend for their
/// cache lines.
#[derive(Default)]
struct Counted {
    counts: Mutex<Counts>,
    in_flight: AtomicI64,
}

/// Requests are counted in batches, because the counters have left the core's cache after each request.
#[derive(Default)]
struct Counts {
    answered: Vec<Answered>,
    /// The modules to which `answered` refers.
    modules: Vec<Arc<str>>,
    series: Series,
}

/// One answered request.
struct Answered {
    route: &'static str,
    method: &'static str,
    status: u16,
    elapsed: Duration,
    /// The index of the module it was forwarded to, and how long that took.
    forwarded: Option<(usize, Duration)>,
}

/// The series that a worker has looked up. Bounded by the table's routes, the catalog's modules and the statuses of
/// HTTP.
#[derive(Default)]
struct Series {
    http: BTreeMap<(usize, usize, u16), HttpSeries>,
    forwarded: BTreeMap<Arc<str>, (LocalHistogram, CountersByStatus)>,
}

type CountersByStatus = Vec<(u16, LocalIntCounter)>;

/// Requests counted per batch.
const BATCH: usize = 128;

/// Whether requests are counted at all; only `loadtests/observe/cost` builds a gateway without counting, to compare.
pub(crate) const OBSERVED: bool = !cfg!(feature = "unobserved");

/// The result of a TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handshake {
    Done,
    Failed,
    TimedOut,
}

/// Values read at scrape time; unknown ones have no series.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Present {
    pub(crate) catalog_revision: Option<i64>,
    pub(crate) catalog_silence: Option<Duration>,
    pub(crate) certificate_expiry: Option<i64>,
    pub(crate) keys_age: Option<Duration>,
}

/// Connections to one upstream since the gateway started: reused by requests, and dialled for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) upstream: String,
    pub(crate) reused: u64,
    pub(crate) dialled: u64,
}

/// A request in progress.
pub(crate) struct InFlight(Arc<Counted>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for InFlight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InFlight")
    }
}

/// An open connection.
pub(crate) struct Connected(IntGauge);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Handshake {
    pub(crate) fn of(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::TimedOut { Self::TimedOut } else { Self::Failed }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::TimedOut => "timed_out",
        }
    }
}

impl Meter {
    pub(crate) fn new(commit: &str) -> prometheus::Result<Self> {
        let metrics = Metrics::new("gateway", env!("CARGO_PKG_VERSION"), commit)?;
        let counter = |name: &str, help: &str, labels: &[&str]| {
            metrics.register(IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            metrics.register(IntGaugeVec::new(Opts::new(name, help), labels)?)
        };
        let age = |name: &str, help: &str| metrics.register(GaugeVec::new(Opts::new(name, help), &[])?);
        let own = Arc::<Counted>::default();
        Ok(Self {
            workers: Arc::new(Mutex::new(vec![Arc::clone(&own)])),
            counted: own,
            upstream_requests: counter(
                "platform_gateway_upstream_requests_total",
                "Module requests forwarded.",
                &["module", "status"],
            )?,
            upstream_duration: metrics.register(HistogramVec::new(
                HistogramOpts::new(
                    "platform_gateway_upstream_duration_seconds",
                    "Latency of the proxied call.",
                )
                .buckets(DURATION_BUCKETS.to_vec()),
                &["module"],
            )?)?,
            connections: gauge("platform_gateway_connections", "Open client connections.", &["listener"])?,
            connections_total: counter(
                "platform_gateway_connections_total",
                "Client connections accepted.",
                &["listener"],
            )?,
            handshakes: counter(
                "platform_gateway_tls_handshakes_total",
                "TLS handshakes by their end and the version agreed on.",
                &["result", "version"],
            )?,
            refusals: counter(
                "platform_gateway_refusals_total",
                "Requests that the gateway itself refused.",
                &["reason"],
            )?,
            catalog_revision: gauge(
                "platform_gateway_catalog_revision",
                "Revision of the catalog snapshot in use.",
                &[],
            )?,
            catalog_silence: age(
                "platform_gateway_catalog_age_seconds",
                "Time since registry was last heard.",
            )?,
            certificate_expiry: gauge(
                "platform_gateway_certificate_expiry_timestamp_seconds",
                "When the TLS certificate in use ends.",
                &[],
            )?,
            keys_age: age(
                "platform_gateway_jwks_age_seconds",
                "Time since the provider's keys were last read.",
            )?,
            upstream_connections: counter(
                "platform_gateway_upstream_connections_total",
                "Connections to upstreams that requests took, by where they came from.",
                &["upstream", "source"],
            )?,
            tally: Tally::new(&metrics)?,
            metrics,
        })
    }

    /// The gateway's own series.
    pub(crate) fn render(&self, present: &Present, lines: &[Lines]) -> prometheus::Result<String> {
        self.gather();
        for Lines { upstream, reused, dialled } in lines {
            for (source, count) in [("pool", *reused), ("dial", *dialled)] {
                // Counted per worker without contention; this only updates the sum.
                let counter = self.upstream_connections.with_label_values(&[upstream.as_str(), source]);
                counter.inc_by(count.saturating_sub(counter.get()));
            }
        }
        let whole = |gauges: &IntGaugeVec| gauges.with_label_values::<&str>(&[]);
        if let Some(revision) = present.catalog_revision {
            whole(&self.catalog_revision).set(revision);
        }
        if let Some(expiry) = present.certificate_expiry {
            whole(&self.certificate_expiry).set(expiry);
        }
        if let Some(age) = present.keys_age {
            self.keys_age.with_label_values::<&str>(&[]).set(age.as_secs_f64());
        }
        if let Some(silence) = present.catalog_silence {
            let age: Gauge = self.catalog_silence.with_label_values::<&str>(&[]);
            age.set(silence.as_secs_f64());
        }
        self.metrics.render()
    }

    /// Returns the tracer of the gateway's spans, if tracing is on.
    pub(crate) fn tracer(&self) -> prometheus::Result<Option<Tracer>> {
        Tracer::of("gateway", &self.metrics)
    }

    /// Counts a request as in progress until the result is dropped.
    pub(crate) fn begin(&self) -> Option<InFlight> {
        OBSERVED.then(|| {
            self.counted.in_flight.fetch_add(1, Ordering::Relaxed);
            InFlight(Arc::clone(&self.counted))
        })
    }

    /// Merges the workers' counters into the metrics.
    fn gather(&self) {
        let workers = lock(&self.workers);
        let in_flight = workers.iter().map(|counted| counted.in_flight.load(Ordering::Relaxed)).sum();
        self.metrics.http().set_in_flight(in_flight);
        for counted in &*workers {
            let mut counts = lock(&counted.counts);
            self.count(&mut counts);
            counts.series.flush();
        }
    }

    /// Returns the same families with counters for another worker.
    pub(crate) fn for_worker(&self) -> Self {
        let counted = Arc::<Counted>::default();
        lock(&self.workers).push(Arc::clone(&counted));
        Self {
            counted,
            workers: Arc::clone(&self.workers),
            metrics: self.metrics.clone(),
            upstream_requests: self.upstream_requests.clone(),
            upstream_duration: self.upstream_duration.clone(),
            connections: self.connections.clone(),
            connections_total: self.connections_total.clone(),
            handshakes: self.handshakes.clone(),
            refusals: self.refusals.clone(),
            catalog_revision: self.catalog_revision.clone(),
            catalog_silence: self.catalog_silence.clone(),
            certificate_expiry: self.certificate_expiry.clone(),
            keys_age: self.keys_age.clone(),
            upstream_connections: self.upstream_connections.clone(),
            tally: self.tally.clone(),
        }
    }

    /// Counts an answered request, and its forwarding to a module with the time that took.
    pub(crate) fn answered(
        &self,
        route: &'static str,
        method: &Method,
        status: u16,
        elapsed: Duration,
        forwarded: Option<(&Arc<str>, Duration)>,
    ) {
        let method = method_label(method.as_str());
        // This worker's own lock, contended only during a scrape, and then for microseconds.
        let mut counts = lock(&self.counted.counts);
        let forwarded = forwarded.map(|(module, took)| (counts.number(module), took));
        counts.answered.push(Answered { route, method, status, elapsed, forwarded });
        if counts.answered.len() >= BATCH {
            self.count(&mut counts);
        }
    }

    /// Separate from [`Meter::answered`], because most requests do not get here.
    #[inline(never)]
    fn count(&self, counts: &mut Counts) {
        let Counts { answered, modules, series } = counts;
        for Answered { route, method, status, elapsed, forwarded } in answered.drain(..) {
            // Labels are constants, so their addresses identify them.
            let entry = series.http.entry((route.as_ptr().addr(), method.as_ptr().addr(), status));
            entry.or_insert_with(|| self.metrics.http().series(route, method, status)).observe(elapsed);
            let module = forwarded.and_then(|(number, took)| Some((modules.get(number)?, took)));
            if let Some((module, took)) = module {
                self.forwarded(series, module, status, took);
            }
        }
        modules.clear();
    }

    /// Counts a request forwarded to a module, with the status that the client gets.
    fn forwarded(&self, series: &mut Series, module: &Arc<str>, status: u16, took: Duration) {
        let Some((duration, counters)) = series.forwarded.get_mut(module) else {
            let duration = self.upstream_duration.with_label_values(&[module]).local();
            series.forwarded.insert(Arc::clone(module), (duration, Vec::new()));
            return self.forwarded(series, module, status, took);
        };
        duration.observe(took.as_secs_f64());
        if let Some((_, counter)) = counters.iter().find(|(known, _)| *known == status) {
            return counter.inc();
        }
        let counter =
            self.upstream_requests.with_label_values(&[&**module, &*telemetry::status_label(status)]);
        let counter = counter.local();
        counter.inc();
        counters.push((status, counter));
    }

    /// Counts a request that the gateway refused; `reason` is one of a fixed set.
    pub(crate) fn refused(&self, reason: &'static str) {
        self.refusals.with_label_values(&[reason]).inc();
    }

    /// Counts a finished handshake; a failed one has no version.
    pub(crate) fn shook_hands(&self, result: Handshake, version: &'static str) {
        self.handshakes.with_label_values(&[result.word(), version]).inc();
    }

    /// Counts a connection of this listener as open until the result is dropped.
    pub(crate) fn connected(&self, listener: &'static str) -> Connected {
        self.connections_total.with_label_values(&[listener]).inc();
        let open = self.connections.with_label_values(&[listener]);
        open.inc();
        Connected(open)
    }
}

impl Counts {
    /// Returns the module's index. Two handles of one module may get two indexes, which is harmless.
    fn number(&mut self, module: &Arc<str>) -> usize {
        self.modules.iter().position(|known| Arc::ptr_eq(known, module)).unwrap_or_else(|| {
            self.modules.push(Arc::clone(module));
            self.modules.len() - 1
        })
    }
}

impl Series {
    fn flush(&self) {
        self.http.values().for_each(HttpSeries::flush);
        for (duration, counters) in self.forwarded.values() {
            duration.flush();
            for (_, counter) in counters {
                counter.flush();
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateways_families_are_those_of_the_catalogue_and_its_own() {
        let meter = Meter::new("unknown").expect("families");
        let busy = meter.begin();
        let open = meter.connected("tls");
        let module = Arc::from("timesheet");
        let forwarded = Some((&module, Duration::from_millis(1)));
        for worker in [meter.for_worker(), meter.for_worker()] {
            let busy = worker.begin();
            let took = Duration::from_millis(2);
            worker.answered("/api/{moduleKey}/{path}", &Method::GET, 503, took, forwarded);
            drop(busy);
        }
        meter.refused("token_missing");
        meter.shook_hands(Handshake::Done, "1.3");
        let nothing_known = meter.render(&Present::default(), &[]).expect("text");
        assert!(!nothing_known.contains("catalog") && !nothing_known.contains("certificate"));
        let present = Present {
            catalog_revision: Some(7),
            catalog_silence: Some(Duration::from_millis(1500)),
            certificate_expiry: Some(2_000_000_000),
            keys_age: Some(Duration::from_millis(500)),
        };
        let lines = [Lines { upstream: "timesheet".to_owned(), reused: 4, dialled: 2 }];
        let text = meter.render(&present, &lines).expect("text");
        for part in [
            "http_requests_in_flight{service=\"gateway\"} 1",
            "http_requests_total{method=\"GET\",route=\"/api/{moduleKey}/{path}\",status=\"503\",service=\"gateway\"} 2",
            "platform_gateway_upstream_requests_total{module=\"timesheet\",status=\"503\",service=\"gateway\"} 2",
            "platform_gateway_upstream_duration_seconds_bucket{module=\"timesheet\",service=\"gateway\",le=\"0.0001\"} 0",
            "platform_gateway_upstream_duration_seconds_count{module=\"timesheet\",service=\"gateway\"} 2",
            "platform_build_info{",
            "platform_gateway_connections{listener=\"tls\",service=\"gateway\"} 1",
            "platform_gateway_connections_total{listener=\"tls\",service=\"gateway\"} 1",
            "platform_gateway_tls_handshakes_total{result=\"done\",version=\"1.3\",service=\"gateway\"} 1",
            "platform_gateway_refusals_total{reason=\"token_missing\",service=\"gateway\"} 1",
            "platform_gateway_catalog_revision{service=\"gateway\"} 7",
            "platform_gateway_jwks_age_seconds{service=\"gateway\"} 0.5",
            "platform_gateway_upstream_connections_total{source=\"pool\",upstream=\"timesheet\",service=\"gateway\"} 4",
            "platform_gateway_upstream_connections_total{source=\"dial\",upstream=\"timesheet\",service=\"gateway\"} 2",
            "platform_gateway_catalog_age_seconds{service=\"gateway\"} 1.5",
            "platform_gateway_certificate_expiry_timestamp_seconds{service=\"gateway\"} 2000000000",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        drop((busy, open));
        let text = meter.render(&present, &lines).expect("text");
        assert!(text.contains("platform_gateway_connections{listener=\"tls\",service=\"gateway\"} 0"));
    }

    #[test]
    fn every_request_is_counted_once_however_many_there_are() {
        let meter = Meter::new("unknown").expect("families");
        let worker = meter.for_worker();
        let [docs, again, helpdesk] = ["docs", "docs", "helpdesk"].map(Arc::<str>::from);
        let brew = Method::from_bytes(b"BREW").expect("a method");
        let took = Duration::from_millis(1);
        for _ in 0..=BATCH {
            for (method, module) in [(&Method::GET, &docs), (&Method::GET, &again), (&brew, &helpdesk)] {
                worker.answered("/api/{moduleKey}/{path}", method, 200, took, Some((module, took)));
            }
        }
        let text = meter.render(&Present::default(), &[]).expect("text");
        let all = BATCH + 1;
        for (series, count) in [
            (
                "http_requests_total{method=\"GET\",route=\"/api/{moduleKey}/{path}\",status=\"200\",service=\"gateway\"}",
                all * 2,
            ),
            (
                "http_requests_total{method=\"OTHER\",route=\"/api/{moduleKey}/{path}\",status=\"200\",service=\"gateway\"}",
                all,
            ),
            (
                "platform_gateway_upstream_requests_total{module=\"docs\",status=\"200\",service=\"gateway\"}",
                all * 2,
            ),
            (
                "platform_gateway_upstream_duration_seconds_count{module=\"helpdesk\",service=\"gateway\"}",
                all,
            ),
        ] {
            assert!(
                text.lines().any(|line| line == format!("{series} {count}")),
                "{series} {count} in\n{text}"
            );
        }
    }
}
