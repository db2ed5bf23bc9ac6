//! The whole way of one request on one screen; the only file that knows the order. `run` renders and counts around
//! `attempt`, whose every `?` is a refusal.

use std::sync::Arc;

use http::{Request, Response};
use scopeguard::ScopeGuard;
use tokio::time::Instant;

use super::bearer::authenticate;
use super::clearance::{self, Clearance, Destination};
use super::guard::Guarded;
use super::outbound::Outbound;
use super::refusal::Refusal;
use super::route::To;
use super::routes::Then;
use super::trace::Trace;
use super::{cors, guard, inbound, local, provision};
use crate::Edge;
use crate::wire::body::EdgeBody;
use crate::wire::connection::Peer;
use crate::wire::h1::server::Refused;
use crate::wire::incoming::RequestBody;
use crate::wire::upstream::Failure;

/// One request, answered.
pub(crate) async fn run(
    edge: &Arc<Edge>,
    peer: Peer,
    mut request: Request<RequestBody>,
) -> Response<EdgeBody> {
    let mut trace = Trace::begin(edge, &request);
    trace.listen(request.body_mut());
    // Whatever drops this future before it has answered, the request has its line.
    let mut trace = scopeguard::guard(trace, Trace::abandoned);
    let answered = attempt(edge, peer, request, &mut trace).await;
    ScopeGuard::into_inner(trace).finish(edge, answered)
}

/// What could not be read as a request is answered, marked, counted and logged like one.
pub(crate) fn refuse(edge: &Edge, refused: Refused) -> Response<EdgeBody> {
    Trace::begin(edge, &Request::new(())).finish(edge, Err(Refusal::Head(refused)))
}

async fn attempt(
    edge: &Arc<Edge>,
    peer: Peer,
    request: Request<RequestBody>,
    trace: &mut Trace,
) -> Result<Response<EdgeBody>, Refusal> {
    let framed = guard::frame(&edge.config.limits, request)?;
    if cors::is_preflight(&framed.request) {
        return Ok(cors::preflight(trace.origin.as_ref()));
    }
    let guarded = guard::guard(&edge.config, peer, &trace.named, framed)?;
    let route = edge.routes.resolve(&guarded)?;
    trace.matched(&route);
    let cleared = match route.to {
        To::Probe(probe) => return Ok(local::probe(edge, probe)),
        To::Provider(path) => {
            trace.limited(edge, edge.rates.anonymous(&guarded))?;
            clearance::provider(edge, &guarded, &path)
        }
        to @ (To::Fixed(_) | To::Module(_)) => {
            let step = trace.named.step("authenticate");
            let caller = match authenticate(&edge.tokens, &guarded).await {
                Ok(caller) => caller,
                Err(refusal) => return Err(unless_limited(edge, &guarded, trace, refusal)),
            };
            drop(step);
            trace.called_by(&caller);
            trace.limited(edge, edge.rates.subject(&caller.claims.subject))?;
            let step = trace.named.step("provision");
            provision::ensure(edge, &caller, to.guard(), &guarded.named).await?;
            drop(step);
            let _step = trace.named.step("clear");
            match clearance::clear(edge, &guarded, to, &caller).await? {
                Clearance::Upstream(cleared) => cleared,
                Clearance::AggregatedMetrics => return local::metrics(edge).await,
            }
        }
    };
    let outbound = Outbound::build(guarded, cleared)?;
    forward(edge, outbound, trace).await
}

/// Bad tokens take from the address's bucket, or guessing them would cost nothing.
fn unless_limited(edge: &Edge, guarded: &Guarded, trace: &mut Trace, refusal: Refusal) -> Refusal {
    trace.limited(edge, edge.rates.anonymous(guarded)).err().unwrap_or(refusal)
}

async fn forward(
    edge: &Edge,
    mut outbound: Outbound,
    trace: &mut Trace,
) -> Result<Response<EdgeBody>, Refusal> {
    let asking = outbound.trace();
    let Outbound { mut outgoing, to, method, body_limit, then, .. } = outbound;
    let settled = outgoing.upload.settle(edge.config.budgets.body_idle).await;
    settled.map_err(|fault| Refusal::Body { fault, limit: body_limit })?;
    let sent = Instant::now();
    let answered = edge.upstreams.send(outgoing).await;
    let took = sent.elapsed();
    if let (Some(span), Err(failure)) = (&asking, &answered) {
        span.fail(failure.reason());
    }
    drop(asking);
    let answered = answered.map_err(|failure| refused(failure, &to, body_limit));
    trace.forwarded(to, took);
    let mut response = answered?;
    let revision = inbound::clean(&method, &mut response);
    if let (Then::SettleCatalog, Some(revision)) = (then, revision) {
        settle(edge, revision).await;
    }
    Ok(response)
}

/// The client's next request must see its own change; an edge that cannot see it in time answers all the same, because
/// the change is made.
async fn settle(edge: &Edge, revision: i64) {
    if !edge.catalog.settled(revision).await {
        tracing::warn!(revision, "the catalog snapshot did not reach a change in time");
    }
}

fn refused(failure: Failure, to: &Destination, limit: Option<usize>) -> Refusal {
    match (failure, to) {
        (Failure::Client(fault), _) => Refusal::Body { fault, limit },
        (failure, Destination::Module(key)) => {
            Refusal::ModuleUnavailable { key: key.as_ref().to_owned(), reason: failure.reason() }
        }
        (failure, Destination::Service(dependency)) => {
            Refusal::Unavailable { dependency: *dependency, reason: failure.reason() }
        }
    }
}
