//! HTTP/2 towards clients, on the `h2` crate: `serve` serves a connection, `stream` one request on it, `pump` sends the
//! answer's body, `through` carries another protocol on a stream. Windows and counts bound what a hostile or stalled
//! client can hold.

mod pump;
pub(crate) mod serve;
mod stream;
mod through;

use ::h2::server::Builder;

use crate::config::Limits;

/// The maximum that a stalled stream holds of a request's body.
const STREAM_WINDOW: u32 = 64 << 10;
/// The maximum that a stalled connection holds of requests' bodies.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// The maximum that a stream holds of an answer its client does not read, regardless of the window; the `h2` default is 400
/// KiB.
const SEND_BUFFER: usize = 64 << 10;
/// The budget of `h2` for small DATA frames, which it counts as 256 bytes each; exceeding it closes the connection. The
/// default, half the connection's window, closes honest connections: an upload of 16-byte messages to a stalled
/// upstream fills its window with 4,095 of them, which just fit here. A stalled connection holds at most as much again
/// as its window.
const SMALL_FRAMES_BYTES: usize = 1 << 20;
/// Rapid reset: streams reset by the peer before they were accepted.
const PENDING_ACCEPT_RESETS: usize = 20;
/// Streams this side had to reset because the peer broke the rules.
const LOCAL_ERROR_RESETS: usize = 100;
/// Slack above the configured limit on the header block, so that the gateway answers 431 with its error body.
const SLACK_BYTES: usize = 64 << 10;

/// The maximum size of a request's header list.
const fn list_bytes(limits: &Limits) -> usize {
    limits.header_bytes.saturating_add(limits.uri).saturating_add(SLACK_BYTES)
}

/// The maximum number of frames of a header block: slightly more than `h2` allows before it ends the connection, which
/// is a quarter more than the list needs.
const fn max_block_frames(limits: &Limits) -> usize {
    let least = list_bytes(limits) / crate::http::h2::blocks::MAX_FRAME_BYTES;
    least.saturating_add(least / 4).saturating_add(8)
}

fn builder(limits: &Limits) -> Builder {
    let list = list_bytes(limits);
    let mut builder = Builder::new();
    builder
        .max_concurrent_streams(limits.streams)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER)
        .data_frame_budget(SMALL_FRAMES_BYTES)
        .max_pending_accept_reset_streams(PENDING_ACCEPT_RESETS)
        .max_local_error_reset_streams(Some(LOCAL_ERROR_RESETS))
        .max_header_list_size(u32::try_from(list).unwrap_or(u32::MAX))
        .enable_connect_protocol();
    builder
}
