//! Exports spans: a bounded queue, one thread, OTLP over HTTP. A request only enqueues its ended spans; spans that find
//! the queue full or that the receiver does not accept are dropped and counted.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    SdkTracerProvider, Span as SdkSpan, SpanData, SpanExporter as _, SpanProcessor,
};
use prometheus::IntCounter;

use super::config::{Destination, TraceConfig};
use super::wire::Wire;

/// How long the process waits at exit for the last spans.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// The exporter of this process.
static WAY_OUT: OnceLock<WayOut> = OnceLock::new();

/// A span with its part, or a request to flush.
enum Item {
    Span(Box<SpanData>, &'static str),
    Part(&'static str, Resource, IntCounter),
    Flush(SyncSender<()>),
}

/// Accepts spans from every part. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct WayOut {
    queue: SyncSender<Item>,
    config: Arc<TraceConfig>,
}

/// Starts the exporter; a second start in one process has no effect.
///
/// # Errors
/// The thread or the TLS configuration could not be made.
pub(super) fn start(config: TraceConfig) -> std::io::Result<()> {
    let way = WayOut::start(config)?;
    if WAY_OUT.set(way).is_err() {
        tracing::debug!("traces are already set up; keeping the first set-up");
    }
    Ok(())
}

/// Whether this process exports traces.
pub(super) fn is_on() -> bool {
    WAY_OUT.get().is_some()
}

/// The provider of one part's spans.
pub(super) fn provider(service: &'static str, lost: IntCounter) -> Option<SdkTracerProvider> {
    WAY_OUT.get().map(|way| way.provider(service, lost))
}

/// Flushes the queue, within a time limit.
pub(super) fn finish() {
    if WAY_OUT.get().is_some_and(|way| !way.flush(LAST_SPANS)) {
        tracing::warn!("the last spans could not be exported in time");
    }
}

impl WayOut {
    pub(super) fn start(config: TraceConfig) -> std::io::Result<Self> {
        let (queue, items) = sync_channel(config.queue);
        let config = Arc::new(config);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let sender = Sender { config: Arc::clone(&config), wire: Wire::new()?, parts: HashMap::new() };
        thread::Builder::new().name("traces".to_owned()).spawn(move || sender.run(&items, &runtime))?;
        Ok(Self { queue, config })
    }

    pub(super) fn provider(&self, service: &'static str, lost: IntCounter) -> SdkTracerProvider {
        let resource = self.config.resource(service);
        let dropped = lost.clone();
        // Setting up a part may wait for room: it happens once, at its start.
        if self.queue.send(Item::Part(service, resource.clone(), lost)).is_err() {
            tracing::warn!("the thread that exports traces has ended");
        }
        let processor = Processor { service, queue: self.queue.clone(), dropped };
        SdkTracerProvider::builder()
            .with_sampler(self.config.sampler())
            .with_resource(resource)
            .with_span_processor(processor)
            .build()
    }

    /// Whether everything in the queue was exported within `limit`.
    pub(super) fn flush(&self, limit: Duration) -> bool {
        let (done, wait) = sync_channel(1);
        let until = Instant::now() + limit;
        let mut wish = Item::Flush(done);
        loop {
            match self.queue.try_send(wish) {
                Ok(()) => break,
                Err(TrySendError::Full(back)) if Instant::now() < until => {
                    wish = back;
                    thread::park_timeout(Duration::from_millis(5));
                }
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => return false,
            }
        }
        wait.recv_timeout(until.saturating_duration_since(Instant::now())).is_ok()
    }
}

/// Enqueues ended spans.
#[derive(Debug)]
struct Processor {
    service: &'static str,
    queue: SyncSender<Item>,
    dropped: IntCounter,
}

impl SpanProcessor for Processor {
    fn on_start(&self, _span: &mut SdkSpan, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        if self.queue.try_send(Item::Span(Box::new(span), self.service)).is_err() {
            self.dropped.inc();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// One part's exporter, which knows its resource, and its waiting spans.
struct PartsWay {
    exporter: opentelemetry_otlp::SpanExporter,
    waiting: Vec<SpanData>,
    lost: IntCounter,
}

/// The state of the export thread.
struct Sender {
    config: Arc<TraceConfig>,
    wire: Wire,
    parts: HashMap<&'static str, PartsWay>,
}

impl Sender {
    fn run(mut self, items: &Receiver<Item>, runtime: &tokio::runtime::Runtime) {
        let mut due = Instant::now() + self.config.delay;
        loop {
            match items.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Item::Span(span, service)) => self.take(*span, service, runtime),
                Ok(Item::Part(service, resource, lost)) => self.add(service, &resource, lost),
                Ok(Item::Flush(done)) => {
                    self.send_all(runtime);
                    // The caller may have given up.
                    let _told = done.try_send(());
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.send_all(runtime);
                    due = Instant::now() + self.config.delay;
                }
                Err(RecvTimeoutError::Disconnected) => return self.send_all(runtime),
            }
        }
    }

    fn add(&mut self, service: &'static str, resource: &Resource, lost: IntCounter) {
        match exporter(&self.config.destination, self.wire.clone()) {
            Ok(mut exporter) => {
                exporter.set_resource(resource);
                self.parts.insert(service, PartsWay { exporter, waiting: Vec::new(), lost });
            }
            // The address is a valid URL already, so a header is invalid.
            Err(error) => tracing::error!(%error, service, "traces cannot be exported"),
        }
    }

    fn take(&mut self, span: SpanData, service: &'static str, runtime: &tokio::runtime::Runtime) {
        let Some(part) = self.parts.get_mut(service) else { return };
        part.waiting.push(span);
        if part.waiting.len() >= self.config.batch {
            part.send(runtime);
        }
    }

    fn send_all(&mut self, runtime: &tokio::runtime::Runtime) {
        for part in self.parts.values_mut() {
            part.send(runtime);
        }
    }
}

impl PartsWay {
    fn send(&mut self, runtime: &tokio::runtime::Runtime) {
        let batch = std::mem::take(&mut self.waiting);
        if batch.is_empty() {
            return;
        }
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        if let Err(error) = runtime.block_on(self.exporter.export(batch)) {
            self.lost.inc_by(count);
            tracing::warn!(%error, spans = count, "spans were not exported");
        }
    }
}

fn exporter(
    destination: &Destination,
    wire: Wire,
) -> Result<opentelemetry_otlp::SpanExporter, ExporterBuildError> {
    opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(wire)
        .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
        .with_endpoint(&destination.endpoint)
        .with_headers(destination.headers.clone())
        .with_timeout(destination.timeout)
        .build()
}

impl TraceConfig {
    /// The attributes of every span of a part: the operator's own, and the part's name.
    fn resource(&self, service: &'static str) -> Resource {
        let name = self.service_name.clone().unwrap_or_else(|| service.to_owned());
        Resource::builder()
            .with_service_name(name)
            .with_attribute(KeyValue::new("service.namespace", "platform"))
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build()
    }
}
