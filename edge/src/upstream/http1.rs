//! [`Link`]: a connection to an upstream and its current exchange. Request and answer move in the same task, without a
//! queue between them: the task that waits for the answer's head or reads its body also sends the rest of the request.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;
use tokio_util::io::poll_read_buf;

use crate::body::upload::{ClientFault, Progress, Upload};
use crate::config::Budgets;
use crate::http::alarm::Alarm;
use crate::http::h1::framing::Length;
use crate::http::h1::head::AnswerHead;
use crate::http::h1::output::{Coding, Output};
use crate::http::h1::reader::{Reader, Taken};
use crate::http::h1::{framing, head};
use crate::http::quantum::Quantum;
use crate::upstream::client::Failure;
use crate::upstream::informing::Informing;
use crate::upstream::lasting::Lasting;
use crate::upstream::socket::Socket;
use crate::upstream::target::UpstreamPermit;

/// Bytes per read while the answer's head is awaited; most answers fit in one read.
const HEAD_READ: usize = 16 << 10;
/// Bytes per read of a longer body.
const BODY_READ: usize = 64 << 10;
/// The maximum size of an answer's head; services send a fraction of it.
const MAX_HEAD: usize = 64 << 10;

/// A connection to an upstream, with its current exchange.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one exchange, not a state")]
pub(crate) struct Link {
    socket: Socket,
    input: BytesMut,
    /// Bytes of `input` already scanned.
    scanned: usize,
    output: Output,
    reader: Reader,
    upload: Upload,
    coding: Coding,
    progress: Progress,
    /// The upstream takes no more of the request.
    deaf: bool,
    /// A byte of the answer has arrived.
    heard: bool,
    /// The answer allows the connection to be kept.
    keep: bool,
    /// The answer announced a body that it must not have.
    followed: bool,
    /// Informational answers so far.
    informing: Informing,
    /// Since when the client has had no room for informational answers.
    blocked: Option<Instant>,
    used_before: bool,
    lasting: Lasting,
    quantum: Quantum,
    alarm: Alarm,
    worker: usize,
    permit: Option<UpstreamPermit>,
}

