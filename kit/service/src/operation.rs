//! The operations of a module as one table: each row names its method, its path below
//! `/api/<key>/v1/companies/{companyId}`, its `operationId` and the decision that it asks for, and is bound to its
//! handler. The table gives the router; the tests of the module hold it against `openapi.json` and the fragment.
//!
//! A handler that takes a [`Permit`](crate::Permit) is admitted before its body is read: axum reads a body last.

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};

use crate::layers::{BodyLimit, MODULE_BODY_LIMIT};
use crate::{Feature, Query};

contract::words! {
    /// The methods of operations.
    pub enum Verb {
        /// Reads.
        Get = "GET",
        /// Creates, or does something.
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
    /// `operationId` of the document.
    pub id: &'static str,
    /// The decision that is asked before the operation does anything.
    pub feature: Feature,
    /// The decision that is asked when [`Self::feature`]'s is no.
    pub otherwise: Option<Feature>,
    /// The decision that some words of the query ask instead.
    pub view: Option<View>,
    /// Whether the object is looked up before the decision, which an unknown one does not ask: what is asked depends on the
    /// object's row.
    pub of_existing: bool,
    /// Largest body, in bytes.
    pub body_limit: usize,
    /// Whether a repetition under the same `Idempotency-Key` gets the first answer again.
    pub idempotent: bool,
}

/// Words of one query parameter that ask another decision.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Name of the parameter.
    pub parameter: &'static str,
    /// Its words that ask for [`Self::feature`].
    pub words: &'static [&'static str],
    /// The decision that they ask.
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

    /// With a second decision, for a caller whom the first denies.
    #[must_use]
    pub const fn or_else(self, feature: Feature) -> Self {
        Self { otherwise: Some(feature), ..self }
    }

    /// About an object that is looked up before the decision.
    #[must_use]
    pub const fn of_existing(self) -> Self {
        Self { of_existing: true, ..self }
    }

    /// These words of the query parameter ask another decision.
    #[must_use]
    pub const fn with_view(
        self,
        parameter: &'static str,
        words: &'static [&'static str],
        feature: Feature,
    ) -> Self {
        Self { view: Some(View { parameter, words, feature }), ..self }
    }

    /// With another limit of the body, in bytes.
    #[must_use]
    pub const fn with_body_limit(self, body_limit: usize) -> Self {
        Self { body_limit, ..self }
    }

    /// With an `Idempotency-Key`.
    #[must_use]
    pub const fn idempotent(self) -> Self {
        Self { idempotent: true, ..self }
    }

    /// The decision that a request with this query asks. What is wrong with the query is told after it.
    #[must_use]
    pub fn asked(&self, query: Option<&str>) -> Feature {
        let Some(view) = &self.view else { return self.feature };
        let query = Query::parse(query.unwrap_or_default()).unwrap_or_default();
        let asks = query.get(view.parameter).is_some_and(|word| view.words.contains(&word));
        if asks { view.feature } else { self.feature }
    }
}

/// The operations of a module, each bound to its handler.
pub struct Operations<S> {
    key: &'static str,
    table: Vec<Operation>,
    router: Router<S>,
}

impl<S: Clone + Send + Sync + 'static> Operations<S> {
    /// None yet, of the module `key`.
    #[must_use]
    pub fn of(key: &'static str) -> Self {
        Self { key, table: Vec::new(), router: Router::new() }
    }

    /// With one more. Two of one method and path end the program at its start, as axum refuses them.
    #[must_use]
    pub fn bind<T: 'static, H: Handler<T, S>>(mut self, operation: Operation, handler: H) -> Self {
        let path = format!("/api/{}/v1/companies/{{companyId}}{}", self.key, operation.path);
        self.table.push(operation);
        let bound = Bound { operation, handler };
        Self { router: self.router.route(&path, on(operation.method.filter(), bound)), ..self }
    }

    /// With an operation of other services, at `/internal/<key><path>`: no client comes there, and the company stands in the
    /// body. Its handler takes an [`InternalCall`](crate::company::InternalCall). It is no row of the table.
    #[must_use]
    pub fn bind_internal<T: 'static, H: Handler<T, S>>(mut self, operation: Operation, handler: H) -> Self {
        let path = format!("/internal/{}{}", self.key, operation.path);
        let bound = Bound { operation, handler };
        self.router = self.router.route(&path, on(operation.method.filter(), bound));
        self
    }

    /// The rows, in the order in which they were bound.
    #[must_use]
    pub fn table(&self) -> &[Operation] {
        &self.table
    }

    /// The routes; the probes and the layers are the chassis'.
    pub fn routes(self, app: S) -> Router {
        self.router.with_state(app)
    }
}

/// A handler that knows its operation. Not a layer: that would cost each request a future on the heap.
#[derive(Clone)]
struct Bound<H> {
    operation: Operation,
    handler: H,
}

impl<T, S, H: Handler<T, S>> Handler<T, S> for Bound<H> {
    type Future = H::Future;

    fn call(self, mut request: Request, state: S) -> Self::Future {
        request.extensions_mut().insert(BodyLimit(self.operation.body_limit));
        request.extensions_mut().insert(self.operation);
        self.handler.call(request, state)
    }
}
