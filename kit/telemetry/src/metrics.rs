//! One registry per service: every series carries the constant label `service` (module contract, "Metrics").

use std::collections::HashMap;

use prometheus::core::Collector;
use prometheus::{IntGaugeVec, Opts, Registry, TextEncoder};

use crate::HttpMeter;
use crate::writer::Dropped;

/// `Content-Type` of the exposition.
pub const EXPOSITION_TYPE: &str = "text/plain; version=0.0.4";

/// The metrics of one service. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    http: HttpMeter,
}

impl Metrics {
    /// A registry for `service` with the HTTP and build families. `commit` is `unknown` when not supplied.
    ///
    /// # Errors
    /// The service name is not a valid label value; a constant name always is.
    pub fn new(service: &str, version: &str, commit: &str) -> prometheus::Result<Self> {
        let labels = HashMap::from([("service".to_owned(), service.to_owned())]);
        let registry = Registry::new_custom(None, Some(labels))?;
        let http = HttpMeter::register(&registry)?;
        let build = IntGaugeVec::new(
            Opts::new("platform_build_info", "Build identity; always 1."),
            &["version", "commit"],
        )?;
        build.with_label_values(&[version, commit]).set(1);
        registry.register(Box::new(build))?;
        registry.register(Box::new(Dropped::new()?))?;
        // Metrics of the process: CPU, memory, descriptors, start time. Several services may share one process.
        #[cfg(target_os = "linux")]
        registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        Ok(Self { registry, http })
    }

    /// The HTTP families.
    #[must_use]
    pub const fn http(&self) -> &HttpMeter {
        &self.http
    }

    /// The registry, for further families.
    #[must_use]
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Registers a family and returns it.
    ///
    /// # Errors
    /// A family of the same name is registered already.
    pub fn register<C: Collector + Clone + 'static>(&self, family: C) -> prometheus::Result<C> {
        self.registry.register(Box::new(family.clone()))?;
        Ok(family)
    }

    /// The metrics in text format 0.0.4.
    ///
    /// # Errors
    /// A family cannot be encoded, which does not happen to a registered one.
    pub fn render(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_series_names_its_service() {
        let metrics = Metrics::new("org", "0.1.0", "unknown").expect("a registry");
        let busy = metrics.http().in_flight();
        metrics.http().observe("/internal/org/x/{id}", "GET", 200, Duration::from_millis(3));
        metrics.http().observe("unmatched", "BREW", 404, Duration::from_millis(3));
        let text = metrics.render().expect("text");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(line.contains("service=\"org\""), "{line}");
        }
        for part in [
            "platform_build_info{",
            "http_requests_in_flight{service=\"org\"} 1",
            "method=\"OTHER\"",
            "le=\"0.005\"",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        drop(busy);
        assert!(metrics.render().expect("text").contains("http_requests_in_flight{service=\"org\"} 0"));
    }
}
