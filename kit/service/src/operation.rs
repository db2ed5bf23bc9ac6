//! A module's operations as one table: each row names its method, its path below `/api/<key>/v1/companies/{companyId}`,
//! its `operationId` and its decision, and is bound to its handler. The router is built from the table; the module's
//! tests compare the table with `openapi.json` and the fragment.
//!
//! A handler runs when its body has arrived, so that its decision is as new as its write. One that takes a
//! [`Permit`](crate::Permit) is authorized before its body is parsed, because axum runs that extractor last.

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use futures_util::future::{BoxFuture, Either};
use http_body::Body as _;

use crate::layers::{BodyLimit, MODULE_BODY_LIMIT};
use crate::{Feature, Query, body};

contract::words! {
    /// The HTTP methods of operations.
    pub enum Verb {
        /// Reads.
        Get = "GET",
        /// Creates, or performs an action.
        Post = "POST",
        /// Replaces.
        Put = "PUT",
        /// Removes.
        Delete = "DELETE",
    }
}

impl Verb {
    const fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Method.
    pub method: Verb,
    /// Path below `/api/<key>/v1/companies/{companyId}`. A parameter whose name ends in `Id` is a UUID.
    pub path: &'static str,
    /// `operationId` in the OpenAPI document.
    pub id: &'static str,
    /// The decision required before the operation does anything.
    pub feature: Feature,
    /// The decision asked when [`Self::feature`] is denied.
    pub otherwise: Option<Feature>,
    /// The decision that some values of a query parameter require instead.
    pub view: Option<View>,
    /// Whether the object is looked up before the decision, because the decision depends on its row; for an unknown
    /// object no decision is asked.
    pub of_existing: bool,
    /// Largest body, in bytes.
    pub body_limit: usize,
    /// Whether a repeat under the same `Idempotency-Key` gets the first response again.
    pub idempotent: bool,
}

/// Values of one query parameter that require another decision.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Name of the parameter.
    pub parameter: &'static str,
    /// Its values that require [`Self::feature`].
    pub words: &'static [&'static str],
    /// The decision that they require.
    pub feature: Feature,
}

impl Operation {
    const fn new(method: Verb, path: &'static str, id: &'static str, feature: Feature) -> Self {
        Self {
            method,
            path,
            id,
            feature,
            otherwise: None,
            view: None,
            of_existing: false,
            body_limit: MODULE_BODY_LIMIT,
            idempotent: false,
        }
    }

    /// `GET path`.
    #[must_use]
    pub const fn get(path: &'static str, id: &'static str, feature: Feature) -> Self {
        Self::new(Verb::Get, path, id, feature)
    }

    /// `POST path`.
    #[must_use]
    pub const fn post(path: &'static str, id: &'static str, feature: Feature) -> Self {
        Self::new(Verb::Post, path, id, feature)
    }

    /// `PUT path`.
    #[must_use]
    pub const fn put(path: &'static str, id: &'static str, feature: Feature) -> Self {
        Self::new(Verb::Put, path, id, feature)
    }

    /// `DELETE path`.
    #[must_use]
    pub const fn delete(path: &'static str, id: &'static str, feature: Feature) -> Self {
        Self::new(Verb::Delete, path, id, feature)
    }

    /// With a second decision, for a caller denied by the first.
    #[must_use]
    pub const fn or_else(self, feature: Feature) -> Self {
        Self { otherwise: Some(feature), ..self }
    }

    /// For an object that is looked up before the decision.
    #[must_use]
    pub const fn of_existing(self) -> Self {
        Self { of_existing: true, ..self }
    }

    /// With another decision for these values of the query parameter.
    #[must_use]
    pub const fn with_view(
        self,
        parameter: &'static str,
        words: &'static [&'static str],
        feature: Feature,
    ) -> Self {
        Self { view: Some(View { parameter, words, feature }), ..self }
    }

    /// With another body limit, in bytes.
    #[must_use]
    pub const fn with_body_limit(self, body_limit: usize) -> Self {
        Self { body_limit, ..self }
    }

    /// With an `Idempotency-Key`.
    #[must_use]
    pub const fn idempotent(self) -> Self {
        Self { idempotent: true, ..self }
    }

    /// The decision that a request with this query requires. Problems in the query are reported after the decision.
    #[must_use]
    pub fn asked(&self, query: Option<&str>) -> Feature {
        let Some(view) = &self.view else { return self.feature };
        let query = Query::parse(query.unwrap_or_default()).unwrap_or_default();
        let asks = query.get(view.parameter).is_some_and(|word| view.words.contains(&word));
        if asks { view.feature } else { self.feature }
    }
}

/// A module's operations, each bound to its handler.
pub struct Operations<S> {
    key: &'static str,
    table: Vec<Operation>,
    router: Router<S>,
}

impl<S: Clone + Send + Sync + 'static> Operations<S> {
    /// An empty table of the module `key`.
    #[must_use]
    pub fn of(key: &'static str) -> Self {
        Self { key, table: Vec::new(), router: Router::new() }
    }

    /// Adds an operation. Panics at start-up on a second operation with the same method and path, as axum does.
    #[must_use]
    pub fn bind<T: 'static, H: Handler<T, S>>(mut self, operation: Operation, handler: H) -> Self {
        let path = format!("/api/{}/v1/companies/{{companyId}}{}", self.key, operation.path);
        self.table.push(operation);
        let bound = Bound { operation, handler };
        Self { router: self.router.route(&path, on(operation.method.filter(), bound)), ..self }
    }

    /// Adds an operation for other services at `/internal/<key><path>`, which no client can reach; the body names the
    /// company. Its handler takes an [`InternalCall`](crate::company::InternalCall). It is not a row of the table.
    #[must_use]
    pub fn bind_internal<T: 'static, H: Handler<T, S>>(mut self, operation: Operation, handler: H) -> Self {
        let path = format!("/internal/{}{}", self.key, operation.path);
        let bound = Bound { operation, handler };
        self.router = self.router.route(&path, on(operation.method.filter(), bound));
        self
    }

    /// The rows, in binding order.
    #[must_use]
    pub fn table(&self) -> &[Operation] {
        &self.table
    }

    /// The routes; the chassis adds the probes and the layers.
    pub fn routes(self, app: S) -> Router {
        self.router.with_state(app)
    }
}

/// A handler that knows its operation and waits for the body. Not a layer, which would cost each request a future on the
/// heap.
#[derive(Clone)]
struct Bound<H> {
    operation: Operation,
    handler: H,
}

impl<T: 'static, S: Send + 'static, H: Handler<T, S>> Handler<T, S> for Bound<H> {
    type Future = Either<H::Future, BoxFuture<'static, Response>>;

    fn call(self, mut request: Request, state: S) -> Self::Future {
        let Self { operation, handler } = self;
        request.extensions_mut().insert(BodyLimit(operation.body_limit));
        request.extensions_mut().insert(operation);
        if request.body().is_end_stream() {
            return Either::Left(handler.call(request, state));
        }
        let arrived = body::arrived(request, operation.body_limit);
        Either::Right(Box::pin(async move { handler.call(arrived.await, state).await }))
    }
}
