//! [`Upload`]: what the edge sends to an upstream. A short body of a client is taken in before the request takes a permit of
//! its upstream; a long one passes frame by frame, cut off past its limit and when it comes too slowly. A client's fault is
//! told apart from the upstream's. Where another task sends the body (HTTP/2), its progress is published, so that the
//! first-byte budget starts when the request is fully sent.

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

/// The longest body that is taken in before its request takes a permit of its upstream: forms and JSON are shorter.
pub(crate) const MAX_AHEAD: usize = 64 << 10;
/// Bytes of bodies that one worker holds while their requests have no permit yet: a thousand of the longest, a quarter of
/// them of one client. The heads of requests that wait for their bodies count, too. No further body is waited for before its
/// request takes a permit.
const MAX_HELD: usize = 64 << 20;

/// A body to an upstream.
#[derive(Debug)]
pub(crate) struct Upload {
    source: Source,
    /// Taken in already; comes before the rest.
    ahead: Option<Box<Ahead>>,
    /// A client's time, as long as it is asked for a rate.
    pace: Option<Box<Pace>>,
    /// What the limit leaves.
    left: Option<u64>,
    /// A frame was taken, so that the body cannot be sent a second time.
    begun: bool,
    news: Option<News>,
}

#[derive(Debug)]
enum Source {
    /// None, or one the edge made itself.
    Full(Bytes),
    /// A client's.
    Client(RequestBody),
}

/// What was taken in of a body.
#[derive(Debug)]
struct Ahead {
    data: Bytes,
    trailers: Option<HeaderMap>,
    _counted: Option<Counted>,
}

/// How many bytes of bodies one worker holds, and how many bodies of each client.
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

/// One body among them, until it is dropped.
#[derive(Debug)]
struct Counted {
    held: Arc<Held>,
    client: ClientKey,
    bytes: usize,
}

impl Counted {
    /// `None` when the client has its share.
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

/// How a client's body must come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The longest pause while it is taken in.
    pub(crate) pause: Duration,
    /// A body of unknown length is taken in, too, as far as any body is.
    pub(crate) of_unknown_length: bool,
    pub(crate) rate: LeastRate,
}

/// A client's credit, and the alarm that rings when it is used up.
#[derive(Debug)]
struct Pace {
    credit: Credit,
    alarm: Option<Alarm>,
}

/// How far a body is, for whoever waits for the answer.
pub(crate) type News = Arc<Mutex<Progress>>;

/// How far a client's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The last frame went to the upstream then.
    Sending(Instant),
    /// The upstream would take more, and the client has sent nothing since then.
    AwaitingClient(Instant),
    /// All of it is sent, since then.
    Sent(Instant),
    /// The client's fault; the request cannot be completed.
    Failed(ClientFault),
}

/// What a client did wrong in its body.
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
    /// It came slower than so many bytes a second.
    #[error("the request body came below the least rate")]
    TooSlow { least: u32 },
}

impl Upload {
    /// A client's body, cut off past `limit`.
    pub(crate) fn client(body: RequestBody, limit: Option<usize>) -> Self {
        let left = limit.map(|limit| u64::try_from(limit).unwrap_or(u64::MAX));
        Self { source: Source::Client(body), ahead: None, pace: None, left, begun: false, news: None }
    }

    /// A body of the edge's own.
    pub(crate) const fn full(bytes: Bytes) -> Self {
        Self { source: Source::Full(bytes), ahead: None, pace: None, left: None, begun: false, news: None }
    }

    pub(crate) const fn empty() -> Self {
        Self::full(Bytes::new())
    }

    /// The body, which is somebody else's from now on.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::empty())
    }

    /// Whether the request can still be sent to somebody else.
    pub(crate) const fn is_untouched(&self) -> bool {
        !self.begun
    }

    /// Takes a body in that was announced as no longer than [`MAX_AHEAD`], to its end, so that a slow client holds no permit
    /// at the upstream meanwhile. Where as much is held as may be, only what has come already is taken in. The terms hold for
    /// any body from now on; the headers `waiting` wait with it. On HTTP/2 more may follow a head than it has announced, and what is
    /// malformed must not reach an upstream as a whole request.
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

    /// Whether nothing more comes from the client.
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
            // Nothing of it went to anybody.
            self.begun = false;
            self.ahead = taking.end();
            Ok(())
        })
    }

    /// The upstream answers while the body is under way: it is a stream in both directions, and comes as it comes.
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

    /// Resolves when the client's credit is used up.
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

    /// Publishes the progress from now on. A body of unknown length to an upstream that speaks HTTP/2 is a stream.
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

    /// The client's trailers cannot be sent.
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

/// A body that is being taken in.
struct Taking<'a> {
    first: Bytes,
    /// Used only where a body comes in several pieces.
    all: BytesMut,
    trailers: Option<HeaderMap>,
    taken: usize,
    room: Room,
    /// Headers that wait with the body; counted once they do.
    waiting: Option<&'a HeaderMap>,
    alarm: Option<Alarm>,
}

/// Where a body waits while it is taken in.
enum Room {
    /// Nothing is held of it: it is always seen to its end.
    Needless,
    Of(Counted),
    /// Its client has its share.
    None,
}

impl Room {
    /// Whether more of the body may be waited for.
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

    /// Ready at the body's end, past [`MAX_AHEAD`], and where more would have to be waited for and there is no room.
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
        // The pause is measured anew.
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
