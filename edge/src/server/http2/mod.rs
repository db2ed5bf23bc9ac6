//! HTTP/2 towards clients, over the crate `h2`: `serve` serves a connection, `stream` one request on it, `pump` the answer's
//! body on its way out, `through` a stream that carries another protocol. Windows and counts bound what a hostile or stalled
//! client can hold.

mod pump;
pub(crate) mod serve;
mod stream;
mod through;

use ::h2::server::Builder;

use crate::config::Limits;

/// A stalled stream holds at most this.
const STREAM_WINDOW: u32 = 64 << 10;
/// A stalled connection holds at most this.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// What a stream holds of an answer that its client does not read, window or not; the crate's own default is 400 KiB.
const SEND_BUFFER: usize = 64 << 10;
/// What `h2` may spend on remembering small DATA frames, which it counts as 256 bytes each. Past it the connection is closed.
/// Its default, half the connection's window, closes honest ones: an upload of 16-byte messages whose upstream stalls fills
/// its window with 4,095 of them, which just fit here. A stalled connection holds as much again as its window at most.
const SMALL_FRAMES_BYTES: usize = 1 << 20;
/// Rapid reset: streams reset by the peer before they were accepted.
const PENDING_ACCEPT_RESETS: usize = 20;
/// Streams this side had to reset because the peer broke the rules.
const LOCAL_ERROR_RESETS: usize = 100;
/// Room above the edge's limit on the header block, so that the edge answers 431 with its envelope.
const SLACK_BYTES: usize = 64 << 10;

/// What a request's header list may take.
const fn list_bytes(limits: &Limits) -> usize {
    limits.header_bytes.saturating_add(limits.uri).saturating_add(SLACK_BYTES)
}

/// How many frames a header block may have: a little more than those for which `h2` ends the connection, which are a quarter
/// more than the list needs.
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
