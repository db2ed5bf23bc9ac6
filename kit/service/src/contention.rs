//! Retries transactions that PostgreSQL aborted in favour of others (a deadlock or a serialization failure), up to
//! [`RETRIES`] times. The layer [`layer`] retries whole requests, without the handlers knowing; [`retried`] retries one
//! transaction of several.
//!
//! Only work that left no effect is retried: a request that already committed a transaction keeps its error. A worker
//! needs none of this, because its next round is the retry.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::ApiError;

/// Number of retries: PostgreSQL detects a deadlock after one second, and a request has 4.5 seconds.
pub const RETRIES: usize = 3;

tokio::task_local! {
    /// What the database reported for the current work.
    static SAID: Cell<Said>;
}

/// What the database reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// A transaction was aborted in favour of another.
    gave_way: bool,
    /// A transaction was committed.
    committed: bool,
}

/// Records that the database aborted a transaction; does nothing outside a request.
pub(crate) fn gave_way() {
    note(|said| Said { gave_way: true, ..said });
}

/// Records that a transaction was committed.
pub(crate) fn committed() {
    note(|said| Said { committed: true, ..said });
}

fn note(change: impl FnOnce(Said) -> Said) {
    // An error means that nothing watches this work: it is a worker's, which has rounds instead.
    SAID.try_with(|said| said.set(change(said.get()))).unwrap_or_default();
}

/// Runs the work and returns it with what the database reported meanwhile.
pub(crate) async fn watched<T>(work: impl Future<Output = T>) -> (T, Said) {
    SAID.scope(Cell::default(), async {
        let done = work.await;
        (done, SAID.with(Cell::get))
    })
    .await
}

impl Said {
    const fn may_be_repeated(self) -> bool {
        self.gave_way && !self.committed
    }

    /// Records here what was reported to a task of its own.
    pub(crate) fn note(self) {
        note(|said| Self {
            gave_way: said.gave_way || self.gave_way,
            committed: said.committed || self.committed,
        });
    }
}

/// Runs one transaction, and retries it when the database aborts it. For a request that commits more than one.
///
/// # Errors
/// Those of the work; 503 when the database aborted every attempt.
pub async fn retried<T, F: Future<Output = Result<T, ApiError>>>(
    work: impl Fn() -> F,
) -> Result<T, ApiError> {
    let mut left = RETRIES;
    loop {
        let (done, said) = watched(work()).await;
        if done.is_err() && said.may_be_repeated() && left > 0 {
            left -= 1;
            continue;
        }
        if said.committed {
            committed();
        }
        return done;
    }
}

/// Retries a request that failed because the database aborted its transaction. The body is recorded while it is read,
/// so that the next attempt reads the same bytes; the reader's limit also bounds the recording.
pub(crate) async fn layer(request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let (body, heard) = Listening::to(body);
    let (mut response, mut said) =
        watched(next.clone().run(Request::from_parts(parts.clone(), Body::new(body)))).await;
    for attempt in 1..=RETRIES {
        let failed = response.status().is_server_error() && said.may_be_repeated();
        let Some(body) = failed.then(|| heard.whole()).flatten() else { break };
        tracing::info!(attempt, "the database aborted the transaction; retrying");
        let again = Request::from_parts(parts.clone(), Body::from(body));
        (response, said) = watched(next.clone().run(again)).await;
    }
    response
}

/// A body that records what is read from it.
struct Listening {
    body: Body,
    heard: Heard,
}

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Record>>);

#[derive(Default)]
struct Record {
    pieces: Vec<Bytes>,
    ended: bool,
}

impl Listening {
    fn to(body: Body) -> (Self, Heard) {
        let heard = Heard::default();
        heard.record().ended = http_body::Body::is_end_stream(&body);
        (Self { body, heard: heard.clone() }, heard)
    }
}

impl Heard {
    /// The recorded body, once it was read to its end.
    fn whole(&self) -> Option<Vec<u8>> {
        let record = self.record();
        record.ended.then(|| record.pieces.concat())
    }

    fn record(&self) -> std::sync::MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl http_body::Body for Listening {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let mut record = self.heard.record();
        record.ended = frame.is_none() || self.body.is_end_stream();
        if let Some(Ok(frame)) = &frame {
            record.pieces.extend(frame.data_ref().cloned());
        }
        drop(record);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
