//! Internals exposed for the benchmarks in `benches/` and the fuzzing in `tests/`. Not part of the crate's interface,
//! and on no request's path.

use std::net::SocketAddr;
use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use contract::CorrelationId;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::config::OwnHosts;
use crate::http::h1::framing::Length;
use crate::http::h1::reader::{Reader, Taken};
use crate::http::h1::{Fault, framing, head};
use crate::http::h2::fields::Fields;
use crate::http::headers::Marks;
use crate::http::peer::{Peer, Scheme};
use crate::pipeline::forwarded::Sender;
use crate::pipeline::route::RouteTable;
use crate::pipeline::{guard, outbound};

static HOSTS: LazyLock<OwnHosts> = LazyLock::new(|| OwnHosts::of_domain("platform.example"));

/// The route table.
#[derive(Debug)]
pub struct Routes(RouteTable);

impl Routes {
    /// Builds the table of the gateway's API description.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a table is built on purpose")]
    pub fn new() -> Self {
        Self(RouteTable::new())
    }

    /// Returns the label of the route that a request matches.
    #[must_use]
    pub fn resolve(&self, method: &Method, path: &str) -> Option<&'static str> {
        self.0.find(method, path).ok().map(|route| route.label)
    }
}

/// Rewrites a request's headers to those that the upstream gets.
#[must_use]
pub fn rewrite(
    headers: HeaderMap,
    host: &str,
    correlation: &CorrelationId,
    client: SocketAddr,
) -> Option<HeaderMap> {
    let peer = Peer { address: client, scheme: Scheme::Https };
    let host = HeaderValue::from_str(host).ok()?;
    let (marks, from) = (Marks::of(&headers), Sender { peer, behind_trusted_proxy: false, hosts: &HOSTS });
    outbound::rewrite(headers, marks, host, correlation, from).ok()
}

/// Parses a request's head and rewrites it to what the upstream gets, without asking any service; `None` when it is
/// refused.
#[must_use]
pub fn take_in(
    raw: &Bytes,
    host: &str,
    correlation: &CorrelationId,
    client: SocketAddr,
) -> Option<HeaderMap> {
    head::end(raw, 0).ok()??;
    let head = head::request(raw).ok()?;
    let marks = Marks::of(&head.headers);
    guard::check_headers(marks, &head.headers).ok()?;
    rewrite(head.headers, host, correlation, client)
}

/// The check of an HTTP/2 connection's header blocks.
#[derive(Debug, Default)]
pub struct HeaderBlocks(Fields);

impl HeaderBlocks {
    /// Checks the next block; true when it is well-formed.
    pub fn is_well_formed(&mut self, block: &[u8]) -> bool {
        self.0.read(block).is_some_and(|seen| !seen.malformed)
    }
}

/// What was read of an upstream's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status of the last head, after any informational ones.
    pub status: Option<StatusCode>,
    /// The headers as passed on.
    pub headers: HeaderMap,
    /// The body's length as declared by the head.
    pub declared: Option<u64>,
    /// The body as far as it has arrived.
    pub body: Vec<u8>,
    /// The trailers of a chunked body.
    pub trailers: Option<HeaderMap>,
    /// Whether the answer is complete.
    pub is_whole: bool,
    /// Bytes after the answer, or not yet parsed.
    pub left: Vec<u8>,
}

/// Reads an answer to `method` from its bytes as they arrive; `None` when it is malformed.
#[must_use]
pub fn read_answer<'a>(method: &Method, pieces: impl IntoIterator<Item = &'a [u8]>) -> Option<Answer> {
    let mut answering = Answering::default();
    for piece in pieces {
        answering.input.extend_from_slice(piece);
        answering.read(method).ok()?;
    }
    let Answering { input, mut answer, .. } = answering;
    answer.left = input.to_vec();
    Some(answer)
}

#[derive(Default)]
struct Answering {
    input: BytesMut,
    scanned: usize,
    reader: Option<Reader>,
    answer: Answer,
}

impl Answering {
    fn read(&mut self, method: &Method) -> Result<(), Fault> {
        while self.reader.is_none() {
            let Some(end) = head::end(&self.input, self.scanned)? else {
                self.scanned = self.input.len();
                return Ok(());
            };
            self.scanned = 0;
            let head = head::answer(&self.input.split_to(end).freeze())?;
            self.answer.status = Some(head.status);
            self.answer.headers = head.headers;
            if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS {
                continue;
            }
            let declared = head.declared?;
            self.answer.declared = match declared {
                Some(Length::Exact(length)) => Some(length),
                Some(Length::Chunked | Length::UntilClose) | None => None,
            };
            self.reader = Some(Reader::of(framing::of_answer(method, head.status, declared)));
        }
        let Some(reader) = &mut self.reader else { return Ok(()) };
        loop {
            match reader.next(&mut self.input)? {
                Taken::Frame(frame) => match frame.into_data() {
                    Ok(data) => self.answer.body.extend_from_slice(&data),
                    Err(frame) => self.answer.trailers = frame.into_trailers().ok(),
                },
                Taken::End | Taken::NeedMore => {
                    self.answer.is_whole = reader.is_done();
                    return Ok(());
                }
            }
        }
    }
}
