//! The layers around every handler, outermost first: correlation id and trace with the request's span and log line,
//! metrics, time limit, panic, contention. Each calls the next in this file; no other code may add a layer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use contract::CorrelationId;
use contract::correlation;
use http::HeaderValue;
use scopeguard::ScopeGuard;
use telemetry::traces::context;
use telemetry::{HttpMeter, Scope, Tracer, UNMATCHED};

use crate::account::Account;
use crate::error::REQUEST_BUDGET;
use crate::panics::caught;
use crate::{ApiError, Core, abandoned, budget, contention};

/// Largest request body of a foundation service, in bytes.
pub const FOUNDATION_BODY_LIMIT: usize = 1 << 20;
/// Largest request body of a module's operation, in bytes.
pub const MODULE_BODY_LIMIT: usize = 256 << 10;
/// Longest a request may take: under the gateway's 5 s to the first byte, so that the client sees the service's own
/// refusal.
pub const REQUEST_TIMEOUT: Duration = Duration::from_millis(4_500);

/// The limits of one service.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum size of a request body, in bytes.
    pub body: usize,
    /// Time limit of a request, excluding the time spent waiting for the client's body.
    pub request: Duration,
}

impl Limits {
    /// Limits of identity, org, registry, authz and the built-in provider.
    pub const FOUNDATION: Self = Self { body: FOUNDATION_BODY_LIMIT, request: REQUEST_TIMEOUT };
    /// Limits of the modules.
    pub const MODULE: Self = Self { body: MODULE_BODY_LIMIT, request: REQUEST_TIMEOUT };
}

/// The body limit in bytes, carried to the body extractor.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimit(pub usize);

impl Default for BodyLimit {
    fn default() -> Self {
        Self(MODULE_BODY_LIMIT)
    }
}

/// The service's parts that the layers need.
struct Chassis {
    service: &'static str,
    tracer: Option<Tracer>,
    meter: HttpMeter,
    limits: Limits,
}

/// Wraps a service's routes, including unknown paths, in the layers. To axum they are one layer: each further one would
/// cost a request a copy of the route and a future on the heap.
pub fn around(core: &Core, routes: Router) -> Router {
    let meter = core.metrics.http().clone();
    let chassis = Chassis { service: core.name, tracer: core.tracer.clone(), meter, limits: core.limits };
    routes
        .fallback(|| async { ApiError::NotFound("path".into()) })
        .method_not_allowed_fallback(|| async { ApiError::MethodNotAllowed })
        .layer(from_fn_with_state(Arc::new(chassis), name))
}

/// Gives the request its ids and records it when it ends.
async fn name(State(chassis): State<Arc<Chassis>>, mut request: Request, next: Next) -> Response {
    let sent = request.headers().get(correlation::HEADER).map(HeaderValue::as_bytes);
    let id = CorrelationId::accept(sent);
    let value = HeaderValue::from_str(id.as_str());
    request.extensions_mut().insert(id.clone());
    let parent = context::accept(request.headers());
    let span = chassis.tracer.as_ref().map(|tracer| tracer.serve(parent.as_ref()));
    let scope = Scope::new(id, parent, span);
    let account = Account::open(chassis.service, Arc::clone(&scope), &request);
    let account = scopeguard::guard(account, Account::abandon);
    let mut response = abandoned::around(scope.around(meter(chassis, request, next))).await;
    if let Ok(value) = value {
        response.headers_mut().insert(correlation::HEADER, value);
    }
    ScopeGuard::into_inner(account).close(&response);
    response
}

async fn meter(chassis: Arc<Chassis>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let busy = chassis.meter.in_flight();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = limit(chassis.limits, request, next).await;
    let label = route.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
    chassis.meter.observe(label, method.as_str(), response.status().as_u16(), begun.elapsed());
    drop(busy);
    response
}

/// Gives up a request that takes too long: its future is dropped, and with it its transaction.
async fn limit(limits: Limits, mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(BodyLimit(limits.body));
    let work = async |request| caught(contention::layer(request, next)).await;
    match budget::within(limits.request, request, work).await {
        Some(Ok(response)) => response,
        // A panic in a handler affects its own request only.
        Some(Err(panic)) => ApiError::internal(panic).into_response(),
        None => ApiError::unavailable(REQUEST_BUDGET).into_response(),
    }
}
