//! Metrics of the memory engine: whether it decides, how far it is behind, and whether the two engines ever disagreed.

use std::time::Duration;

use prometheus::{Gauge, IntCounter, IntGauge};
use telemetry::Metrics;

/// The metric families. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct FeedMeter {
    loaded: IntGauge,
    load_seconds: Gauge,
    tuples: IntGauge,
    lag: Gauge,
    changes: IntCounter,
    compared: IntCounter,
    mismatches: IntCounter,
}

impl FeedMeter {
    /// Registers the families.
    pub(crate) fn register(metrics: &Metrics) -> prometheus::Result<Self> {
        let number = |name: &str, help: &str| metrics.register(IntGauge::new(name, help)?);
        let count = |name: &str, help: &str| metrics.register(IntCounter::new(name, help)?);
        let seconds = |name: &str, help: &str| metrics.register(Gauge::new(name, help)?);
        Ok(Self {
            loaded: number(
                "platform_authz_memory_loaded",
                "1: decided from memory; 0: by SQL, while loading or catching up.",
            )?,
            load_seconds: seconds(
                "platform_authz_load_seconds",
                "How long the last load of all tuples took.",
            )?,
            tuples: number("platform_authz_tuples", "Tuples in memory.")?,
            lag: seconds(
                "platform_authz_feed_lag_seconds",
                "Age that the graph in memory had when the change log was last read or could not be read.",
            )?,
            changes: count("platform_authz_feed_changes_total", "Changes read from the log.")?,
            compared: count("platform_authz_selfcheck_total", "Decisions compared with the SQL engine.")?,
            mismatches: count(
                "platform_authz_selfcheck_mismatch_total",
                "Decisions on which the engines disagreed; must stay 0.",
            )?,
        })
    }

    pub(crate) fn loading(&self) {
        self.loaded.set(0);
        self.tuples.set(0);
    }

    pub(crate) fn catching_up(&self) {
        self.loaded.set(0);
    }

    pub(crate) fn deciding(&self) {
        self.loaded.set(1);
    }

    pub(crate) fn loaded(&self, took: Duration) {
        self.deciding();
        self.load_seconds.set(took.as_secs_f64());
    }

    pub(crate) fn read(&self, lag: Duration, tuples: u64) {
        self.lag.set(lag.as_secs_f64());
        self.tuples.set(i64::try_from(tuples).unwrap_or(i64::MAX));
    }

    pub(crate) fn behind(&self, lag: Duration) {
        self.lag.set(lag.as_secs_f64());
    }

    pub(crate) fn changed(&self, count: usize) {
        self.changes.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    pub(crate) fn compared(&self, same: bool) {
        self.compared.inc();
        if !same {
            self.mismatches.inc();
        }
    }
}
