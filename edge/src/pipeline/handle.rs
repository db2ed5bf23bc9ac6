//! The whole pipeline of one request on one screen; the only file that knows the order of the steps. `handle` renders
//! and counts around `admit` and `attempt`, whose every `?` is a refusal.
//!
//! Here and below, a step that most requests skip is a boxed future made by a function that is not inlined: it enlarges
//! neither every request's future nor the code of the common path.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use scopeguard::ScopeGuard;
use tokio::time::Instant;

use crate::body::request::RequestBody;
use crate::body::upload::Terms;
use crate::config::Destination;
use crate::http::h1::HeadError;
use crate::http::peer::Peer;
use crate::http::share::ClientKey;
use crate::metrics::access::Forwarded;
use crate::pipeline::authenticate::authenticate;
use crate::pipeline::authorize::Authorization;
use crate::pipeline::context::RequestContext;
use crate::pipeline::guard::Guarded;
use crate::pipeline::outbound::Outbound;
use crate::pipeline::refusal::{CONCURRENCY, Refusal, TUNNELS};
use crate::pipeline::route::To;
use crate::pipeline::routes::Then;
use crate::pipeline::worker::Worker;
use crate::pipeline::{authorize, cors, guard, inbound, local, provision, rate_limit as rate, upgrade};
use crate::response::body::EdgeBody;
use crate::upstream::client::{Failure, Outgoing};
use crate::upstream::target::Asker;

/// Answers one request. Steps that need no I/O run before the future is created, so the future holds only what must
/// survive an await and stays small.
pub(crate) fn handle(
    worker: &Arc<Worker>,
    peer: Peer,
    mut request: Request<RequestBody>,
) -> impl Future<Output = Response<EdgeBody>> + Send {
    let mut trace = RequestContext::begin(worker, peer, &request);
    trace.listen(request.body_mut());
    let admitted = admit(worker, peer, request, &mut trace);
    // The request is logged even if this future is dropped before it has answered.
    let mut trace = scopeguard::guard(trace, RequestContext::abandoned);
    async move {
        let mut answered = attempt(worker, admitted, &mut trace).await;
        if *trace.method() == Method::CONNECT {
            answered = answered.and_then(upgrade::tunnelled);
        }
        ScopeGuard::into_inner(trace).finish(worker, answered)
    }
}

/// Answers input that could not be read as a request, with the same marking, counting and logging.
pub(crate) fn refuse(worker: &Worker, peer: Peer, refused: HeadError) -> Response<EdgeBody> {
    RequestContext::begin(worker, peer, &Request::new(())).finish(worker, Err(Refusal::Head(refused)))
}

/// A request that passed the guard and matched a route, or was answered already.
enum Admitted {
    Answered(Box<Response<EdgeBody>>),
    Going(Box<Guarded>, To),
}

fn admit(
    worker: &Worker,
    peer: Peer,
    request: Request<RequestBody>,
    trace: &mut RequestContext,
) -> Result<Admitted, Refusal> {
    let framed = guard::frame(&worker.config, peer, request)?;
    if cors::is_preflight(&framed.request) {
        return Ok(Admitted::Answered(Box::new(cors::preflight(trace.origin.as_ref()))));
    }
    let guarded = guard::guard(&worker.config, peer, &trace.ids, framed)?;
    let route = worker.routes.resolve(&guarded)?;
    trace.matched(&route);
    Ok(Admitted::Going(guarded, route.to))
}

async fn attempt(
    worker: &Arc<Worker>,
    admitted: Result<Admitted, Refusal>,
    trace: &mut RequestContext,
) -> Result<Response<EdgeBody>, Refusal> {
    let (guarded, to) = match admitted? {
        Admitted::Answered(response) => return Ok(*response),
        Admitted::Going(guarded, to) => (guarded, to),
    };
    let (authorized, client) = match to {
        To::Probe(probe) => return Ok(local::probe(worker, probe)),
        To::Provider(path) => {
            trace.limited(worker, worker.rates.anonymous(&guarded))?;
            let client = ClientKey::address(rate::address_of(&guarded));
            (authorize::provider(worker, &guarded, &path), client)
        }
        to @ (To::Fixed(_) | To::Module(_)) => {
            let step = trace.ids.step("authenticate");
            let caller = match authenticate(&worker.tokens, &guarded).await {
                Ok(caller) => caller,
                Err(refusal) => return Err(unless_limited(worker, &guarded, trace, refusal)),
            };
            drop(step);
            trace.called_by(&caller);
            trace.limited(worker, worker.rates.subject(&caller.claims.subject))?;
            let step = trace.ids.step("provision");
            provision::ensure(worker, &caller, to.guard(), &guarded.ids, trace.began).await?;
            drop(step);
            let _step = trace.ids.step("authorize");
            match authorize::authorize(worker, &guarded, to, &caller).await? {
                Authorization::Upstream(authorized) => {
                    (authorized, ClientKey::subject(caller.claims.subject_hash))
                }
                Authorization::AggregatedMetrics => return local::metrics(worker).await,
            }
        }
    };
    forward(worker, Outbound::build(&worker.config.hosts, *guarded, authorized)?, client, trace).await
}

