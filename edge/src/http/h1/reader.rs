//! Reads a body by its length: input becomes frames without being copied.

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};

use crate::http::h1::Fault;
use crate::http::h1::chunks::{Chunks, Piece};
use crate::http::h1::framing::Length;

/// The rest of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reader {
    Exact { left: u64 },
    Chunked(Chunks),
    UntilClose,
}

/// The result of one step.
#[derive(Debug)]
pub(crate) enum Taken {
    Frame(Frame<Bytes>),
    End,
    NeedMore,
}

impl Reader {
    pub(crate) const fn done() -> Self {
        Self::Exact { left: 0 }
    }

    pub(crate) const fn of(length: Length) -> Self {
        match length {
            Length::Exact(left) => Self::Exact { left },
            Length::Chunked => Self::Chunked(Chunks::Size),
            Length::UntilClose => Self::UntilClose,
        }
    }

    /// Whether the body is complete, as far as is known without another byte.
    pub(crate) const fn is_done(&self) -> bool {
        match self {
            Self::Exact { left } => *left == 0,
            Self::Chunked(chunks) => chunks.is_done(),
            Self::UntilClose => false,
        }
    }

    pub(crate) const fn size(&self) -> Option<u64> {
        if let Self::Exact { left } = self { Some(*left) } else { None }
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.size().map_or_else(SizeHint::new, SizeHint::with_exact)
    }

    /// Whether the body may end with the connection here.
    pub(crate) const fn may_end_here(&self) -> bool {
        matches!(self, Self::UntilClose) || self.is_done()
    }

    /// Takes the next frame from the input.
    pub(crate) fn next(&mut self, input: &mut BytesMut) -> Result<Taken, Fault> {
        match self {
            Self::Exact { left: 0 } => Ok(Taken::End),
            Self::Exact { .. } | Self::UntilClose if input.is_empty() => Ok(Taken::NeedMore),
            Self::Exact { left } => {
                let take = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left = left.saturating_sub(u64::try_from(take).unwrap_or(u64::MAX));
                Ok(Taken::Frame(Frame::data(take_front(input, take))))
            }
            Self::UntilClose => {
                let whole = input.len();
                Ok(Taken::Frame(Frame::data(take_front(input, whole))))
            }
            Self::Chunked(chunks) => Ok(match chunks.next(input)? {
                Piece::Data(data) => Taken::Frame(Frame::data(data)),
                Piece::Trailers(trailers) => Taken::Frame(Frame::trailers(trailers)),
                Piece::End => Taken::End,
                Piece::NeedMore => Taken::NeedMore,
            }),
        }
    }
}

/// Takes the first `length` bytes; the whole buffer is handed over without being split.
fn take_front(input: &mut BytesMut, length: usize) -> Bytes {
    if length == input.len() { std::mem::take(input).freeze() } else { input.split_to(length).freeze() }
}
