//! Counters of limits that apply outside a refusal: every limit of the gateway shows in a counter when it is reached.

use prometheus::{IntCounter, IntCounterVec, Opts};

use crate::http::credit::SlowReader;
use telemetry::Metrics;

/// The counters. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Tally {
    certificates: IntCounterVec,
    limited: IntCounterVec,
    waits: IntCounterVec,
    closed: IntCounterVec,
    cut_off: IntCounterVec,
    proxy_headers: IntCounterVec,
    /// Lines dropped because the access log's queue was full.
    pub(crate) log_dropped: IntCounter,
}

/// The result of reloading changed TLS files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reload {
    Used,
    Refused,
}

/// What new connections waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The connection limit is reached.
    Connections,
    /// The handshake limit is reached.
    Handshakes,
    /// The process has no free file descriptors, or accepting failed otherwise.
    Descriptors,
}

/// Why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Its address is at its connection limit.
    AddressLimit,
    /// It was silent or idle, and others waited for a permit.
    Evicted,
    /// Its client sent too many frames without work.
    Flood,
}

impl Tally {
    pub(crate) fn new(metrics: &Metrics) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, label: &str| {
            metrics.register(IntCounterVec::new(Opts::new(name, help), &[label])?)
        };
        Ok(Self {
            certificates: counter(
                "platform_gateway_certificate_reloads_total",
                "TLS files that changed, by what came of it.",
                "result",
            )?,
            limited: counter(
                "platform_gateway_rate_limited_total",
                "Requests refused by a rate limit.",
                "scope",
            )?,
            waits: counter(
                "platform_gateway_accept_waits_total",
                "Times that new connections had to wait, by the limit.",
                "limit",
            )?,
            closed: counter(
                "platform_gateway_connections_closed_total",
                "Connections closed because of what their clients did, by the reason.",
                "reason",
            )?,
            cut_off: counter(
                "platform_gateway_answers_cut_off_total",
                "Answers cut off because their clients took too little of them, by the reason.",
                "reason",
            )?,
            proxy_headers: counter(
                "platform_gateway_proxy_headers_total",
                "PROXY headers by whether they could be used.",
                "result",
            )?,
            log_dropped: metrics.register(IntCounter::new(
                "platform_gateway_access_log_dropped_total",
                "Lines of the access log that nobody took away in time.",
            )?)?,
        })
    }

    pub(crate) fn reloaded(&self, reload: Reload) {
        let word = match reload {
            Reload::Used => "used",
            Reload::Refused => "refused",
        };
        self.certificates.with_label_values(&[word]).inc();
    }

    pub(crate) fn limited(&self, scope: &'static str) {
        self.limited.with_label_values(&[scope]).inc();
    }

    pub(crate) fn waited(&self, wait: Wait) {
        let word = match wait {
            Wait::Connections => "connections",
            Wait::Handshakes => "handshakes",
            Wait::Descriptors => "descriptors",
        };
        self.waits.with_label_values(&[word]).inc();
    }

    pub(crate) fn closed(&self, closed: Closed) {
        let word = match closed {
            Closed::AddressLimit => "address_limit",
            Closed::Evicted => "evicted",
            Closed::Flood => "flood",
        };
        self.closed.with_label_values(&[word]).inc();
    }

    pub(crate) fn cut_off(&self, why: SlowReader) {
        self.cut_off.with_label_values(&[why.reason()]).inc();
    }

    pub(crate) fn proxied(&self, usable: bool) {
        self.proxy_headers.with_label_values(&[if usable { "used" } else { "refused" }]).inc();
    }
}
