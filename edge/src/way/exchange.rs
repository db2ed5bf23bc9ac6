//! The whole way of one request on one screen; the only file that knows the order. `run` renders and counts around `admit`
//! and `attempt`, whose every `?` is a refusal.
//!
//! A step that most requests do not take, here and below, is a boxed future, made by a function that is not inlined: it takes
//! neither room in every request's memory nor a place between the instructions of the ordinary way.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use scopeguard::ScopeGuard;
use tokio::time::Instant;

use super::bearer::authenticate;
use super::clearance::{self, Clearance, Destination};
use super::guard::Guarded;
use super::outbound::Outbound;
use super::refusal::{CONCURRENCY, Refusal, TUNNELS};
use super::route::To;
use super::routes::Then;
use super::trace::Trace;
use super::{cors, guard, inbound, local, provision, rate, upgrade};
use crate::Edge;
use crate::wire::body::EdgeBody;
use crate::wire::connection::Peer;
use crate::wire::h1::server::Refused;
use crate::wire::incoming::RequestBody;
use crate::wire::place::Asker;
use crate::wire::share::ClientKey;
use crate::wire::upload::Terms;
use crate::wire::upstream::{Failure, Outgoing};

/// One request, answered. What nobody has to be asked for is done at once: the future holds only what has to be remembered
/// while others work, and is small.
pub(crate) fn run(
    edge: &Arc<Edge>,
    peer: Peer,
    mut request: Request<RequestBody>,
) -> impl Future<Output = Response<EdgeBody>> + Send {
    let mut trace = Trace::begin(edge, peer, &request);
    trace.listen(request.body_mut());
    let admitted = admit(edge, peer, request, &mut trace);
    // Whatever drops this future before it has answered, the request has its line.
    let mut trace = scopeguard::guard(trace, Trace::abandoned);
    async move {
        let mut answered = attempt(edge, admitted, &mut trace).await;
        if *trace.method() == Method::CONNECT {
            answered = answered.and_then(upgrade::tunnelled);
        }
        ScopeGuard::into_inner(trace).finish(edge, answered)
    }
}

/// What could not be read as a request is answered, marked, counted and logged like one.
pub(crate) fn refuse(edge: &Edge, peer: Peer, refused: Refused) -> Response<EdgeBody> {
    Trace::begin(edge, peer, &Request::new(())).finish(edge, Err(Refusal::Head(refused)))
}

/// A request that is what it says, and means something.
enum Admitted {
    Answered(Box<Response<EdgeBody>>),
    Going(Box<Guarded>, To),
}

fn admit(
    edge: &Edge,
    peer: Peer,
    request: Request<RequestBody>,
    trace: &mut Trace,
) -> Result<Admitted, Refusal> {
    let framed = guard::frame(&edge.config, peer, request)?;
    if cors::is_preflight(&framed.request) {
        return Ok(Admitted::Answered(Box::new(cors::preflight(trace.origin.as_ref()))));
    }
    let guarded = guard::guard(&edge.config, peer, &trace.named, framed)?;
    let route = edge.routes.resolve(&guarded)?;
    trace.matched(&route);
    Ok(Admitted::Going(guarded, route.to))
}

async fn attempt(
    edge: &Arc<Edge>,
    admitted: Result<Admitted, Refusal>,
    trace: &mut Trace,
) -> Result<Response<EdgeBody>, Refusal> {
    let (guarded, to) = match admitted? {
        Admitted::Answered(response) => return Ok(*response),
        Admitted::Going(guarded, to) => (guarded, to),
    };
    let (cleared, client) = match to {
        To::Probe(probe) => return Ok(local::probe(edge, probe)),
        To::Provider(path) => {
            trace.limited(edge, edge.rates.anonymous(&guarded))?;
            let client = ClientKey::address(rate::address_of(&guarded));
            (clearance::provider(edge, &guarded, &path), client)
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
            provision::ensure(edge, &caller, to.guard(), &guarded.named, trace.began).await?;
            drop(step);
            let _step = trace.named.step("clear");
            match clearance::clear(edge, &guarded, to, &caller).await? {
                Clearance::Upstream(cleared) => (cleared, ClientKey::subject(caller.claims.subject_hash)),
                Clearance::AggregatedMetrics => return local::metrics(edge).await,
            }
        }
    };
    forward(edge, Outbound::build(&edge.config.hosts, *guarded, cleared)?, client, trace).await
}

