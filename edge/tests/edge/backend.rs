//! A scripted upstream: answers by path prefix as each test configures it, echoes all other requests, and records every
//! request.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// The backend's behaviour for one path prefix.
#[derive(Clone)]
pub(crate) enum Answer {
    Json(u16, Value),
    Raw(u16, &'static str),
    WithHeader(&'static str, String, Value),
    Hang,
    /// Sends the lines of this channel, starting with its current value.
    Lines(watch::Receiver<String>),
    /// Sends each chunk as it arrives on the channel; a dropped sender ends the body, an empty chunk breaks it.
    Chunks(Arc<Mutex<Option<mpsc::UnboundedReceiver<Bytes>>>>),
}

/// A request to the backend.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path_and_query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

#[derive(Default)]
struct Script {
    answers: Mutex<Vec<(String, Answer)>>,
    seen: Mutex<Vec<Seen>>,
    connections: Mutex<usize>,
}

/// A scripted upstream on its own port; stopped when dropped.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    script: Arc<Script>,
    _server: JoinSet<()>,
}

impl Backend {
    pub(crate) async fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.expect("a free port"))
    }

    pub(crate) fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().expect("an address");
        let script = Arc::new(Script::default());
        let mut server = JoinSet::new();
        server.spawn(serve(listener, Arc::clone(&script)));
        Self { address, script, _server: server }
    }

    /// Sets the behaviour for requests under `prefix`; the newest rule wins.
    pub(crate) fn on_path(&self, prefix: &str, answer: Answer) {
        self.script.answers.lock().expect("not poisoned").insert(0, (prefix.to_owned(), answer));
    }

    /// The requests under `prefix` so far.
    pub(crate) fn seen(&self, prefix: &str) -> Vec<Seen> {
        let seen = self.script.seen.lock().expect("not poisoned");
        seen.iter().filter(|seen| seen.path_and_query.starts_with(prefix)).cloned().collect()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.script.connections.lock().expect("not poisoned")
    }
}

async fn serve(listener: TcpListener, script: Arc<Script>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        *script.connections.lock().expect("not poisoned") += 1;
        let script = Arc::clone(&script);
        connections.spawn(async move {
            let service = service_fn(|request| respond(&script, request));
            // Some tests make the gateway cut connections.
            let _ended = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

type Body = BoxBody<Bytes, std::io::Error>;

async fn respond(script: &Script, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path_and_query().expect("a path").as_str().to_owned();
    let answer = {
        let answers = script.answers.lock().expect("not poisoned");
        answers.iter().find(|(prefix, _)| path.starts_with(prefix.as_str())).map(|(_, answer)| answer.clone())
    };
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let seen = Seen {
        method: parts.method.to_string(),
        path_and_query: path,
        headers: parts.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    script.seen.lock().expect("not poisoned").push(seen.clone());
    Ok(match answer {
        None => full(
            200,
            json!({"data": {"method": seen.method, "path": seen.path_and_query, "body": seen.body}})
                .to_string(),
        ),
        Some(Answer::Json(status, value)) => full(status, value.to_string()),
        Some(Answer::Raw(status, text)) => full(status, text.to_owned()),
        Some(Answer::WithHeader(name, value, body)) => {
            let mut response = full(200, body.to_string());
            response.headers_mut().insert(name, value.parse().expect("a header value"));
            response
        }
        Some(Answer::Hang) => std::future::pending().await,
        Some(Answer::Lines(lines)) => Response::new(BodyExt::boxed(StreamBody::new(frames(lines_of(lines))))),
        Some(Answer::Chunks(chunks)) => {
            let chunks = chunks.lock().expect("not poisoned").take().expect("one request");
            let chunks = stream::unfold(chunks, |mut chunks| async {
                chunks.recv().await.map(|chunk| (chunk, chunks))
            });
            Response::new(BodyExt::boxed(StreamBody::new(frames(chunks))))
        }
    })
}

fn lines_of(lines: watch::Receiver<String>) -> impl Stream<Item = Bytes> {
    stream::unfold((lines, true), |(mut lines, first)| async move {
        if !first && lines.changed().await.is_err() {
            return None;
        }
        let line = format!("{}\n", *lines.borrow_and_update());
        Some((Bytes::from(line), (lines, false)))
    })
}

fn frames(
    chunks: impl Stream<Item = Bytes> + Send + Sync + 'static,
) -> impl Stream<Item = Result<Frame<Bytes>, std::io::Error>> + Send + Sync {
    chunks.map(|chunk| {
        if chunk.is_empty() {
            Err(std::io::Error::other("broken on purpose"))
        } else {
            Ok(Frame::data(chunk))
        }
    })
}

fn full(status: u16, text: String) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed());
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    response.headers_mut().insert("content-type", "application/json".parse().expect("a value"));
    response
}
