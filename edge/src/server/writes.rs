//! Holds a connection's small writes until its poll ends, so that many frames become one TLS record and one system
//! call. Deferring the flush would not suffice: the TLS layer writes to the socket with every write. Nothing is held
//! beyond the end of a poll: [`Flushing`] sends it then, whether or not the connection has finished.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::server::backlog::Backlog;

/// The maximum held: one full TLS record. Longer writes gain nothing from waiting.
const MAX_HELD: usize = 16 << 10;
/// The buffer kept between polls; thousands of idle connections must not keep whole records.
const KEPT_CAPACITY: usize = 1 << 10;

/// A socket as its connection sees it: writes are buffered.
pub(crate) struct Holding<S>(Arc<Mutex<Held<S>>>);

/// A connection and its held writes: the future ends when the connection does, or when the socket fails.
pub(crate) struct Flushing<'a, C, S> {
    connection: Pin<&'a mut C>,
    writes: Writes<S>,
    backlog: &'a Backlog,
}

/// The sending half of a [`Holding`] socket. One task uses both in turn, so the lock is never contended.
pub(crate) struct Writes<S>(Arc<Mutex<Held<S>>>);

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error(transparent)]
    Protocol(#[from] h2::Error),
    #[error("cannot write to the client: {0}")]
    Socket(#[from] io::Error),
}

struct Held<S> {
    socket: S,
    bytes: Vec<u8>,
    /// How many of `bytes` the socket has taken.
    sent: usize,
    /// Bytes were written to the socket since its last flush.
    unflushed: bool,
    /// The socket took less than was held: it must take the rest before another write is accepted.
    blocked: bool,
}

/// Splits a socket into a half that holds writes and a half that sends them.
pub(crate) fn hold<S>(socket: S) -> (Holding<S>, Writes<S>) {
    let held = Held { socket, bytes: Vec::new(), sent: 0, unflushed: false, blocked: false };
    let shared = Arc::new(Mutex::new(held));
    (Holding(Arc::clone(&shared)), Writes(shared))
}

impl<'a, C, S> Flushing<'a, C, S> {
    pub(crate) const fn new(connection: Pin<&'a mut C>, writes: Writes<S>, backlog: &'a Backlog) -> Self {
        Self { connection, writes, backlog }
    }

    /// The connection itself.
    pub(crate) fn connection(&mut self) -> Pin<&mut C> {
        self.connection.as_mut()
    }
}

impl<C, S> Future for Flushing<'_, C, S>
where
    C: Future<Output = Result<(), h2::Error>>,
    S: AsyncWrite + Unpin,
{
    type Output = Result<(), Broken>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.connection.as_mut().poll(context);
        let sent = lock(&self.writes.0).poll_send(context);
        match (polled, sent) {
            // A connection that ended cleanly has shut its socket down, which sends everything; a failed one is not
            // kept for a client that does not read.
            (Poll::Ready(ended), _) => Poll::Ready(ended.map_err(Broken::from)),
            (Poll::Pending, Poll::Ready(Err(error))) => Poll::Ready(Err(error.into())),
            (Poll::Pending, Poll::Ready(Ok(()))) => {
                // Streams give no more than their windows allow, so `h2` has kept nothing back either.
                self.backlog.clear();
                Poll::Pending
            }
            (Poll::Pending, Poll::Pending) => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> Held<S> {
    /// Sends the held bytes, and flushes the socket if needed.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.blocked = true;
        while let Some(rest) = self.bytes.get(self.sent..).filter(|rest| !rest.is_empty()) {
            let sent = ready!(Pin::new(&mut self.socket).poll_write(context, rest))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unflushed = true;
            self.sent += sent;
        }
        self.forget_bytes();
        if self.unflushed {
            ready!(Pin::new(&mut self.socket).poll_flush(context))?;
            self.unflushed = false;
        }
        self.blocked = false;
        Poll::Ready(Ok(()))
    }

    /// Makes room for `length` more bytes. `true`: hold them; `false`: write them to the socket directly.
    fn poll_room(&mut self, context: &mut Context<'_>, length: usize) -> Poll<io::Result<bool>> {
        if self.blocked || self.bytes.len().saturating_add(length) > MAX_HELD {
            ready!(self.poll_send(context))?;
        }
        Poll::Ready(Ok(length <= MAX_HELD))
    }

    fn forget_bytes(&mut self) {
        self.sent = 0;
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_CAPACITY {
            self.bytes = Vec::new();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Holding<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut lock(&self.0).socket).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Holding<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut held = lock(&self.0);
        if ready!(held.poll_room(context, bytes.len()))? {
            held.bytes.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        held.unflushed = true;
        Pin::new(&mut held.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut held = lock(&self.0);
        let length = slices.iter().map(|slice| slice.len()).sum();
        if ready!(held.poll_room(context, length))? {
            held.bytes.reserve(length);
            for slice in slices {
                held.bytes.extend_from_slice(slice);
            }
            return Poll::Ready(Ok(length));
        }
        held.unflushed = true;
        Pin::new(&mut held.socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Deferred to the end of the poll, unless the socket is known to be full.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut held = lock(&self.0);
        if held.blocked { held.poll_send(context) } else { Poll::Ready(Ok(())) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut held = lock(&self.0);
        ready!(held.poll_send(context))?;
        Pin::new(&mut held.socket).poll_shutdown(context)
    }
}

fn lock<S>(held: &Mutex<Held<S>>) -> MutexGuard<'_, Held<S>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// A socket that takes what it has room for, and records each write.
    #[derive(Default)]
    struct Socket {
        room: usize,
        writes: Vec<Vec<u8>>,
        flushes: usize,
        shut: bool,
    }

    impl AsyncWrite for Socket {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let length = bytes.len().min(self.room);
            if length == 0 {
                return Poll::Pending;
            }
            self.room -= length;
            self.writes.push(bytes.iter().take(length).copied().collect());
            Poll::Ready(Ok(length))
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.flushes += 1;
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.shut = true;
            Poll::Ready(Ok(()))
        }
    }

    struct Pair {
        holding: Holding<Socket>,
        writes: Writes<Socket>,
    }

    impl Pair {
        fn with_room(room: usize) -> Self {
            let (holding, writes) = hold(Socket { room, ..Socket::default() });
            Self { holding, writes }
        }

        fn write(&mut self, bytes: &[u8]) -> Poll<Option<usize>> {
            let context = &mut Context::from_waker(Waker::noop());
            Pin::new(&mut self.holding).poll_write(context, bytes).map(Result::ok)
        }

        fn flush(&mut self) -> Poll<bool> {
            let context = &mut Context::from_waker(Waker::noop());
            Pin::new(&mut self.holding).poll_flush(context).map(|flushed| flushed.is_ok())
        }

        fn shut_down(&mut self) -> Poll<bool> {
            let context = &mut Context::from_waker(Waker::noop());
            Pin::new(&mut self.holding).poll_shutdown(context).map(|shut| shut.is_ok())
        }

        fn end_of_poll(&self) -> Poll<bool> {
            let context = &mut Context::from_waker(Waker::noop());
            lock(&self.writes.0).poll_send(context).map(|sent| sent.is_ok())
        }

        fn give_room(&self, room: usize) {
            lock(&self.writes.0).socket.room += room;
        }

        fn written(&self) -> Vec<usize> {
            lock(&self.writes.0).socket.writes.iter().map(Vec::len).collect()
        }

        fn bytes(&self) -> Vec<u8> {
            lock(&self.writes.0).socket.writes.concat()
        }
    }

    #[test]
    fn many_small_writes_are_one_at_the_end_of_the_poll_and_nothing_stays_behind() {
        let mut pair = Pair::with_room(1 << 20);
        for part in ["head", "er", "s"] {
            assert_eq!(pair.write(part.as_bytes()), Poll::Ready(Some(part.len())));
            assert_eq!(pair.flush(), Poll::Ready(true));
        }
        assert_eq!(pair.written(), [0_usize; 0]);
        assert_eq!(pair.end_of_poll(), Poll::Ready(true));
        assert_eq!((pair.written(), pair.bytes()), (vec![7], b"headers".to_vec()));
        assert_eq!(pair.end_of_poll(), Poll::Ready(true));
        assert_eq!(lock(&pair.writes.0).socket.flushes, 1, "an idle poll does not touch the socket");
    }

    #[test]
    fn slices_are_held_together_and_long_ones_pass() {
        let mut pair = Pair::with_room(1 << 20);
        let context = &mut Context::from_waker(Waker::noop());
        let long = vec![b'x'; MAX_HELD];
        let slices = [IoSlice::new(b"head"), IoSlice::new(b"body")];
        let wrote = Pin::new(&mut pair.holding).poll_write_vectored(context, &slices);
        assert!(matches!(wrote, Poll::Ready(Ok(8))));
        assert_eq!(pair.written(), [0_usize; 0]);
        let slices = [IoSlice::new(b"frame"), IoSlice::new(&long)];
        let wrote = Pin::new(&mut pair.holding).poll_write_vectored(context, &slices);
        assert!(matches!(wrote, Poll::Ready(Ok(length)) if length > 0));
        assert_eq!(pair.bytes()[..13], *b"headbodyframe");
    }

    #[test]
    fn a_write_at_the_limit_is_held_and_one_past_it_passes_after_what_is_held() {
        let mut pair = Pair::with_room(1 << 20);
        assert_eq!(pair.write(&[1; MAX_HELD]), Poll::Ready(Some(MAX_HELD)));
        assert_eq!(pair.written(), [0_usize; 0]);
        assert_eq!(pair.write(&[2; 10]), Poll::Ready(Some(10)));
        assert_eq!(pair.written(), [MAX_HELD], "full, so it went; the new bytes are held");
        assert_eq!(pair.write(&vec![3; MAX_HELD + 1]), Poll::Ready(Some(MAX_HELD + 1)));
        assert_eq!(pair.written(), [MAX_HELD, 10, MAX_HELD + 1]);
        let in_order = [vec![1; MAX_HELD], vec![2; 10], vec![3; MAX_HELD + 1]].concat();
        assert_eq!(pair.bytes(), in_order);
        assert_eq!(pair.end_of_poll(), Poll::Ready(true));
        assert_eq!(lock(&pair.writes.0).socket.flushes, 3, "what passed is flushed too");
    }

    #[test]
    fn a_reader_that_stopped_stops_the_writer_and_loses_nothing() {
        let mut pair = Pair::with_room(3);
        assert_eq!(pair.write(b"abcdef"), Poll::Ready(Some(6)));
        assert_eq!(pair.end_of_poll(), Poll::Pending);
        assert_eq!(pair.write(b"g"), Poll::Pending, "although there is room to hold it");
        assert_eq!(pair.flush(), Poll::Pending);
        assert_eq!(pair.shut_down(), Poll::Pending);
        pair.give_room(10);
        assert_eq!(pair.write(b"g"), Poll::Ready(Some(1)));
        assert_eq!(pair.end_of_poll(), Poll::Ready(true));
        assert_eq!(pair.bytes(), b"abcdefg");
    }

    #[test]
    fn shutting_down_sends_what_is_held_first() {
        let mut pair = Pair::with_room(10);
        assert_eq!(pair.write(b"goodbye"), Poll::Ready(Some(7)));
        assert_eq!(pair.shut_down(), Poll::Ready(true));
        assert_eq!(pair.bytes(), b"goodbye");
        assert!(lock(&pair.writes.0).socket.shut);
    }

    #[test]
    fn a_connection_that_has_sent_keeps_no_large_buffer() {
        let mut pair = Pair::with_room(1 << 20);
        for _ in 0..3 {
            assert_eq!(pair.write(&[1; MAX_HELD]), Poll::Ready(Some(MAX_HELD)));
            assert_eq!(pair.end_of_poll(), Poll::Ready(true));
            assert!(lock(&pair.writes.0).bytes.capacity() <= KEPT_CAPACITY);
        }
    }
}
