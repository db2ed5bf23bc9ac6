//! [`Sending`]: the socket below a client's TLS. It sends a handshake's last messages with the first answer.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A client's socket.
///
/// TLS writes one record as a vectored write of one slice. `writev` would go through the kernel's file layer; this
/// socket sends the slice directly.
///
/// During the handshake, writes are buffered until the next read would block. The rest at the end (with TLS 1.3 the
/// session tickets, for which no client waits) goes with the next write or flush: one system call, and one wake-up of
/// the client.
#[derive(Debug)]
pub(crate) struct Sending {
    socket: TcpStream,
    held: Vec<u8>,
    shaking: bool,
}

impl Sending {
    pub(crate) const fn new(socket: TcpStream) -> Self {
        Self { socket, held: Vec::new(), shaking: true }
    }

    /// Ends the handshake phase.
    pub(crate) const fn settle(&mut self) {
        self.shaking = false;
    }

    pub(crate) const fn socket(&self) -> &TcpStream {
        &self.socket
    }

    fn poll_held(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            let sent = ready!(Pin::new(&mut self.socket).poll_write(context, &self.held))?;
            self.forget(sent)?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends the buffered bytes and `bytes`; returns how many of `bytes` were taken.
    fn poll_after_held(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        while !self.held.is_empty() {
            let both = [IoSlice::new(&self.held), IoSlice::new(bytes)];
            let sent = ready!(Pin::new(&mut self.socket).poll_write_vectored(context, &both))?;
            let of_bytes = sent.saturating_sub(self.held.len());
            self.forget(sent.min(self.held.len()))?;
            if of_bytes > 0 {
                return Poll::Ready(Ok(of_bytes));
            }
        }
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    /// Drops `sent` bytes from the buffer. An idle connection keeps no buffer.
    fn forget(&mut self, sent: usize) -> io::Result<()> {
        if sent == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        if sent < self.held.len() {
            self.held.drain(..sent);
        } else {
            self.held = Vec::new();
        }
        Ok(())
    }
}

impl Drop for Sending {
    /// Sends a failed handshake's alert if the socket takes it at once; the connection is closed without waiting.
    fn drop(&mut self) {
        if !self.held.is_empty()
            && let Err(error) = self.socket.try_write(&self.held)
        {
            tracing::trace!(%error, "a client has left before its alert");
        }
    }
}

impl AsyncRead for Sending {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        if self.shaking
            && read.is_pending()
            && let Poll::Ready(Err(error)) = self.poll_held(context)
        {
            return Poll::Ready(Err(error));
        }
        read
    }
}

impl AsyncWrite for Sending {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.shaking {
            self.held.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        self.poll_after_held(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match slices {
            [bytes] => self.poll_write(context, bytes),
            slices if self.shaking => {
                let before = self.held.len();
                for slice in slices {
                    self.held.extend_from_slice(slice);
                }
                Poll::Ready(Ok(self.held.len() - before))
            }
            slices => {
                ready!(self.poll_held(context))?;
                Pin::new(&mut self.socket).poll_write_vectored(context, slices)
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.shaking { Poll::Ready(Ok(())) } else { self.poll_held(context) }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_held(context))?;
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (Sending, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("its address")).await.expect("connects");
        let (socket, _) = listener.accept().await.expect("is accepted");
        (Sending::new(socket), client)
    }

    async fn come(client: &mut TcpStream, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        client.read_exact(&mut bytes).await.expect("so many bytes come");
        bytes
    }

    /// Asks the system: the reactor knows only past events.
    fn nothing_came(client: TcpStream) -> TcpStream {
        let client = client.into_std().expect("a socket");
        assert_eq!(client.peek(&mut [0]).map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock));
        TcpStream::from_std(client).expect("a socket")
    }

    #[tokio::test]
    async fn a_flight_is_sent_when_the_client_is_waited_for() {
        let (mut sending, mut client) = pair().await;
        sending.write_all(b"hello, ").await.expect("is held");
        sending.write_all(b"client").await.expect("is held");
        sending.flush().await.expect("is put off");
        client = nothing_came(client);
        let mut answer = [0; 6];
        let reading = sending.read_exact(&mut answer);
        let speaking = async {
            assert_eq!(come(&mut client, 13).await, b"hello, client");
            client.write_all(b"thanks").await.expect("is sent");
        };
        tokio::join!(async { reading.await.expect("is read") }, speaking);
        assert_eq!(&answer, b"thanks");
    }

    #[tokio::test]
    async fn what_is_left_goes_before_the_next_write_or_with_a_flush() {
        for flushed in [false, true] {
            let (mut sending, mut client) = pair().await;
            sending.write_all(b"ticket ").await.expect("is held");
            sending.settle();
            client = nothing_came(client);
            if flushed {
                sending.flush().await.expect("is sent");
                assert_eq!(come(&mut client, 7).await, b"ticket ");
            }
            let answer = vec![b'x'; 4 << 20];
            let wanted = if flushed { answer.clone() } else { [&b"ticket "[..], &answer].concat() };
            let reading = come(&mut client, wanted.len());
            let (sent, came) = tokio::join!(sending.write_all(&answer), reading);
            sent.expect("is sent");
            assert!(came == wanted, "more than a socket takes at once, in order, nothing twice");
        }
    }

    #[tokio::test]
    async fn the_end_sends_what_is_left() {
        let (mut sending, mut client) = pair().await;
        sending.write_all(b"tickets").await.expect("is held");
        sending.settle();
        sending.shutdown().await.expect("is shut down");
        let mut all = Vec::new();
        client.read_to_end(&mut all).await.expect("ends");
        assert_eq!(all, b"tickets");
    }

    #[tokio::test]
    async fn an_alert_is_sent_by_a_handshake_that_failed() {
        let (mut sending, mut client) = pair().await;
        client.write_all(b"?").await.expect("is sent");
        sending.read_exact(&mut [0]).await.expect("is read");
        sending.write_all(b"alert").await.expect("is held");
        drop(sending);
        let mut all = Vec::new();
        client.read_to_end(&mut all).await.expect("ends");
        assert_eq!(all, b"alert");
    }
}
