//! One HTTP/1.1 request and its response on a dedicated connection.

use std::error::Error;
use std::fmt::Write;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};

use super::Target;
use super::error::{FailureKind, OutboundError};
use super::limited::{Limited, ReadLimit, TooMuch};

/// Largest response head, in bytes: twice what common servers send at most.
pub const MAX_ANSWER_HEAD: usize = 16 << 10;
/// Most bytes before a response's body: its head, and any number of interim heads (1xx) before it.
pub const MAX_ANSWER_HEADS: usize = 64 << 10;
/// Most headers in a response.
pub const MAX_ANSWER_HEADERS: usize = 100;

/// How long an unwanted response body is read, so that its sender is not cut off.
const DRAIN: Duration = Duration::from_secs(1);

/// Headers that this client writes itself: they frame the message or describe the connection.
const OWN_HEADERS: [HeaderName; 8] =
    [HOST, CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, TE, TRAILER, UPGRADE, EXPECT];

/// A request to a checked target.
#[derive(Clone)]
pub struct OutboundRequest {
    pub(super) target: Target,
    pub(super) tenant: String,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
    pub(super) redirects: u8,
    asks_for_the_head: bool,
}

impl OutboundRequest {
    /// Most redirects that a request follows.
    pub const MAX_REDIRECTS: u8 = 5;

    /// A request without headers and body that follows no redirects.
    #[must_use]
    pub fn new(method: Method, target: Target) -> Self {
        let (tenant, headers, body) = (String::new(), HeaderMap::new(), Bytes::new());
        Self { target, tenant, method, headers, body, redirects: 0, asks_for_the_head: false }
    }

    /// On behalf of this tenant, a company for example: its host names that are slow to resolve hold up no other
    /// tenant's. Without it, the request shares with those that have none.
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = tenant.into();
        self
    }

    /// Adds a header. The client itself writes those that frame the message (`Host`, `Content-Length`, …).
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        if !OWN_HEADERS.contains(&name) {
            self.headers.append(name, value);
        }
        self
    }

    /// With a body, sent with a `Content-Length`.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Returns only the head of the response. Its body is read briefly and dropped, so one that trickles, breaks off or
    /// never ends does no harm.
    #[must_use]
    pub const fn head_only(mut self) -> Self {
        self.asks_for_the_head = true;
        self
    }

    /// Follows at most [`Self::MAX_REDIRECTS`] redirects of a `GET` or `HEAD`, each checked like the first target. A
    /// redirect to another origin drops the request's headers. Without this, and for other methods, a redirect is the
    /// response.
    #[must_use]
    pub const fn follow_redirects(mut self) -> Self {
        self.redirects = Self::MAX_REDIRECTS;
        self
    }

    /// The request that follows this response's redirect, if there is one to follow.
    pub(super) fn redirected(
        &self,
        answer: &OutboundAnswer,
        allow_http: bool,
    ) -> Result<Option<Self>, OutboundError> {
        let is_redirect = matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308);
        let follows = self.redirects > 0 && matches!(self.method, Method::GET | Method::HEAD);
        let location = answer.headers.get(http::header::LOCATION);
        let Some(location) = location.filter(|_| is_redirect && follows) else { return Ok(None) };
        let location = location.to_str().map_err(|error| OutboundError::new(FailureKind::Redirect, error))?;
        let target = self.target.redirect(location, allow_http)?;
        let stays = target.has_origin_of(&self.target);
        let headers = if stays { self.headers.clone() } else { HeaderMap::new() };
        Ok(Some(Self {
            target,
            tenant: self.tenant.clone(),
            method: self.method.clone(),
            headers,
            body: Bytes::new(),
            redirects: self.redirects,
            asks_for_the_head: self.asks_for_the_head,
        }))
    }

    fn build(&self) -> Result<Request<Full<Bytes>>, OutboundError> {
        let refused = |error: http::Error| OutboundError::new(FailureKind::RefusedUrl, error);
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(self.target.path())
            .header(HOST, self.target.authority())
            .header(CONNECTION, "close")
            .body(Full::new(self.body.clone()))
            .map_err(refused)?;
        let agent = concat!("platform/", env!("CARGO_PKG_VERSION"));
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(agent));
        if self.headers.contains_key(USER_AGENT) {
            request.headers_mut().remove(USER_AGENT);
        }
        for (name, value) in &self.headers {
            request.headers_mut().append(name, value.clone());
        }
        Ok(request)
    }
}

