//! The layers around every handler.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use contract::Subject;
use http::{Method, Request};
use service::{ApiError, Data, ReadLimit, layers};
use tokio::sync::Notify;
use tower::ServiceExt as _;

use crate::app::{REQUEST_LIMIT, TestApp};

#[tokio::test]
async fn unknown_paths_and_methods_get_the_envelope() {
    let app = TestApp::start().await;
    let unknown = app.api.get("/nothing").send().await;
    assert_eq!((unknown.status, unknown.code()), (404, "NOT_FOUND"));
    assert!(unknown.body["error"].as_object().expect("an error").contains_key("details"));
    let method = app.api.call(Method::DELETE, "/list").send().await;
    assert_eq!((method.status, method.code()), (405, "METHOD_NOT_ALLOWED"));
    assert!(method.header("allow").contains("GET"), "{:?}", method.headers);
}

#[tokio::test]
async fn a_correlation_id_is_kept_or_made_and_always_answered() {
    let app = TestApp::start().await;
    let kept = app.api.get("/list").header("x-correlation-id", "mine").send().await;
    assert_eq!(kept.header("x-correlation-id"), "mine");
    let replaced = app.api.get("/nothing").header("x-correlation-id", "a b").send().await;
    assert_eq!(replaced.header("x-correlation-id").len(), 36);
}

#[tokio::test]
async fn a_panic_is_a_500_that_tells_nothing_and_the_service_goes_on() {
    let app = TestApp::start().await;
    let reply = app.api.get("/panic").send().await;
    assert_eq!((reply.status, reply.code()), (500, "INTERNAL_ERROR"));
    assert!(!reply.text.contains("secret"), "{}", reply.text);
    assert_eq!(app.api.get("/list").send().await.status, 200);
}

#[tokio::test]
async fn a_request_past_its_time_is_a_503() {
    let app = TestApp::start().await;
    let begun = std::time::Instant::now();
    let reply = app.api.get("/slow").send().await;
    assert_eq!((reply.status, reply.code()), (503, "AUTHORIZATION_UNAVAILABLE"));
    assert_eq!(reply.body["error"]["details"]["dependency"], "request_budget");
    assert_eq!(reply.body["error"]["message"], "the time for the request ran out");
    assert!(begun.elapsed() >= REQUEST_LIMIT);
}

#[tokio::test]
async fn every_answer_is_counted_under_its_pattern() {
    let app = TestApp::start().await;
    for path in ["/things/x", "/things/y", "/nothing/1", "/nothing/2", "/panic"] {
        app.api.get(path).send().await;
    }
    app.api.call(Method::from_bytes(b"BREW").expect("a method"), "/list").send().await;
    let text = app.api.get("/metrics").send().await.text;
    for line in [
        "http_requests_total{method=\"GET\",route=\"/things/{id}\",status=\"400\",service=\"org\"} 2",
        "http_requests_total{method=\"GET\",route=\"unmatched\",status=\"404\",service=\"org\"} 2",
        "http_requests_total{method=\"GET\",route=\"/panic\",status=\"500\",service=\"org\"} 1",
        "http_requests_total{method=\"OTHER\",route=\"/list\",status=\"405\",service=\"org\"} 1",
        "http_requests_in_flight{service=\"org\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    assert!(!text.contains("/things/x"), "a raw path became a label");
}

/// The client leaves while the handler waits. Its turn passes on only when the handler has ended.
#[tokio::test]
async fn a_costly_read_that_is_given_up_keeps_its_turn_to_the_end() {
    let app = TestApp::start().await;
    let (limit, answered) = (ReadLimit::new(1), Arc::new(Notify::new()));
    let handler = {
        let (limit, answered) = (limit.clone(), Arc::clone(&answered));
        async move || -> Result<Data<()>, ApiError> {
            let _read = limit.enter(&subject("ann")).await?;
            answered.notified().await;
            Ok(Data(()))
        }
    };
    let routes = layers::around(&app.core, Router::new().route("/costly", get(handler)));
    let mut given_up =
        Box::pin(routes.oneshot(Request::get("/costly").body(Body::empty()).expect("a request")));
    assert!(waits(&mut given_up).await, "it waits for the answer");
    drop(given_up);
    let bob = subject("bob");
    let mut next = Box::pin(limit.enter(&bob));
    tokio::task::yield_now().await;
    assert!(waits(&mut next).await, "the turn is taken");
    answered.notify_one();
    drop(next.await.expect("a turn"));
}

/// Polls a future once; returns whether it waits.
async fn waits<F: Future + Unpin>(future: &mut F) -> bool {
    poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_pending())).await
}

fn subject(name: &str) -> Subject {
    Subject::parse(name).expect("a subject")
}
