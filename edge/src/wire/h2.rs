//! The HTTP/2 server side: hyper's, with windows and counts that bound what a hostile or stalled client can hold.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use http::{Method, Request};
use hyper::ext::Protocol;
use hyper::rt::Executor;
use hyper::server::conn::http2::Builder;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, sleep};

use super::activity::Busy;
use super::tunnel::Tunnel;
use crate::Edge;
use crate::config::Limits;

/// A stalled stream holds at most this.
const STREAM_WINDOW: u32 = 64 << 10;
/// A stalled connection holds at most this.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Rapid reset: streams reset by the peer before they were accepted.
const PENDING_ACCEPT_RESETS: usize = 20;
/// Streams this side had to reset because the peer broke the rules.
const LOCAL_ERROR_RESETS: usize = 100;
/// Room above the edge's limit on the header block, so that the edge answers 431 with its envelope.
const SLACK_BYTES: usize = 64 << 10;

pub(crate) fn builder(limits: &Limits, longest_pause: Duration) -> Builder<Streams> {
    let list = limits.header_bytes.saturating_add(limits.uri).saturating_add(SLACK_BYTES);
    let mut builder = Builder::new(Streams { longest_pause });
    builder
        .max_concurrent_streams(limits.streams)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_pending_accept_reset_streams(PENDING_ACCEPT_RESETS)
        .max_local_error_reset_streams(LOCAL_ERROR_RESETS)
        .max_header_list_size(u32::try_from(list).unwrap_or(u32::MAX))
        .enable_connect_protocol();
    builder
}

/// Whether the client asks for the bare stream, for another protocol on it (RFC 8441).
pub(crate) fn asks_for_a_stream<B>(request: &Request<B>) -> bool {
    request.method() == Method::CONNECT && request.extensions().get::<Protocol>().is_some()
}

/// Carries the other protocol beside the connection, until it ends or the drain is over.
pub(crate) fn carry(edge: &Edge, tunnel: Tunnel, stream: OnUpgrade, busy: Busy) {
    let end = edge.end.clone();
    edge.tasks.spawn(async move {
        let carried = end.run_until_cancelled(async {
            match stream.await {
                Ok(stream) => tunnel.run(TokioIo::new(stream), BytesMut::new()).await,
                Err(error) => Err(std::io::Error::other(error)),
            }
        });
        let carried = carried.await;
        tracing::debug!(?carried, "a tunnel ended");
        drop(busy);
    });
}

/// Runs each stream as a task of its own, and resets one in which nothing has happened for too long: hyper does not ask
/// the body while the client's window is closed, so no timer in the body would be heard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams {
    longest_pause: Duration,
}

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
{
    fn execute(&self, stream: F) {
        tokio::spawn(unless_stalled(stream, self.longest_pause));
    }
}

/// Polls the stream to its end, or drops it, which resets it, when it was not woken for `longest_pause`.
async fn unless_stalled(stream: impl Future, longest_pause: Duration) {
    let mut stream = pin!(stream);
    let mut timer = pin!(sleep(longest_pause));
    poll_fn(|context| {
        // Taken before the stream is polled: a timer that it sets in this poll must not ring before this one and count
        // as a sign of life.
        let now = Instant::now();
        let late = timer.deadline() <= now;
        if stream.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        if late {
            tracing::debug!("an HTTP/2 stream stalled and is reset");
            return Poll::Ready(());
        }
        timer.as_mut().reset(now + longest_pause);
        timer.as_mut().poll(context)
    })
    .await;
}
