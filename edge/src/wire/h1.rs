//! The HTTP/1 server side: hyper's, with limits a little above the edge's own, so that the edge can answer 414 and 431
//! with its envelope; what lies far above is refused by hyper itself.

use hyper::server::conn::http1::Builder;

use crate::config::Limits;

/// Room above the edge's limit on the header block.
const SLACK_BYTES: usize = 64 << 10;
/// hyper's own lower bound of a connection's buffer.
const SMALLEST_BUFFER: usize = 8 << 10;

pub(crate) fn builder(limits: &Limits) -> Builder {
    let mut builder = Builder::new();
    builder
        // The edge's own timers end a slow head, an idle connection and a silent one (`activity.rs`).
        .header_read_timeout(None)
        .max_headers(limits.headers.saturating_mul(2))
        .max_buf_size(
            limits.header_bytes.saturating_add(limits.uri).saturating_add(SLACK_BYTES).max(SMALLEST_BUFFER),
        )
        .pipeline_flush(false);
    builder
}
