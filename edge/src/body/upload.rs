//! [`Upload`]: the body that the gateway sends to an upstream. A client's short body is buffered before the request
//! takes an upstream permit; a long one is streamed, and cut off when it exceeds its limit or arrives too slowly.
//! Client faults are distinguished from upstream faults. If another task sends the body (HTTP/2), its progress is
//! published, so that the first-byte budget starts when the request is fully sent.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Duration, Instant};

use crate::body::request::RequestBody;
use crate::config::LeastRate;
use crate::http::alarm::Alarm;
use crate::http::credit::Credit;
use crate::http::headers::{claims_identity, size_of};
use crate::http::share::{ClientKey, Shares};
use crate::http::trailers;

/// The longest body buffered before its request takes an upstream permit: forms and JSON are shorter.
pub(crate) const MAX_AHEAD: usize = 64 << 10;
/// Bytes of bodies that one worker holds while their requests have no permit: a thousand of the longest, a quarter of
/// them for one client. The heads of requests that wait for their bodies count, too. At the limit, requests take their
/// permits without waiting for their bodies.
const MAX_HELD: usize = 64 << 20;

/// A body for an upstream.
#[derive(Debug)]
pub(crate) struct Upload {
    source: Source,
    /// The buffered part, which precedes the rest.
    ahead: Option<Box<Ahead>>,
    /// The client's credit, while a minimum rate applies.
    pace: Option<Box<Pace>>,
    /// The bytes left of the limit.
    left: Option<u64>,
    /// A frame was taken, so the body cannot be sent again.
    begun: bool,
    news: Option<News>,
}

#[derive(Debug)]
enum Source {
    /// No body, or one that the gateway made itself.
    Full(Bytes),
    /// A client's body.
    Client(RequestBody),
}

/// The buffered part of a body.
#[derive(Debug)]
struct Ahead {
    data: Bytes,
    trailers: Option<HeaderMap>,
    _counted: Option<Counted>,
}

/// The bytes of bodies that one worker holds, and each client's number of bodies.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: AtomicUsize,
    bodies: Shares,
}

impl Default for Held {
    fn default() -> Self {
        Self { bytes: AtomicUsize::new(0), bodies: Shares::new(MAX_HELD / MAX_AHEAD / 4) }
    }
}

/// One of these bodies, counted until it is dropped.
#[derive(Debug)]
struct Counted {
    held: Arc<Held>,
    client: ClientKey,
    bytes: usize,
}

impl Counted {
    /// `None` when the client is at its limit.
    fn enter(held: &Arc<Held>, client: ClientKey) -> Option<Self> {
        held.bodies.enter(client).then(|| Self { held: Arc::clone(held), client, bytes: 0 })
    }

    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.held.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn has_room(&self) -> bool {
        self.held.bytes.load(Ordering::Relaxed) < MAX_HELD
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.held.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.held.bodies.leave(self.client);
    }
}

/// How a client's body must arrive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The longest pause while the body is buffered.
    pub(crate) pause: Duration,
    /// A body of unknown length is buffered, too, up to the same limit.
    pub(crate) of_unknown_length: bool,
    pub(crate) rate: LeastRate,
}

/// A client's credit, and the timer that fires when it runs out.
#[derive(Debug)]
struct Pace {
    credit: Credit,
    alarm: Option<Alarm>,
}

/// A body's progress, for the task that waits for the answer.
pub(crate) type News = Arc<Mutex<Progress>>;

/// The progress of a client's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The last frame went to the upstream at this time.
    Sending(Instant),
    /// The upstream would take more, and the client has sent nothing since this time.
    AwaitingClient(Instant),
    /// All of it has been sent since this time.
    Sent(Instant),
    /// The client's fault; the request cannot be completed.
    Failed(ClientFault),
}

/// The client's fault in its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClientFault {
    #[error("the request body broke off or is malformed")]
    Broken,
    #[error("the request body is too large")]
    TooLarge,
    #[error("the request's trailers are larger than the upstream takes")]
    TrailersTooLarge,
    #[error("a trailer claims an identity")]
    IdentityTrailer,
    #[error("the request body stopped arriving")]
    Stalled,
    /// Slower than `least` bytes a second.
    #[error("the request body arrived below the minimum rate")]
    TooSlow { least: u32 },
}

impl Upload {
    /// A client's body, cut off beyond `limit`.
    pub(crate) fn client(body: RequestBody, limit: Option<usize>) -> Self {
        let left = limit.map(|limit| u64::try_from(limit).unwrap_or(u64::MAX));
        Self { source: Source::Client(body), ahead: None, pace: None, left, begun: false, news: None }
    }

    /// A body that the gateway made itself.
    pub(crate) const fn full(bytes: Bytes) -> Self {
        Self { source: Source::Full(bytes), ahead: None, pace: None, left: None, begun: false, news: None }
    }

    pub(crate) const fn empty() -> Self {
        Self::full(Bytes::new())
    }

