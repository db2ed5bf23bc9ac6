//! [`Tunnel`]: after an upstream's 101, its connection and the client's carry another protocol, usually WebSocket.
//! Bytes pass in both directions as they arrive; each direction ends by itself, and both end when nothing moves for too
//! long.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_util::io::poll_read_buf;

use crate::http::alarm::Alarm;
use crate::metrics::access::OpenRecord;
use crate::metrics::meter::InFlight;
use crate::upstream::socket::Socket;
use crate::upstream::target::UpstreamPermit;

/// Bytes per read; more gains nothing for messages.
const READ: usize = 16 << 10;

/// The upstream's end, and the resources held until the tunnel ends.
#[derive(Debug)]
pub(crate) struct Tunnel {
    socket: Socket,
    /// Received right after the upstream's 101.
    early: Bytes,
    longest_pause: Duration,
    permit: Option<UpstreamPermit>,
    /// Counts the tunnel as a request in flight.
    in_flight: Option<InFlight>,
    record: OpenRecord,
}

impl Tunnel {
    pub(crate) const fn new(
        socket: Socket,
        early: Bytes,
        permit: Option<UpstreamPermit>,
        longest_pause: Duration,
    ) -> Self {
        Self { socket, early, longest_pause, permit, in_flight: None, record: OpenRecord::none() }
    }

    pub(crate) fn keep(&mut self, in_flight: Option<InFlight>, record: OpenRecord) {
        self.in_flight = in_flight;
        self.record = record;
    }

    /// Carries bytes until both sides have ended, one failed, or nothing moved for too long. `early` is what the client
    /// sent right after its request.
    pub(crate) async fn run<C>(mut self, mut client: C, early: BytesMut) -> io::Result<()>
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        let (mut up, mut down) =
            (Direction::with(early), Direction::with(BytesMut::from(self.early.as_ref())));
        let mut alarm = Alarm::at(Instant::now() + self.longest_pause);
        let carried = poll_fn(|context| {
            let mut moved = false;
            let sent = up.poll(&mut client, &mut self.socket, context, &mut moved)?;
            let received = down.poll(&mut self.socket, &mut client, context, &mut moved)?;
            self.record.carried(up.carried, down.carried);
            if sent.is_ready() && received.is_ready() {
                return Poll::Ready(Ok(()));
            }
            if moved {
                alarm.set(Instant::now() + self.longest_pause);
            }
            alarm.poll(context).map(|()| Err(io::Error::from(io::ErrorKind::TimedOut)))
        })
        .await;
        drop(self.permit);
        carried
    }
}

/// One direction.
struct Direction {
    held: BytesMut,
    /// Bytes passed on.
    carried: u64,
    ended: bool,
    shut: bool,
}

impl Direction {
    const fn with(held: BytesMut) -> Self {
        Self { held, carried: 0, ended: false, shut: false }
    }

    /// `Ready` once its end was passed on.
    fn poll<A, B>(
        &mut self,
        from: &mut A,
        to: &mut B,
        context: &mut Context<'_>,
        moved: &mut bool,
    ) -> io::Result<Poll<()>>
    where
        A: AsyncRead + Unpin,
        B: AsyncWrite + Unpin,
    {
        match self.poll_inner(from, to, context, moved) {
            Poll::Ready(Ok(())) => Ok(Poll::Ready(())),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(Poll::Pending),
        }
    }

    fn poll_inner<A, B>(
        &mut self,
        from: &mut A,
        to: &mut B,
        context: &mut Context<'_>,
        moved: &mut bool,
    ) -> Poll<io::Result<()>>
    where
        A: AsyncRead + Unpin,
        B: AsyncWrite + Unpin,
    {
        if self.shut {
            return Poll::Ready(Ok(()));
        }
        loop {
            while !self.held.is_empty() {
                let written = ready!(Pin::new(&mut *to).poll_write(context, &self.held))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.held.advance(written);
                self.carried += u64::try_from(written).unwrap_or(u64::MAX);
                *moved = true;
            }
            if self.ended {
                ready!(Pin::new(&mut *to).poll_shutdown(context))?;
                self.shut = true;
                return Poll::Ready(Ok(()));
            }
            self.held.reserve(READ);
            match poll_read_buf(Pin::new(&mut *from), context, &mut self.held) {
                Poll::Ready(Ok(0)) => self.ended = true,
                Poll::Ready(Ok(_)) => *moved = true,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    ready!(Pin::new(&mut *to).poll_flush(context))?;
                    return Poll::Pending;
                }
            }
        }
    }
}
