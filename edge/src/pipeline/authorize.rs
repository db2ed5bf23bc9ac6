//! The route's guard and the catalog gate: [`Authorized`] exists only when they allow the request. They fail closed.

use crate::config::Destination;
use std::sync::Arc;

use contract::catalog::ModuleState;
use futures_util::future::BoxFuture;

use crate::config::Service;
use crate::pipeline::authenticate::Caller;
use crate::pipeline::guard::Guarded;
use crate::pipeline::path::encode;
use crate::pipeline::questions as ask;
use crate::pipeline::refusal::{Denial, Refusal};
use crate::pipeline::route::{Match, To};
use crate::pipeline::routes::{Guard, Query, Target, Then};
use crate::pipeline::worker::Worker;
use crate::upstream::target::Upstream;

/// Who answers an authorized request.
#[derive(Debug)]
pub(crate) enum Authorization {
    /// An upstream.
    Upstream(Authorized),
    /// The gateway itself: the aggregated metrics.
    AggregatedMetrics,
}

/// A request that may be forwarded, and its upstream.
#[derive(Debug)]
pub(crate) struct Authorized {
    pub(crate) target: Destination,
    pub(crate) upstream: Arc<Upstream>,
    /// Path and query for the upstream, where they differ from the client's.
    pub(crate) path_and_query: Option<String>,
    pub(crate) body_limit: Option<usize>,
    pub(crate) then: Then,
}

/// Checks the guard of a fixed route, or the catalog for a module.
pub(crate) async fn authorize(
    worker: &Worker,
    guarded: &Guarded,
    to: To,
    caller: &Caller<'_>,
) -> Result<Authorization, Refusal> {
    match to {
        To::Fixed(found) => row(worker, guarded, found, caller).await,
        To::Module(key) => module(worker, key).map(Authorization::Upstream),
        To::Provider(path) => Ok(Authorization::Upstream(provider(worker, guarded, &path))),
        To::Probe(_) => Err(Refusal::Internal("a probe is not forwarded")),
    }
}

#[inline(never)]
fn row<'a>(
    worker: &'a Worker,
    guarded: &'a Guarded,
    found: Match,
    caller: &'a Caller<'_>,
) -> BoxFuture<'a, Result<Authorization, Refusal>> {
    Box::pin(async move {
        pass(worker, guarded, found.row.guard, caller).await?;
        Ok(fixed(worker, guarded, &found, caller))
    })
}

/// Authorizes a request to the identity provider. It needs no bearer, because the provider issues the bearers.
#[inline(never)]
pub(crate) fn provider(worker: &Worker, guarded: &Guarded, path: &str) -> Authorized {
    Authorized {
        target: Destination::Service(Service::Idp),
        upstream: Arc::clone(worker.upstreams.service(Service::Idp)),
        path_and_query: Some(with_query(path, guarded.request.uri().query())),
        body_limit: Some(worker.config.limits.body),
        then: Then::Answer,
    }
}

async fn pass(worker: &Worker, guarded: &Guarded, guard: Guard, caller: &Caller<'_>) -> Result<(), Refusal> {
    match guard {
        Guard::Bearer | Guard::BearerAtOnce | Guard::Service => Ok(()),
        Guard::Superadmin => {
            let answer = ask::superadmin(worker, caller.into(), &guarded.ids).await?;
            let ask::Superadmin { held, reason, evidence, .. } = answer;
            if held { Ok(()) } else { Err(Refusal::Denied(Denial::NotSuperadmin { reason, evidence })) }
        }
        Guard::AppBackend => app_backend(worker, guarded, caller).await,
    }
}

/// Admits a registered app's service account whose account may act, or a superadmin; one answer of authz covers both.
async fn app_backend(worker: &Worker, guarded: &Guarded, caller: &Caller<'_>) -> Result<(), Refusal> {
    let catalog = Option::clone(&worker.catalog.present());
    let subject = &caller.claims.subject;
    let client = caller.claims.authorized_party.as_deref();
    let is_backend =
        catalog.as_ref().zip(client).is_some_and(|(catalog, client)| catalog.is_app_backend(client, subject));
    let answer = ask::superadmin(worker, caller.into(), &guarded.ids).await?;
    if answer.held || (is_backend && answer.account_active) {
        return Ok(());
    }
    if catalog.is_none() {
        // Without a catalog the gateway cannot tell whether this is an app, so this is no denial.
        return Err(Refusal::Unavailable { dependency: Service::Registry, reason: "no_catalog" });
    }
    Err(Refusal::Denied(Denial::Forbidden { reason: answer.reason }))
}