/// Bad tokens take from the address's bucket, or guessing them would cost nothing.
#[cold]
#[inline(never)]
fn unless_limited(edge: &Edge, guarded: &Guarded, trace: &mut Trace, refusal: Refusal) -> Refusal {
    trace.limited(edge, edge.rates.anonymous(guarded)).err().unwrap_or(refusal)
}

async fn forward(
    edge: &Edge,
    mut outbound: Box<Outbound>,
    client: ClientKey,
    trace: &mut Trace,
) -> Result<Response<EdgeBody>, Refusal> {
    let asking = outbound.trace();
    let terms = Terms {
        pause: edge.config.budgets.body_idle,
        // Of a subject's it may be one direction of a stream, whose other direction answers it.
        of_unknown_length: !client.has_subject(),
        rate: edge.config.timers.least_rate,
    };
    let Outgoing { request, upload, .. } = &mut outbound.outgoing;
    let taken_in = upload.take_in(terms, client, &edge.held, request.headers()).await;
    taken_in.map_err(|fault| Refusal::Body { fault, limit: outbound.body_limit })?;
    let is_whole = client.has_subject() || upload.is_taken_in();
    let asker = if is_whole { Asker::Client(client) } else { Asker::Upload(client) };
    let sent = Instant::now();
    let answered = edge.upstreams.send(outbound.place, asker, &mut outbound.outgoing, sent).await;
    let at = Instant::now();
    let Outbound { to, method, body_limit, then, .. } = *outbound;
    if let (Some(span), Err(failure)) = (&asking, &answered) {
        span.fail(failure.reason());
    }
    drop(asking);
    let answered = answered.map_err(|failure| refused(edge, failure, &to, body_limit));
    trace.forwarded(to, at.duration_since(sent), at);
    let mut response = answered?;
    let revision = inbound::clean(&method, &mut response);
    match (then, revision) {
        (Then::SettleCatalog, Some(revision)) => Ok(settle(edge, revision, response).await),
        (Then::SettleCatalog | Then::Answer, _) => Ok(response),
    }
}

/// The client's next request must see its own change; an edge that cannot see it in time answers all the same, because
/// the change is made.
#[cold]
#[inline(never)]
fn settle(edge: &Edge, revision: i64, response: Response<EdgeBody>) -> BoxFuture<'_, Response<EdgeBody>> {
    Box::pin(async move {
        if !edge.catalog.settled(revision).await {
            tracing::warn!(revision, "the catalog snapshot did not reach a change in time");
        }
        response
    })
}

#[cold]
#[inline(never)]
fn refused(edge: &Edge, failure: Failure, to: &Destination, limit: Option<usize>) -> Refusal {
    match (failure, to) {
        (Failure::OverShare, _) => over_share(edge, CONCURRENCY),
        (Failure::OverTunnelShare, _) => over_share(edge, TUNNELS),
        (Failure::Client(fault), _) => Refusal::Body { fault, limit },
        (failure, Destination::Module(key)) => {
            Refusal::ModuleUnavailable { key: key.as_ref().to_owned(), reason: failure.reason() }
        }
        (failure, Destination::Service(dependency)) => {
            Refusal::Unavailable { dependency: *dependency, reason: failure.reason() }
        }
    }
}

/// The client has its whole share of an upstream, or of the tunnels, which is nobody's loss but its own.
#[cold]
pub(crate) fn over_share(edge: &Edge, scope: &'static str) -> Refusal {
    edge.meter.tally.limited(scope);
    Refusal::RateLimited { scope, retry_after: 1 }
}
