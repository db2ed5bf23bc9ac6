//! Answers of the gateway itself: its health for balancers (alive, and ready to take requests), and the aggregated
//! metrics.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use serde_json::json;

use crate::pipeline::refusal::Refusal;
use crate::pipeline::route::Probe;
use crate::pipeline::worker::Worker;
use crate::response::body::EdgeBody;

/// Answers with the metrics of all services.
#[cold]
#[inline(never)]
pub(crate) fn metrics(worker: &Arc<Worker>) -> BoxFuture<'_, Result<Response<EdgeBody>, Refusal>> {
    Box::pin(async {
        let pieces = worker.aggregator.scrape().await.ok_or(Refusal::Internal("scrape_lost"))?;
        let mut response = Response::new(EdgeBody::pieces(pieces));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(telemetry::EXPOSITION_TYPE));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    })
}

/// Answers a probe with its status alone.
#[cold]
#[inline(never)]
pub(crate) fn probe(worker: &Worker, probe: Probe) -> Response<EdgeBody> {
    let (status, word) = match probe {
        Probe::Alive => (StatusCode::OK, "ok"),
        Probe::Ready => readiness(worker),
    };
    let body = json!({"data": {"status": word}}).to_string();
    let mut response = Response::new(EdgeBody::full(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn readiness(worker: &Worker) -> (StatusCode, &'static str) {
    if worker.stop.is_cancelled() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining")
    } else if !worker.heartbeats.all_beat() {
        (StatusCode::SERVICE_UNAVAILABLE, "stuck")
    } else if worker.tokens.verifier().keys_loaded() && worker.catalog.present().is_some() {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "starting")
    }
}
