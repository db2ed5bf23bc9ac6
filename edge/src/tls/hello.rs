//! Reads a client's first TLS message before anything is allocated for its handshake: a silent client costs only its
//! socket and a task.

use std::future::poll_fn;
use std::io::{self, Error, ErrorKind};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::server::{Accepted, AcceptedAlert, Acceptor};
use rustls::{ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

/// The maximum size of a `ClientHello` with its records. One with a post-quantum key share has 2 KiB; the rest leaves
/// room for a ticket that contains a chain of client certificates. Held for up to as many clients as there are
/// connections.
const MAX_BYTES: usize = 16 << 10;
/// Bytes per read; most `ClientHellos` fit in one.
const READ: usize = 4 << 10;

/// A complete `ClientHello`.
pub(crate) struct Hello {
    pub(crate) accepted: Accepted,
    /// The raw bytes, if they may be needed again.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// Reads a `ClientHello`; `keep` retains its bytes for a second handshake.
pub(crate) async fn read(stream: &mut TcpStream, keep: bool) -> io::Result<Box<Hello>> {
    let mut reading = Reading { acceptor: None, left: MAX_BYTES, kept: keep.then(Vec::new) };
    poll_fn(|context| reading.poll(context, stream)).await
}

/// The state of reading.
struct Reading {
    /// Allocated at the first byte.
    acceptor: Option<Box<Acceptor>>,
    left: usize,
    kept: Option<Vec<u8>>,
}

impl Reading {
    fn poll(&mut self, context: &mut Context<'_>, stream: &mut TcpStream) -> Poll<io::Result<Box<Hello>>> {
        // On the stack rather than in the task, so that a silent client holds none of it.
        let mut space = [const { MaybeUninit::uninit() }; READ];
        loop {
            if self.left == 0 {
                return Poll::Ready(Err(Error::new(
                    ErrorKind::InvalidData,
                    "a ClientHello that is too long",
                )));
            }
            let mut room = ReadBuf::uninit(&mut space);
            let mut buffer = room.take(self.left);
            ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer))?;
            if buffer.filled().is_empty() {
                return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
            }
            match self.take(buffer.filled())? {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    return Poll::Ready(Ok(Box::new(Hello { accepted, bytes: self.kept.take() })));
                }
                Err((error, alert)) => {
                    tell(stream, alert);
                    return Poll::Ready(Err(Error::new(ErrorKind::InvalidData, error)));
                }
            }
        }
    }

    fn take(
        &mut self,
        mut bytes: &[u8],
    ) -> io::Result<Result<Option<Accepted>, (rustls::Error, AcceptedAlert)>> {
        self.left = self.left.saturating_sub(bytes.len());
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(bytes);
        }
        let acceptor = self.acceptor.get_or_insert_default();
        while !bytes.is_empty() {
            acceptor.read_tls(&mut bytes)?;
        }
        Ok(acceptor.accept())
    }
}

/// Restarts the handshake from these bytes with another configuration.
pub(crate) fn begin_anew(mut bytes: &[u8], config: Arc<ServerConfig>) -> io::Result<ServerConnection> {
    let mut acceptor = Acceptor::default();
    while !bytes.is_empty() {
        acceptor.read_tls(&mut bytes)?;
    }
    let accepted = acceptor.accept().map_err(|(error, _)| Error::new(ErrorKind::InvalidData, error))?;
    let accepted = accepted.ok_or(ErrorKind::UnexpectedEof)?;
    accepted.into_connection(config).map_err(|(error, _)| Error::new(ErrorKind::InvalidData, error))
}

/// Sends the alert if the socket takes it at once; the connection is closed without waiting.
fn tell(stream: &TcpStream, mut alert: AcceptedAlert) {
    let mut bytes = Vec::new();
    if let Err(error) = alert.write_all(&mut bytes).and_then(|()| stream.try_write(&bytes)) {
        tracing::trace!(%error, "a client has left before its alert");
    }
}
