//! What the edge answers itself: its health for balancers (alive, and ready to take requests), and the aggregated metrics.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use serde_json::json;

use super::refusal::Refusal;
use super::route::Probe;
use crate::wire::body::EdgeBody;
use crate::{Edge, aggregate};

/// Answers with the metrics of all services.
#[cold]
#[inline(never)]
pub(crate) fn metrics(edge: &Arc<Edge>) -> BoxFuture<'_, Result<Response<EdgeBody>, Refusal>> {
    Box::pin(async {
        let pieces = aggregate::scrape(edge).await.ok_or(Refusal::Internal("scrape_lost"))?;
        let mut response = Response::new(EdgeBody::pieces(pieces));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(telemetry::EXPOSITION_TYPE));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    })
}

/// Answers a probe; nothing beyond the status is told.
#[cold]
#[inline(never)]
pub(crate) fn probe(edge: &Edge, probe: Probe) -> Response<EdgeBody> {
    let (status, word) = match probe {
        Probe::Alive => (StatusCode::OK, "ok"),
        Probe::Ready => readiness(edge),
    };
    let body = json!({"data": {"status": word}}).to_string();
    let mut response = Response::new(EdgeBody::full(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn readiness(edge: &Edge) -> (StatusCode, &'static str) {
    if edge.stop.is_cancelled() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining")
    } else if !edge.pulses.all_beat() {
        (StatusCode::SERVICE_UNAVAILABLE, "stuck")
    } else if edge.tokens.verifier().keys_loaded() && edge.catalog.present().is_some() {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "starting")
    }
}
