//! [`Records`]: a TCP connection that tracks whether the bytes read so far end with a complete TLS record. The TLS
//! library buffers partial records, so an idle connection could not be distinguished from one with an incoming record.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A TCP connection under TLS.
#[derive(Debug)]
pub(crate) struct Records {
    stream: TcpStream,
    next: Position,
}

/// The position of the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// In a header, after `came` of its bytes, with the part of the length read so far.
    Header { came: u8, length: usize },
    /// In a record, with `left` bytes to come.
    Record { left: usize },
}

/// A type and two bytes of version precede the length.
const BEFORE_LENGTH: u8 = 3;
const HEADER_BYTES: u8 = 5;
const BETWEEN_RECORDS: Position = Position::Header { came: 0, length: 0 };

impl Records {
    pub(crate) const fn new(stream: TcpStream) -> Self {
        Self { stream, next: BETWEEN_RECORDS }
    }

    pub(crate) const fn tcp(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether every record that has started is complete.
    pub(crate) fn is_whole(&self) -> bool {
        self.next == BETWEEN_RECORDS
    }

    /// Reads available bytes, without a system call unless the reactor reports readiness; 0 at the end.
    pub(crate) fn try_read(&mut self, buffer: &mut ReadBuf<'_>) -> io::Result<usize> {
        let before = buffer.filled().len();
        let length = self.stream.try_read_buf(buffer)?;
        self.next.pass(buffer.filled().get(before..).unwrap_or_default());
        Ok(length)
    }
}

impl Position {
    fn pass(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            match *self {
                Self::Header { came, length } => {
                    let length = if came < BEFORE_LENGTH { 0 } else { length << 8 | usize::from(*first) };
                    *self = Self::after_header(came + 1, length);
                    bytes = rest;
                }
                Self::Record { left } => {
                    let (taken, rest) = bytes.split_at(left.min(bytes.len()));
                    *self = Self::after_header(HEADER_BYTES, left - taken.len());
                    bytes = rest;
                }
            }
        }
    }

    const fn after_header(came: u8, length: usize) -> Self {
        match (came, length) {
            (HEADER_BYTES, 0) => BETWEEN_RECORDS,
            (HEADER_BYTES, left) => Self::Record { left },
            _ => Self::Header { came, length },
        }
    }
}

impl AsyncRead for Records {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        this.next.pass(buffer.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Records {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_records_are_known_however_their_bytes_arrive() {
        let record = |length: usize| {
            let [high, low] = u16::try_from(length).expect("a length").to_be_bytes();
            [&[23, 3, 3, high, low][..], &vec![23; length]].concat()
        };
        let lengths = [0, 1, 5, 255, 256, 16_640, 0];
        let bytes: Vec<u8> = lengths.map(record).concat();
        let ends: Vec<usize> = lengths
            .iter()
            .scan(0, |end, length| {
                *end += 5 + length;
                Some(*end)
            })
            .collect();
        for step in [1, 2, 3, 5, 7, 1_000, bytes.len()] {
            let (mut next, mut passed) = (BETWEEN_RECORDS, 0);
            for piece in bytes.chunks(step) {
                next.pass(piece);
                passed += piece.len();
                assert_eq!(next == BETWEEN_RECORDS, ends.contains(&passed), "{step}: {passed}");
            }
        }
    }
}