/// Why an answer's body broke off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the upstream broke off: {0}")]
    Socket(#[from] io::Error),
    #[error("the upstream closed the connection before the end of the body")]
    Short,
    #[error("the upstream's body is malformed: {0}")]
    Malformed(#[from] crate::http::h1::Fault),
    #[error("the upstream sent nothing for too long")]
    Idle,
    #[error("the request broke off: {0}")]
    Client(#[from] ClientFault),
}

impl Link {
    pub(crate) fn new(socket: Socket, worker: usize) -> Self {
        let now = Instant::now();
        Self {
            socket,
            input: BytesMut::new(),
            scanned: 0,
            output: Output::default(),
            reader: Reader::done(),
            upload: Upload::empty(),
            coding: Coding::Plain,
            progress: Progress::Sent(now),
            deaf: false,
            heard: false,
            keep: false,
            followed: false,
            informing: Informing::default(),
            blocked: None,
            used_before: false,
            lasting: Lasting::default(),
            quantum: Quantum::new(),
            alarm: Alarm::at(now),
            worker,
            permit: None,
        }
    }

    /// Whether nothing has arrived while the connection was idle.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.input.is_empty() && self.socket.is_quiet()
    }

    /// Whether it has served a request before, so that the upstream may have closed it since.
    pub(crate) const fn was_used(&self) -> bool {
        self.used_before
    }

    /// Whether a server might wrongly send a body after the last answer, which has none.
    pub(crate) const fn may_be_followed(&self) -> bool {
        self.followed
    }

    /// Starts an exchange: writes the head and takes the body.
    pub(crate) fn begin(&mut self, request: &Request<()>, upload: Upload, now: Instant) {
        let length = upload.size_hint().exact();
        let empty = upload.is_end_stream();
        self.output.put_request_line(request.method(), request.uri());
        self.output.put_headers(request.headers());
        let silent =
            matches!(*request.method(), Method::GET | Method::HEAD | Method::DELETE | Method::OPTIONS);
        self.coding = Coding::Plain;
        match length {
            _ if empty && silent => {}
            _ if empty => self.output.put_length(0),
            Some(length) => self.output.put_length(length),
            None => {
                self.coding = Coding::Chunked;
                self.output.put(b"transfer-encoding: chunked\r\n");
            }
        }
        self.output.put(b"\r\n");
        self.progress = if empty { Progress::Sent(now) } else { Progress::Sending(now) };
        self.upload = upload;
        self.socket.set_under_way(true);
        (self.deaf, self.heard, self.keep) = (false, false, false);
        (self.scanned, self.reader, self.lasting) = (0, Reader::done(), Lasting::default());
        (self.informing, self.blocked) = (Informing::default(), None);
    }

    /// Reads the answer's head within the budgets; passes informational answers on.
    pub(crate) fn poll_head(
        &mut self,
        context: &mut Context<'_>,
        method: &Method,
        budgets: &Budgets,
    ) -> Poll<Result<AnswerHead, Failure>> {
        self.pump(context).map_err(Failure::Client)?;
        while self.has_room(context) {
            let before = self.input.len();
            if let Some(head) = self.next_head().map_err(|_| Failure::Malformed)? {
                if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS {
                    self.informing.count(before - self.input.len())?;
                    self.upload.inform(head.status, &head.headers);
                    continue;
                }
                return Poll::Ready(self.accept(method, head));
            }
            match self.poll_fill(context, true) {
                Poll::Ready(Ok(length)) if length > 0 => self.heard = true,
                Poll::Ready(_) => return Poll::Ready(Err(Failure::Reset)),
                Poll::Pending => break,
            }
        }
        self.alarm.set(self.due(budgets));
        ready!(self.alarm.poll(context));
        Poll::Ready(Err(self.overdue()))
    }

    /// Whether the client has room for informational answers. Until it has, nothing is read, and the upstream's budget
    /// is suspended.
    fn has_room(&mut self, context: &mut Context<'_>) -> bool {
        if self.informing.is_none() {
            return true;
        }
        let now = Instant::now();
        let has_room = self.upload.poll_room(context).is_ready();
        if !has_room {
            self.blocked.get_or_insert(now);
        } else if self.blocked.take().is_some() && matches!(self.progress, Progress::Sent(_)) {
            self.progress = Progress::Sent(now);
        }
        has_room
    }

    /// Takes the request's body back if none of it was sent and no byte of the answer has arrived: the request can be
    /// retried.
    pub(crate) fn unsent(&mut self) -> Option<Upload> {
        let whole = !self.heard && self.upload.is_untouched();
        whole.then(|| self.upload.take())
    }

    /// Holds the permit until the exchange is over.
    pub(crate) fn hold(&mut self, permit: UpstreamPermit) {
        self.permit = Some(permit);
    }

    /// Whether the answer has no body, or its body is complete.
    pub(crate) const fn is_done(&self) -> bool {
        self.reader.is_done()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.reader.size_hint()
    }

    /// The next frame of the answer's body. After `None` the link can be returned.
    pub(crate) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
        budgets: &Budgets,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if !self.deaf && !matches!(self.progress, Progress::Sent(_)) {
            self.pump(context).map_err(Broken::Client)?;
        }
        ready!(self.quantum.poll_left(context));
        loop {
            match self.reader.next(&mut self.input).map_err(Broken::Malformed)? {
                Taken::Frame(frame) => {
                    self.lasting.moved();
                    self.quantum.spend(frame.data_ref().map_or(0, Bytes::len));
                    return Poll::Ready(Some(Ok(frame)));
                }
                Taken::End => return Poll::Ready(None),
                Taken::NeedMore => {}
            }
            match self.poll_fill(context, false) {
                Poll::Ready(Ok(0)) if self.reader.may_end_here() => {
                    self.reader = Reader::done();
                    self.keep = false;
                    return Poll::Ready(None);
                }
                Poll::Ready(Ok(0)) => return Poll::Ready(Some(Err(Broken::Short))),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                Poll::Pending => break,
            }
        }
        let Self { lasting, alarm, permit, .. } = self;
        let silence = lasting.poll_silence(alarm, permit.as_mut(), budgets.stream_idle, context);
        silence.map(|()| Some(Err(Broken::Idle)))
    }

    /// Records that the client takes nothing of the answer at the moment.
    pub(crate) fn stalled(&mut self, now: Instant) {
        self.lasting.stalled(self.permit.as_mut(), now);
    }

    /// Returns the connection to the pool if both messages on it are complete; otherwise closes it.
    pub(crate) fn go_home(mut self: Box<Self>) {
        let sent = matches!(self.progress, Progress::Sent(_)) && !self.deaf && self.output.left() == 0;
        let permit = self.permit.take();
        self.socket.set_under_way(!(sent && self.reader.is_done()));
        // Surplus bytes after the answer must not reach another request.
        if !(self.keep && sent && self.reader.is_done() && self.is_quiet()) {
            return;
        }
        self.upload = Upload::empty();
        self.used_before = true;
        let worker = self.worker;
        if let Some(idle) = permit.as_ref().and_then(UpstreamPermit::host).and_then(|host| host.idle(worker))
        {
            idle.put_back(self);
        }
    }

    /// Returns the bare connection after a 101, the bytes after the head, and the permit.
    pub(crate) fn into_tunnel(mut self) -> (Socket, Bytes, Option<UpstreamPermit>) {
        self.socket.set_under_way(false);
        (self.socket, self.input.freeze(), self.permit)
    }

    fn next_head(&mut self) -> Result<Option<AnswerHead>, crate::http::h1::Fault> {
        let Some(end) = head::end(&self.input, self.scanned)? else {
            self.scanned = self.input.len();
            let fits = self.scanned <= MAX_HEAD;
            return if fits { Ok(None) } else { Err(crate::http::h1::Fault::HeadTooLarge) };
        };
        self.scanned = 0;
        head::answer(&self.input.split_to(end).freeze()).map(Some)
    }

    fn accept(&mut self, method: &Method, mut head: AnswerHead) -> Result<AnswerHead, Failure> {
        let declared = head.declared.map_err(|_| Failure::Malformed)?;
        let length = framing::of_answer(method, head.status, declared);
        self.upload.is_a_stream();
        let tunnel = head.status == StatusCode::SWITCHING_PROTOCOLS;
        let announced = !matches!(declared, None | Some(Length::Exact(0)));
        let is_bodiless = *method == Method::HEAD || head.status == StatusCode::NOT_MODIFIED;
        self.followed = is_bodiless && declared != Some(Length::Exact(0));
        // A 204 that announces a body is malformed (RFC 9110, 8.6): the bytes after it cannot be attributed.
        let is_clear = !(announced && head.status == StatusCode::NO_CONTENT);
        self.keep = !head.close && !tunnel && is_clear && length != Length::UntilClose;
        self.reader = Reader::of(length);
        if let Some(Length::Exact(announced)) = declared
            && is_bodiless
        {
            // For these the header states how long the body would be.
            head.headers.insert(CONTENT_LENGTH, HeaderValue::from(announced));
        }
        Ok(head)
    }

    /// Sends as much of the request as possible.
    fn pump(&mut self, context: &mut Context<'_>) -> Result<(), ClientFault> {
        while !self.deaf {
            match self.output.poll_room(&mut self.socket, context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => self.deaf = true,
                Poll::Pending => return Ok(()),
            }
            if matches!(self.progress, Progress::Sent(_)) {
                break;
            }
            match Pin::new(&mut self.upload).poll_frame(context) {
                Poll::Ready(Some(frame)) => self.put(frame?),
                Poll::Ready(None) => {
                    self.output.put_end(self.coding, None);
                    self.progress = Progress::Sent(Instant::now());
                }
                Poll::Pending => {
                    if let Progress::Sending(last) = self.progress {
                        self.progress = Progress::AwaitingClient(last);
                    }
                    break;
                }
            }
        }
        // A socket that takes nothing more may still hold the answer.
        if !self.deaf && matches!(self.output.poll_send(&mut self.socket, context), Poll::Ready(Err(_))) {
            self.deaf = true;
        }
        Ok(())
    }

    fn put(&mut self, frame: Frame<Bytes>) {
        let now = Instant::now();
        self.progress = Progress::Sending(now);
        match frame.into_data() {
            Ok(data) => self.output.put_data(data, self.coding),
            Err(frame) => {
                let trailers: Option<HeaderMap> = frame.into_trailers().ok();
                self.output.put_end(self.coding, trailers.as_ref());
                self.progress = Progress::Sent(now);
            }
        }
        if self.upload.is_end_stream() && self.coding == Coding::Plain {
            self.progress = Progress::Sent(now);
        }
    }

    /// Reads what has arrived; 0 at the end of the connection.
    fn poll_fill(&mut self, context: &mut Context<'_>, head: bool) -> Poll<io::Result<usize>> {
        if head {
            let mut space = [const { MaybeUninit::uninit() }; HEAD_READ];
            let mut buffer = ReadBuf::uninit(&mut space);
            ready!(Pin::new(&mut self.socket).poll_read(context, &mut buffer))?;
            self.input.extend_from_slice(buffer.filled());
            return Poll::Ready(Ok(buffer.filled().len()));
        }
        let wanted = self.reader.size().map_or(BODY_READ, |left| usize::try_from(left).unwrap_or(BODY_READ));
        self.input.reserve(wanted.clamp(1, BODY_READ));
        poll_read_buf(Pin::new(&mut self.socket), context, &mut self.input)
    }

    fn due(&self, budgets: &Budgets) -> Instant {
        if let Some(since) = self.blocked {
            return since + budgets.body_idle;
        }
        match self.progress {
            Progress::Sending(last) | Progress::AwaitingClient(last) => last + budgets.body_idle,
            Progress::Sent(at) => at + budgets.first_byte,
            Progress::Failed(_) => Instant::now(),
        }
    }

    const fn overdue(&self) -> Failure {
        if self.blocked.is_some() {
            return Failure::Client(ClientFault::Stalled);
        }
        match self.progress {
            Progress::Sending(_) => Failure::BodyTimeout,
            Progress::AwaitingClient(_) => Failure::Client(ClientFault::Stalled),
            Progress::Sent(_) => Failure::FirstByteTimeout,
            Progress::Failed(fault) => Failure::Client(fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::task::Waker;
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::body::request::{Client, RequestBody};
    use crate::config::Capacity;

    const BUDGET: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_mins(1);

    /// A client that gets informational answers, and may have no room for more.
    #[derive(Default)]
    struct Listener {
        is_full: AtomicBool,
        told: AtomicUsize,
    }

    impl Client for Listener {
        fn poll_frame(&self, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ClientFault>>> {
            Poll::Ready(None)
        }

        fn is_end(&self) -> bool {
            true
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(0)
        }

        fn inform(&self, _: StatusCode, _: &HeaderMap) {
            self.told.fetch_add(1, Ordering::SeqCst);
            self.is_full.store(true, Ordering::SeqCst);
        }

        fn poll_room(&self, _: &mut Context<'_>) -> Poll<()> {
            if self.is_full.load(Ordering::SeqCst) { Poll::Pending } else { Poll::Ready(()) }
        }
    }

    fn budgets(first_byte: Duration, body_idle: Duration) -> Budgets {
        let capacity = Capacity { requests: 1, share: 100 };
        Budgets { dial: LONG, first_byte, body_idle, stream_idle: LONG, pool_idle: LONG, capacity }
    }

    /// A running request of this client, and an upstream that has answered with two hints and a 200.
    async fn hinted(client: &Arc<Listener>) -> (Link, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let mut link = Link::new(Socket::plain(dialled.expect("a connection")), 0);
        let client: Arc<dyn Client> = Arc::<Listener>::clone(client);
        let upload = Upload::client(RequestBody::http1(client, true), None);
        link.begin(&Request::new(()), upload, Instant::now());
        let (mut upstream, _) = accepted.expect("a connection");
        let hint = "HTTP/1.1 103 Early Hints\r\n\r\n";
        let answers = format!("{hint}{hint}HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        upstream.write_all(answers.as_bytes()).await.expect("sent");
        (link, upstream)
    }

    #[tokio::test]
    async fn a_client_without_room_holds_further_hints_back_and_the_upstream_has_its_time_afterwards() {
        let client = Arc::new(Listener::default());
        let (mut link, _upstream) = hinted(&client).await;
        let budgets = budgets(BUDGET, LONG);
        let first = poll_fn(|context| {
            let polled = link.poll_head(context, &Method::GET, &budgets);
            let is_told = client.told.load(Ordering::SeqCst) > 0;
            if is_told { Poll::Ready(polled) } else { polled.map(Poll::Ready) }
        });
        assert!(first.await.is_pending());
        tokio::time::sleep(BUDGET * 2).await;
        let context = &mut Context::from_waker(Waker::noop());
        assert!(
            link.poll_head(context, &Method::GET, &budgets).is_pending(),
            "the upstream's time stands still"
        );
        assert_eq!(client.told.load(Ordering::SeqCst), 1, "the second hint waits");
        client.is_full.store(false, Ordering::SeqCst);
        assert!(link.poll_head(context, &Method::GET, &budgets).is_pending());
        assert_eq!(client.told.load(Ordering::SeqCst), 2);
        client.is_full.store(false, Ordering::SeqCst);
        let answered = link.poll_head(context, &Method::GET, &budgets);
        assert!(matches!(answered, Poll::Ready(Ok(head)) if head.status == StatusCode::OK));
    }

    #[tokio::test]
    async fn a_client_that_never_has_room_is_given_up() {
        let (mut link, _upstream) = hinted(&Arc::default()).await;
        let budgets = budgets(LONG, BUDGET);
        let answered = poll_fn(|context| link.poll_head(context, &Method::GET, &budgets)).await;
        assert_eq!(answered.map(|_| ()), Err(Failure::Client(ClientFault::Stalled)));
    }
}