/// A response whose head arrived complete.
#[derive(Clone, Debug)]
pub struct OutboundAnswer {
    /// HTTP status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// The body, or its first bytes up to the limit.
    pub body: Bytes,
    /// Whether `body` is the whole body.
    pub is_whole: bool,
}

impl OutboundAnswer {
    /// The whole body.
    ///
    /// # Errors
    /// [`FailureKind::TooLarge`] when it was cut at the limit.
    pub fn whole_body(&self) -> Result<&Bytes, OutboundError> {
        if self.is_whole {
            return Ok(&self.body);
        }
        Err(OutboundError::new(FailureKind::TooLarge, format!("more than {} bytes", self.body.len())))
    }
}

/// Sends a request on this connection and reads at most `limit` bytes of the response body. A body that is not wanted is
/// not read past `until`.
pub(super) async fn exchange<T>(
    stream: T,
    request: &OutboundRequest,
    limit: usize,
    until: Instant,
) -> Result<OutboundAnswer, OutboundError>
where
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let message = request.build()?;
    let mut builder = http1::Builder::new();
    builder.max_headers(MAX_ANSWER_HEADERS).max_header_size(MAX_ANSWER_HEAD).max_buf_size(MAX_ANSWER_HEAD);
    let heads = ReadLimit::new(MAX_ANSWER_HEADS);
    let stream = TokioIo::new(Limited { stream, limit: heads.clone() });
    let (mut sender, connection) = builder.handshake(stream).await.map_err(|error| failed(&error))?;
    let mut answer = pin!(async move {
        let response = sender.send_request(message).await.map_err(|error| failed(&error))?;
        // The response's own head has arrived.
        heads.lift();
        let (parts, body) = response.into_parts();
        let (body, is_whole) = if request.asks_for_the_head {
            // Too slow or failed: the body is not wanted anyway.
            drop(timeout_at(until.min(Instant::now() + DRAIN), read(body, limit)).await);
            (Bytes::new(), false)
        } else {
            read(body, limit).await?
        };
        Ok(OutboundAnswer { status: parts.status, headers: parts.headers, body, is_whole })
    });
    let mut connection = pin!(connection);
    // Whatever ends the connection also ends the response, with the same cause.
    let answered = tokio::select! {
        answered = &mut answer => Some(answered),
        _ = &mut connection => None,
    };
    match answered {
        Some(answered) => answered,
        None => answer.await,
    }
}

/// Reads up to one byte past the limit, to know whether the body is complete.
async fn read(mut body: Incoming, limit: usize) -> Result<(Bytes, bool), OutboundError> {
    if limit == 0 {
        return Ok((Bytes::new(), body.is_end_stream()));
    }
    let mut kept = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| failed(&error))?.into_data() else { continue };
        let room = limit.saturating_sub(kept.len());
        if let Some(fitting) = data.get(..room).filter(|_| data.len() > room) {
            kept.extend_from_slice(fitting);
            return Ok((kept.into(), false));
        }
        kept.extend_from_slice(&data);
    }
    Ok((kept.into(), true))
}

fn failed(error: &hyper::Error) -> OutboundError {
    let mut kind = match error {
        error if error.is_parse_too_large() => FailureKind::TooLarge,
        error if error.is_parse() => FailureKind::Protocol,
        _ => FailureKind::Connect,
    };
    let mut detail = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let io = inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if io.is_some_and(<dyn Error + Send + Sync>::is::<TooMuch>) {
            kind = FailureKind::TooLarge;
        }
        // Writing to a string cannot fail.
        write!(detail, ": {inner}").unwrap_or_default();
        cause = inner.source();
    }
    OutboundError::new(kind, detail)
}
