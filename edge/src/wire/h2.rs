//! The HTTP/2 server side: hyper's, with windows and counts that bound what a hostile or stalled client can hold.

use hyper::server::conn::http2::Builder;
use hyper_util::rt::TokioExecutor;

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

pub(crate) fn builder(limits: &Limits) -> Builder<TokioExecutor> {
    let list = limits.header_bytes.saturating_add(limits.uri).saturating_add(SLACK_BYTES);
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .max_concurrent_streams(limits.streams)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_pending_accept_reset_streams(PENDING_ACCEPT_RESETS)
        .max_local_error_reset_streams(LOCAL_ERROR_RESETS)
        .max_header_list_size(u32::try_from(list).unwrap_or(u32::MAX));
    builder
}
