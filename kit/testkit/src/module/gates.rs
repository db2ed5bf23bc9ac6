//! What every operation of every module must refuse, and in which order: bearer, company, decision, body. A refused
//! call leaves no trace in the database, and a call without a complete decision is refused.

use futures_util::future::join_all;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};
use service::permit::COMPANY_MODULE;

use super::{CAN, CORRELATION, ModuleApi, SUBJECT};
use crate::Reply;

/// An operation with a sample call and its required decision.
#[derive(Clone, Debug)]
pub struct Operation {
    /// `GET`, …
    pub method: &'static str,
    /// The path after `/companies/<company>`.
    pub tail: String,
    /// A valid body, if the operation has one.
    pub body: Option<Value>,
    /// `operationId`.
    pub id: &'static str,
    /// Feature key of the decision.
    pub feature: &'static str,
    /// The object of the decision.
    pub object: Object,
    /// Relation of the decision.
    pub relation: &'static str,
    /// Whether a platform operator passes.
    pub operator: bool,
    /// The decision asked when the first is denied.
    pub otherwise: Option<service::Feature>,
    /// Whether the object is looked up before the decision.
    pub of_existing: bool,
    /// Largest body, in bytes.
    pub body_limit: usize,
    /// Whether the operation uses the database.
    pub asks_database: bool,
}

/// The object of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// The module in the company.
    Module,
    /// An object of the module: its type and id.
    Own(&'static str, String),
}

impl Object {
    /// The object of a call of `row`: its type is the feature's, its id the first path parameter.
    fn of(row: &service::Operation, feature: service::Feature, tail: &str) -> Self {
        if feature.object == COMPANY_MODULE {
            return Self::Module;
        }
        let path = tail.split('?').next().unwrap_or_default();
        let segments = row.path.split('/').zip(path.split('/'));
        let id = segments.filter(|(name, _)| name.starts_with('{')).map(|(_, value)| value.to_owned()).next();
        Self::Own(feature.object, id.unwrap_or_default())
    }
}

impl Operation {
    /// The expected bodies of its decision requests when each is denied.
    fn questions(&self, module: &ModuleApi) -> Vec<Value> {
        let first = about(&self.object, module.question(self.feature, self.relation, self.operator));
        let Some(second) = self.otherwise else { return vec![first] };
        let probe = about(&self.object, module.probe(self.feature, self.relation, self.operator));
        let second = module.question(second.key, second.relation, second.operator);
        vec![probe, about(&self.object, second)]
    }

    /// Feature and relation of the decision whose denial refuses a call.
    fn refused_by(&self) -> (&'static str, &'static str) {
        self.otherwise.map_or((self.feature, self.relation), |second| (second.key, second.relation))
    }
}

/// The request about this object.
fn about(object: &Object, mut question: Value) -> Value {
    if let (Object::Own(kind, id), Some(members)) = (object, question.as_object_mut()) {
        members.insert("object".to_owned(), json!({ "type": kind, "id": id }));
    }
    question
}

/// A valid call of one operation in a module's table. If the operation looks its object up before the decision, the
/// object must exist.
#[derive(Clone, Debug)]
pub struct Sample {
    /// `operationId`.
    pub id: &'static str,
    /// The path with parameters filled in, and the query.
    pub tail: String,
    /// The body, if there is one.
    pub body: Option<Value>,
    /// Whether the operation uses the database.
    pub asks_database: bool,
}

impl Sample {
    /// A call without a body.
    pub fn of(id: &'static str, tail: impl Into<String>) -> Self {
        Self { id, tail: tail.into(), body: None, asks_database: true }
    }

    /// A call of an operation that only other services answer.
    #[must_use]
    pub fn without_database(self) -> Self {
        Self { asks_database: false, ..self }
    }

    /// The same with a body.
    #[must_use]
    pub fn with(self, body: Value) -> Self {
        Self { body: Some(body), ..self }
    }
}

/// The operations of a module's table, each with its samples, and with each value of its query that requires another
/// decision.
///
/// # Panics
/// An operation has no sample, or a sample has no operation.
#[must_use]
#[expect(clippy::panic, reason = "a test whose samples do not match the table has failed")]
pub fn operations(table: &[service::Operation], samples: &[Sample]) -> Vec<Operation> {
    let mut found = Vec::new();
    for row in table {
        let mut samples = samples.iter().filter(|sample| sample.id == row.id).peekable();
        let Some(first) = samples.peek() else { panic!("no sample of {}", row.id) };
        let asks_database = first.asks_database;
        let (first, body) = (first.tail.clone(), first.body.clone());
        let of = |tail: &str, feature: service::Feature| Operation {
            method: row.method.word(),
            tail: tail.to_owned(),
            body: body.clone(),
            id: row.id,
            feature: feature.key,
            object: Object::of(row, feature, tail),
            relation: feature.relation,
            operator: feature.operator,
            otherwise: if feature == row.feature { row.otherwise } else { None },
            of_existing: row.of_existing,
            body_limit: row.body_limit,
            asks_database,
        };
        found.extend(samples.map(|sample| of(&sample.tail, row.feature)));
        for (view, word) in row.view.iter().flat_map(|view| view.words.iter().map(move |word| (view, word))) {
            found.push(of(&format!("{first}?{}={word}", view.parameter), view.feature));
        }
    }
    let known = |sample: &Sample| table.iter().any(|row| row.id == sample.id);
    assert!(samples.iter().all(known), "a sample of no operation: {samples:?}");
    found
}

