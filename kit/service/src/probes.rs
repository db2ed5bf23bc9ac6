//! `/health`, `/ready`, `/metrics` at the root of every internal listener, without a bearer (module contract,
//! "Forwarding and probes").

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use contract::ErrorBody;
use contract::envelope::code;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::{ApiError, Core, Data};

pub(crate) fn routes(core: Core) -> Router {
    Router::new()
        .route("/health", get(|| async { Data(json!({ "status": "ok" })) }))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(core)
}

async fn ready(State(core): State<Core>) -> Response {
    if let Err(error) = sqlx::query("SELECT 1").execute(&core.pool).await {
        tracing::warn!(%error, "not ready: the database does not answer");
        return not_ready("the database does not answer", json!({ "dependency": "postgres" }));
    }
    let waiting = core.readiness.waiting();
    if !waiting.is_empty() {
        let stuck = core.readiness.stuck();
        let details = if stuck.is_empty() {
            json!({ "waitingFor": waiting })
        } else {
            json!({ "waitingFor": waiting, "stuck": stuck })
        };
        return not_ready("start-up is not over", details);
    }
    Data(json!({ "status": "ready" })).into_response()
}

fn not_ready(message: &'static str, details: Value) -> Response {
    let body = ErrorBody::new(code::INTERNAL_ERROR, message, details).to_bytes();
    (StatusCode::SERVICE_UNAVAILABLE, [(CONTENT_TYPE, "application/json")], body).into_response()
}

async fn metrics(State(core): State<Core>) -> Response {
    core.gauges.read(&core.pool, core.reads.kept());
    core.workers.read_gauges();
    match core.metrics.render() {
        Ok(text) => ([(CONTENT_TYPE, telemetry::EXPOSITION_TYPE)], text).into_response(),
        Err(error) => ApiError::internal(error).into_response(),
    }
}