fn fixed(worker: &Worker, guarded: &Guarded, found: &Match, caller: &Caller<'_>) -> Authorization {
    let Target::Internal(service, pattern) = found.row.target else {
        return Authorization::AggregatedMetrics;
    };
    let path = found
        .parameters
        .iter()
        .fold(pattern.to_owned(), |path, (name, value)| path.replace(&format!("{{{name}}}"), value));
    let query = guarded.request.uri().query();
    let query = match found.row.query {
        Query::AsIs => query.map(ToOwned::to_owned),
        Query::OwnSubject => Some(own_subject(query, caller.claims.subject.as_str())),
    };
    Authorization::Upstream(Authorized {
        target: Destination::Service(service),
        upstream: Arc::clone(worker.upstreams.service(service)),
        path_and_query: Some(with_query(&path, query.as_deref())),
        body_limit: Some(worker.config.limits.body),
        then: found.row.then,
    })
}

fn module(worker: &Worker, key: String) -> Result<Authorized, Refusal> {
    let present = worker.catalog.present();
    let catalog = present.as_ref().ok_or(Refusal::NoCatalog)?;
    if catalog.is_app(&key) {
        return Err(Refusal::Denied(Denial::AppIsNotProxied { key }));
    }
    let gate = |state, missing| Refusal::Denied(Denial::Gate { key: key.clone(), state, missing });
    let Some(module) = catalog.module(&key) else {
        return Err(gate(ModuleState::ModuleNotInstalled, Vec::new()));
    };
    if module.entry.state != ModuleState::Ok {
        return Err(gate(module.entry.state, module.entry.missing.clone()));
    }
    Ok(Authorized {
        upstream: Arc::clone(&module.upstream),
        target: Destination::Module(Arc::clone(&module.key)),
        path_and_query: None,
        body_limit: worker.config.limits.module_body,
        then: Then::Answer,
    })
}

fn with_query(path: &str, query: Option<&str>) -> String {
    query.map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"))
}

/// The query with the bearer's own subject as the only `kcSub`, however the client spelled that name.
fn own_subject(query: Option<&str>, subject: &str) -> String {
    let is_subject = |pair: &&str| !names_subject(pair.split('=').next().unwrap_or_default());
    let mut pairs: Vec<&str> =
        query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()).filter(is_subject).collect();
    let own = format!("kcSub={}", encode(subject));
    pairs.push(&own);
    pairs.join("&")
}

/// Whether a query name decodes to `kcSub`, ignoring case because a lenient parser might.
fn names_subject(name: &str) -> bool {
    crate::pipeline::path::decode_text(name)
        .is_none_or(|name| name.trim_ascii().eq_ignore_ascii_case(b"kcSub"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_of_a_query_is_always_the_bearers_own() {
        for (query, rewritten) in [
            (None, "kcSub=me"),
            (Some(""), "kcSub=me"),
            (Some("kcSub=root"), "kcSub=me"),
            (Some("companyId=1&kcSub=root&x"), "companyId=1&x&kcSub=me"),
            (Some("kc%53ub=root&%6BcSub=root"), "kcSub=me"),
            (Some("kcsub=root&kcSub"), "kcSub=me"),
            (Some("+kcSub=root"), "kcSub=me"),
            (Some("%zz=1&a=1"), "a=1&kcSub=me"),
            (Some("kcSubject=1"), "kcSubject=1&kcSub=me"),
        ] {
            assert_eq!(own_subject(query, "me"), rewritten, "{query:?}");
        }
        assert_eq!(own_subject(None, "a&b=c/ü"), "kcSub=a%26b%3Dc%2F%C3%BC");
    }
}