/// Runs all checks on each operation; none of them may change the database.
///
/// # Panics
/// An operation does not refuse as required.
pub async fn check(module: &ModuleApi, operations: &[Operation]) {
    let before = module.contents().await;
    for operation in operations {
        without_a_good_bearer(module, operation).await;
        with_a_malformed_company(module, operation).await;
        with_a_denial(module, operation).await;
        with_a_body_that_is_too_large(module, operation).await;
        without_a_whole_decision(module, operation).await;
    }
    without_any_answer(module, operations).await;
    assert_eq!(module.contents().await, before, "a refused call leaves no trace");
}

async fn without_a_good_bearer(module: &ModuleApi, operation: &Operation) {
    let asked = module.questions().len();
    let good = module.issuer.issue(SUBJECT);
    let expired = module.issuer.token(SUBJECT).expires_in(-600).sign();
    let foreign = module.issuer.token(SUBJECT).claim("aud", json!(["account"])).sign();
    let nobody = module.issuer.token(SUBJECT).claim("sub", Value::Null).sign();
    for (token, code) in [
        (None, "AUTH_TOKEN_MISSING"),
        (Some("Basic YTpi".to_owned()), "AUTH_TOKEN_MISSING"),
        (Some("Bearer x.y.z".to_owned()), "AUTH_TOKEN_INVALID"),
        (Some(format!("Bearer {good}x")), "AUTH_TOKEN_INVALID"),
        (Some(format!("Bearer {expired}")), "AUTH_TOKEN_INVALID"),
        (Some(format!("Bearer {foreign}")), "AUTH_TOKEN_INVALID"),
        (Some(format!("Bearer {nobody}")), "AUTH_TOKEN_INVALID"),
    ] {
        let path = module.path(module.company, &operation.tail);
        let mut call = module.api.call(method(operation), path).json(body(operation));
        if let Some(token) = &token {
            call = call.header(AUTHORIZATION.as_str(), token);
        }
        let reply = module.send(operation.method, &operation.tail, call).await;
        assert_eq!((reply.status, reply.code()), (401, code), "{token:?}");
        assert_eq!(reply.header("www-authenticate"), "Bearer");
    }
    assert_eq!(module.questions().len(), asked, "without a bearer nothing is asked");
}

async fn with_a_malformed_company(module: &ModuleApi, operation: &Operation) {
    let asked = module.questions().len();
    for company in ["x", "0192f0c1-5d3e-7a10-8c11", "0192f0c15d3e7a108c112f6a4d9b1a01", "%00"] {
        let call = module.call(operation.method, &module.path(company, &operation.tail));
        let reply = module.send(operation.method, &operation.tail, call.json(body(operation))).await;
        assert_eq!((reply.status, reply.code()), (400, "BAD_REQUEST"), "{company}");
    }
    assert_eq!(module.questions().len(), asked, "without a company nothing is asked");
}

async fn with_a_denial(module: &ModuleApi, operation: &Operation) {
    let seen = module.authz.requests().len();
    module.decide(|_| false);
    let reply = ask(module, operation).await;
    assert_eq!((reply.status, reply.code()), (403, "AUTHORIZATION_DENIED"));
    let (feature, relation) = operation.refused_by();
    let details = json!({ "reason": "ENGINE_DENIED", "featureKey": feature, "relation": relation });
    assert_eq!(detail(&reply, ""), Some(&details));
    let questions = module.authz.requests().split_off(seen);
    let bodies: Vec<Value> = questions.iter().map(|question| question.body.clone()).collect();
    assert_eq!(bodies, operation.questions(module));
    for question in questions {
        let sent = question.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        assert!(sent.is_some_and(|value| value.starts_with(b"Bearer ")), "the user's own bearer");
        let correlation = question.headers.get("x-correlation-id").map(HeaderValue::as_bytes);
        assert_eq!(correlation, Some(CORRELATION.as_bytes()));
    }
    module.decide(|_| true);
}