/// Requests with bad tokens draw on the address's bucket; otherwise guessing tokens would be free.
#[cold]
#[inline(never)]
fn unless_limited(
    worker: &Worker,
    guarded: &Guarded,
    trace: &mut RequestContext,
    refusal: Refusal,
) -> Refusal {
    trace.limited(worker, worker.rates.anonymous(guarded)).err().unwrap_or(refusal)
}

async fn forward(
    worker: &Worker,
    mut outbound: Box<Outbound>,
    client: ClientKey,
    trace: &mut RequestContext,
) -> Result<Response<EdgeBody>, Refusal> {
    let asking = outbound.trace();
    let terms = Terms {
        pause: worker.config.budgets.body_idle,
        // A subject's body of unknown length may be one direction of a stream, whose other direction answers it.
        of_unknown_length: !client.has_subject(),
        rate: worker.config.timers.least_rate,
    };
    let Outgoing { request, upload, .. } = &mut outbound.outgoing;
    let taken_in = upload.take_in(terms, client, &worker.held, request.headers()).await;
    taken_in.map_err(|fault| Refusal::Body { fault, limit: outbound.body_limit })?;
    let is_whole = client.has_subject() || upload.is_taken_in();
    let asker = if is_whole { Asker::Client(client) } else { Asker::Upload(client) };
    let sent = Instant::now();
    let answered = worker.client.send(outbound.upstream, asker, &mut outbound.outgoing, sent).await;
    let at = Instant::now();
    let Outbound { to, method, body_limit, then, .. } = *outbound;
    if let (Some(span), Err(failure)) = (&asking, &answered) {
        span.fail(failure.reason());
    }
    drop(asking);
    let is_sent = !answered.as_ref().is_err_and(|failure| failure.is_before_forwarding());
    let answered = answered.map_err(|failure| refused(worker, failure, &to, body_limit));
    trace.forwarded(Forwarded { to, took: at.duration_since(sent), at, is_sent });
    let mut response = answered?.map(EdgeBody::upstream);
    let revision = inbound::clean(&method, &mut response);
    match (then, revision) {
        (Then::SettleCatalog, Some(revision)) => Ok(settle(worker, revision, response).await),
        (Then::SettleCatalog | Then::Answer, _) => Ok(response),
    }
}

/// Waits until the catalog holds the client's change, so that the client's next request sees it. On a timeout the
/// gateway answers all the same, because the change is made.
#[cold]
#[inline(never)]
fn settle(worker: &Worker, revision: i64, response: Response<EdgeBody>) -> BoxFuture<'_, Response<EdgeBody>> {
    Box::pin(async move {
        if !worker.catalog.settled(revision).await {
            tracing::warn!(revision, "the catalog snapshot did not reach a change in time");
        }
        response
    })
}

#[cold]
#[inline(never)]
fn refused(worker: &Worker, failure: Failure, to: &Destination, limit: Option<usize>) -> Refusal {
    match (failure, to) {
        (Failure::OverShare, _) => over_share(worker, CONCURRENCY),
        (Failure::OverTunnelShare, _) => over_share(worker, TUNNELS),
        (Failure::HeadTooLarge, _) => Refusal::HeadersTooLarge,
        (Failure::Client(fault), _) => Refusal::Body { fault, limit },
        (failure, Destination::Module(key)) => {
            Refusal::ModuleUnavailable { key: key.as_ref().to_owned(), reason: failure.reason() }
        }
        (failure, Destination::Service(dependency)) => {
            Refusal::Unavailable { dependency: *dependency, reason: failure.reason() }
        }
    }
}

/// Refuses a client that already uses its whole share of an upstream or of the tunnels; other clients are unaffected.
#[cold]
pub(crate) fn over_share(worker: &Worker, scope: &'static str) -> Refusal {
    worker.meter.tally.limited(scope);
    Refusal::RateLimited { scope, retry_after: 1 }
}