    /// Takes the body out, leaving an empty one.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::empty())
    }

    /// Whether the request can still be sent elsewhere.
    pub(crate) const fn is_untouched(&self) -> bool {
        !self.begun
    }

    /// Buffers a body that declares at most [`MAX_AHEAD`] bytes, to its end, so that a slow client holds no upstream
    /// permit meanwhile. At the worker's limit only the bytes already received are buffered. `terms` apply to any body
    /// from now on; `waiting` are the headers held along with it. A body declared empty is read to its end, too: on
    /// HTTP/2 more may follow a head than it declared, and a malformed request must not reach an upstream as complete.
    pub(crate) async fn take_in(
        &mut self,
        terms: Terms,
        client: ClientKey,
        held: &Arc<Held>,
        waiting: &HeaderMap,
    ) -> Result<(), ClientFault> {
        if self.is_end_stream() {
            return Ok(());
        }
        self.pace = Some(Box::new(Pace { credit: Credit::new(terms.rate), alarm: None }));
        let most = u64::try_from(MAX_AHEAD).unwrap_or(u64::MAX);
        let room = match self.size_hint().exact() {
            Some(0) => Room::Needless,
            Some(length) if length > most => return Ok(()),
            None if !terms.of_unknown_length => return Ok(()),
            Some(_) | None => Counted::enter(held, client).map_or(Room::None, Room::Of),
        };
        self.take_whole(terms.pause, Taking::new(room, waiting)).await
    }

    /// Whether the client sends nothing more.
    pub(crate) fn is_taken_in(&self) -> bool {
        match &self.source {
            Source::Full(_) => true,
            Source::Client(body) => body.is_end_stream(),
        }
    }

    #[inline(never)]
    fn take_whole<'a>(
        &'a mut self,
        pause: Duration,
        mut taking: Taking<'a>,
    ) -> BoxFuture<'a, Result<(), ClientFault>> {
        Box::pin(async move {
            poll_fn(|context| taking.poll(self, pause, context)).await?;
            // None of it has been sent yet.
            self.begun = false;
            self.ahead = taking.end();
            Ok(())
        })
    }

    /// Marks the body as a stream, without a minimum rate: the upstream answers while the body is arriving.
    pub(crate) fn is_a_stream(&mut self) {
        self.pace = None;
    }

    fn next_ahead(&mut self) -> Option<Frame<Bytes>> {
        let ahead = self.ahead.as_mut()?;
        if !ahead.data.is_empty() {
            let data = std::mem::take(&mut ahead.data);
            if ahead.trailers.is_none() {
                self.ahead = None;
            }
            return Some(Frame::data(data));
        }
        let trailers = ahead.trailers.take();
        self.ahead = None;
        trailers.map(Frame::trailers)
    }

    /// Resolves when the client's credit runs out.
    fn poll_pace(&mut self, context: &mut Context<'_>) -> Poll<ClientFault> {
        let Some(pace) = &mut self.pace else { return Poll::Pending };
        let Some(due) = pace.credit.wait(Instant::now()) else { return Poll::Pending };
        let alarm = pace.alarm.get_or_insert_with(|| Alarm::at(due));
        alarm.set(due);
        let least = pace.credit.least_rate();
        alarm.poll(context).map(|()| ClientFault::TooSlow { least })
    }

    fn came(&mut self, frame: &Frame<Bytes>) {
        if let Some(pace) = &mut self.pace {
            pace.credit.moved(frame.data_ref().map_or(0, Bytes::len), Instant::now);
        }
    }

    /// Passes an upstream's informational answer on to the client.
    pub(crate) fn inform(&self, status: StatusCode, headers: &HeaderMap) {
        if let Source::Client(body) = &self.source {
            body.inform(status, headers);
        }
    }

    /// Resolves when the client has room for an informational answer.
    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        match &self.source {
            Source::Client(body) => body.poll_room(context),
            Source::Full(_) => Poll::Ready(()),
        }
    }

    /// Publishes the progress from now on. A body of unknown length to an HTTP/2 upstream is a stream.
    pub(crate) fn publish(&mut self) -> News {
        if self.size_hint().exact().is_none() {
            self.is_a_stream();
        }
        let now = Instant::now();
        let first = if self.is_end_stream() { Progress::Sent(now) } else { Progress::Sending(now) };
        let news = Arc::new(Mutex::new(first));
        self.news = Some(Arc::clone(&news));
        news
    }

    /// Fails the body: the upstream does not accept the client's trailers.
    pub(crate) fn refuse_trailers(&self) -> ClientFault {
        let fault = ClientFault::TrailersTooLarge;
        self.tell(|_| Progress::Failed(fault));
        fault
    }

    fn tell(&self, progress: impl FnOnce(Instant) -> Progress) {
        if let Some(news) = &self.news {
            *news.lock().unwrap_or_else(PoisonError::into_inner) = progress(Instant::now());
        }
    }

    fn accept(&mut self, mut frame: Frame<Bytes>) -> Result<Frame<Bytes>, ClientFault> {
        if let Some(fields) = frame.trailers_mut() {
            if fields.keys().any(claims_identity) {
                return Err(ClientFault::IdentityTrailer);
            }
            trailers::strip(fields);
        }
        if let (Some(left), Some(data)) = (&mut self.left, frame.data_ref()) {
            let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
            *left = left.checked_sub(length).ok_or(ClientFault::TooLarge)?;
        }
        Ok(frame)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = ClientFault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientFault>>> {
        let polled = match (self.next_ahead(), &mut self.source) {
            (Some(frame), _) => Poll::Ready(Some(Ok(frame))),
            (None, Source::Full(bytes)) if bytes.is_empty() => Poll::Ready(None),
            (None, Source::Full(bytes)) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            (None, Source::Client(body)) => match Pin::new(body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.came(&frame);
                    Poll::Ready(Some(self.accept(frame)))
                }
                polled @ (Poll::Ready(Some(Err(_)) | None) | Poll::Pending) => polled,
            },
        };
        match polled {
            Poll::Pending => {
                self.tell(Progress::AwaitingClient);
                let fault = ready!(self.poll_pace(context));
                self.tell(|_| Progress::Failed(fault));
                Poll::Ready(Some(Err(fault)))
            }
            Poll::Ready(None) => {
                self.tell(Progress::Sent);
                Poll::Ready(None)
            }
            Poll::Ready(Some(frame)) => {
                self.begun = true;
                match &frame {
                    Err(fault) => self.tell(|_| Progress::Failed(*fault)),
                    Ok(_) if self.is_end_stream() => self.tell(Progress::Sent),
                    Ok(_) => self.tell(Progress::Sending),
                }
                Poll::Ready(Some(frame))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ahead.is_none()
            && match &self.source {
                Source::Full(bytes) => bytes.is_empty(),
                Source::Client(body) => body.is_end_stream(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        let count = |bytes: &Bytes| u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        let rest = match &self.source {
            Source::Full(bytes) => SizeHint::with_exact(count(bytes)),
            Source::Client(body) => body.size_hint(),
        };
        match (&self.ahead, rest.exact()) {
            (Some(ahead), Some(rest)) => SizeHint::with_exact(count(&ahead.data).saturating_add(rest)),
            (Some(_), None) => SizeHint::new(),
            (None, _) => rest,
        }
    }
}

/// A body being buffered.
struct Taking<'a> {
    first: Bytes,
    /// Used only if a body arrives in several pieces.
    all: BytesMut,
    trailers: Option<HeaderMap>,
    taken: usize,
    room: Room,
    /// The headers held along with the body; counted once the body waits.
    waiting: Option<&'a HeaderMap>,
    alarm: Option<Alarm>,
}

/// What a body being buffered counts against.
enum Room {
    /// Nothing is held: an empty body is always read to its end.
    Needless,
    Of(Counted),
    /// Its client is at its limit.
    None,
}

impl Room {
    /// Whether more of the body may be awaited.
    fn is_left(&self) -> bool {
        match self {
            Self::Needless => true,
            Self::Of(counted) => counted.has_room(),
            Self::None => false,
        }
    }

    fn add(&mut self, bytes: usize) {
        if let Self::Of(counted) = self {
            counted.add(bytes);
        }
    }
}

impl<'a> Taking<'a> {
    fn new(room: Room, waiting: &'a HeaderMap) -> Self {
        let (first, all) = (Bytes::new(), BytesMut::new());
        Self { first, all, trailers: None, taken: 0, room, waiting: Some(waiting), alarm: None }
    }

    /// Ready at the body's end, beyond [`MAX_AHEAD`], or when more would have to be awaited without room for it.
    fn poll(
        &mut self,
        upload: &mut Upload,
        pause: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), ClientFault>> {
        while !upload.is_end_stream() && self.taken <= MAX_AHEAD {
            match Pin::new(&mut *upload).poll_frame(context) {
                Poll::Ready(Some(frame)) => self.add(frame?, upload),
                Poll::Ready(None) => break,
                Poll::Pending if !self.room.is_left() => break,
                Poll::Pending => {
                    if let Some(headers) = self.waiting.take() {
                        self.room.add(size_of(headers));
                    }
                    let due = || Alarm::at(Instant::now() + pause);
                    ready!(self.alarm.get_or_insert_with(due).poll(context));
                    return Poll::Ready(Err(ClientFault::Stalled));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn add(&mut self, frame: Frame<Bytes>, upload: &Upload) {
        // Restart the pause.
        self.alarm = None;
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                self.trailers = frame.into_trailers().ok();
                return;
            }
        };
        self.taken += data.len();
        self.room.add(data.len());
        if self.first.is_empty() && self.all.is_empty() {
            self.first = data;
            return;
        }
        if self.all.is_empty() {
            let rest = upload.size_hint().exact().and_then(|rest| usize::try_from(rest).ok());
            self.all.reserve(self.taken.saturating_add(rest.unwrap_or_default()));
            self.all.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.all.extend_from_slice(&data);
    }

    fn end(self) -> Option<Box<Ahead>> {
        let Self { first, all, trailers, room, .. } = self;
        let counted = if let Room::Of(counted) = room { Some(counted) } else { None };
        let data = if all.is_empty() { first } else { all.freeze() };
        let any = !data.is_empty() || trailers.is_some();
        any.then(|| Box::new(Ahead { data, trailers, _counted: counted }))
    }
}