async fn without_a_whole_decision(module: &ModuleApi, operation: &Operation) {
    let decision = |allowed: bool, reason: &str| json!({ "data": { "allowed": allowed, "reason": reason, "evidence": [] } });
    for (status, answer) in [
        (500, decision(true, "ALLOWED")),
        (503, json!({ "error": { "code": "AUTHORIZATION_UNAVAILABLE", "message": "", "details": null } })),
        (401, json!({ "error": { "code": "AUTH_TOKEN_INVALID", "message": "", "details": null } })),
        (400, decision(true, "ALLOWED")),
        (201, decision(true, "ALLOWED")),
        (200, json!("garbage")),
        (200, Value::Null),
        (200, json!({})),
        (200, json!({ "data": {} })),
        (200, json!({ "data": { "allowed": true } })),
        (200, json!({ "allowed": true, "reason": "ALLOWED", "evidence": [] })),
        (200, decision(true, "ENGINE_DENIED")),
        (200, decision(false, "ALLOWED")),
        (200, decision(true, "A_REASON_OF_TOMORROW")),
    ] {
        let shown = format!("{status} {answer}");
        module.authz.answer("POST", CAN, status, answer);
        refused_for(&ask(module, operation).await, "authz", &shown);
    }
    module.authz.close("POST", CAN);
    refused_for(&ask(module, operation).await, "authz", "a closed connection");
    module.decide(|_| true);
}

/// Concurrent, because each waits for the time limit of a decision.
async fn without_any_answer(module: &ModuleApi, operations: &[Operation]) {
    module.authz.hang("POST", CAN);
    let replies = join_all(operations.iter().map(|operation| ask(module, operation))).await;
    for (operation, reply) in operations.iter().zip(replies) {
        refused_for(&reply, "authz", &format!("no answer to {}", operation.tail));
    }
    module.decide(|_| true);
}

/// A body past the limit is 413 only for a caller who may call the operation: 403 comes first, and the denial is
/// recorded.
async fn with_a_body_that_is_too_large(module: &ModuleApi, operation: &Operation) {
    if operation.body.is_none() {
        return;
    }
    let send = async || {
        let call = module.call(operation.method, &module.path(module.company, &operation.tail));
        let call = call.header("content-type", "application/json").body(vec![b' '; operation.body_limit + 1]);
        module.send(operation.method, &operation.tail, call).await
    };
    let asked = module.questions().len();
    module.decide(|_| false);
    let reply = send().await;
    assert_eq!(
        (reply.status, reply.code()),
        (403, "AUTHORIZATION_DENIED"),
        "403 before 413: {}",
        operation.tail
    );
    let expected = operation.questions(module);
    assert_eq!(module.questions().split_off(asked), expected, "the denial leaves its row in authz");
    module.decide(|_| true);
    let reply = send().await;
    assert_eq!((reply.status, reply.code()), (413, "PAYLOAD_TOO_LARGE"), "{}", operation.tail);
    assert_eq!(detail(&reply, "/limitBytes"), Some(&json!(operation.body_limit)));
}

/// A denied call is refused before the database is used, and an allowed one is 503; so is a call about an object that
/// is looked up first, whatever the decision would be.
///
/// # Panics
/// An operation does not refuse as required.
pub async fn check_without_database(module: &ModuleApi, operations: &[Operation]) {
    module.decide(|_| false);
    let replies = join_all(operations.iter().map(|operation| ask(module, operation))).await;
    for (operation, reply) in operations.iter().zip(replies) {
        if operation.of_existing {
            refused_for(&reply, "postgres", &format!("nothing is looked up for {}", operation.tail));
        } else {
            assert_eq!(
                (reply.status, reply.code()),
                (403, "AUTHORIZATION_DENIED"),
                "the decision comes first"
            );
        }
    }
    module.decide(|_| true);
    let asking = operations.iter().filter(|operation| operation.asks_database);
    // A subject's costly reads wait for each other.
    let limited = module.document.ids_with("429");
    let (costly, others): (Vec<_>, Vec<_>) = asking.partition(|operation| limited.contains(&operation.id));
    let refused = async |operation: &Operation| {
        let reply = ask(module, operation).await;
        refused_for(&reply, "postgres", &format!("no database for {}", operation.tail));
    };
    let one_by_one = async {
        for operation in costly {
            refused(operation).await;
        }
    };
    tokio::join!(one_by_one, join_all(others.into_iter().map(refused)));
}

/// Checks that the response is 503 and names the dependency.
///
/// # Panics
/// The response is another one.
pub fn refused_for(reply: &Reply, dependency: &str, when: &str) {
    assert_eq!((reply.status, reply.code()), (503, "AUTHORIZATION_UNAVAILABLE"), "{when}: {}", reply.text);
    assert_eq!(detail(reply, "/dependency"), Some(&Value::from(dependency)), "{when}");
}

/// A member of the error's details.
fn detail<'a>(reply: &'a Reply, pointer: &str) -> Option<&'a Value> {
    reply.body.pointer(&format!("/error/details{pointer}"))
}

async fn ask(module: &ModuleApi, operation: &Operation) -> Reply {
    module.ask(operation.method, &operation.tail, operation.body.clone()).await
}

#[expect(clippy::expect_used, reason = "the methods of a test are constants")]
fn method(operation: &Operation) -> http::Method {
    operation.method.parse().expect("a method")
}

fn body(operation: &Operation) -> Value {
    operation.body.clone().unwrap_or_default()
}
