//! One registry a service: every series carries the constant label `service` (module contract, "Metrics").

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
    /// A registry for `service` with the HTTP and build families in it. `commit` is `unknown` when not supplied.
    ///
    /// # Errors
    /// A service name that is no label value, which a constant name never is.
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
        // Of the process that the service runs in: CPU, memory, descriptors, start. Several services may share one.
        #[cfg(target_os = "linux")]
        registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        Ok(Self { registry, http })
    }

    /// The families of the HTTP catalogue.
    #[must_use]
    pub const fn http(&self) -> &HttpMeter {
        &self.http
    }

    /// Where further families go.
    #[must_use]
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Adds a family and gives it back.
    ///
    /// # Errors
    /// A second family of the same name.
    pub fn register<C: Collector + Clone + 'static>(&self, family: C) -> prometheus::Result<C> {
        self.registry.register(Box::new(family.clone()))?;
        Ok(family)
    }

    /// The exposition in text format 0.0.4.
    ///
    /// # Errors
    /// A family that cannot be written, which a registered one always can.
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
