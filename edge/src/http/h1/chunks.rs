//! Parses the chunked coding as it arrives. Sizes, chunk ends and trailers are parsed strictly.

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;

use crate::http::h1::{Fault, head};

/// The maximum of a size with its extensions; extensions are unused in practice.
const MAX_SIZE_LINE: usize = 256;
/// Hexadecimal digits of the largest chunk: 256 TiB.
const MAX_DIGITS: usize = 12;
/// The maximum of all trailers; a checksum and a status need a fraction of it.
const MAX_TRAILERS: usize = 16 << 10;

/// The position of the next byte in the coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunks {
    Size,
    Data {
        left: u64,
    },
    DataEnd,
    /// The number of bytes already scanned.
    Trailers {
        scanned: usize,
    },
    Done,
}

/// The result of one step.
#[derive(Debug)]
pub(crate) enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
    End,
    NeedMore,
}

impl Chunks {
    /// Takes the next piece from the input.
    pub(crate) fn next(&mut self, input: &mut BytesMut) -> Result<Piece, Fault> {
        loop {
            match *self {
                Self::Size => {
                    let Some(size) = size(input)? else { return Ok(Piece::NeedMore) };
                    *self = if size == 0 { Self::Trailers { scanned: 0 } } else { Self::Data { left: size } };
                }
                Self::Data { .. } if input.is_empty() => return Ok(Piece::NeedMore),
                Self::Data { left } => {
                    let take = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    let left = left.saturating_sub(u64::try_from(take).unwrap_or(u64::MAX));
                    *self = if left == 0 { Self::DataEnd } else { Self::Data { left } };
                    return Ok(Piece::Data(input.split_to(take).freeze()));
                }
                Self::DataEnd => match input.as_ref() {
                    [] | [b'\r'] => return Ok(Piece::NeedMore),
                    [b'\r', b'\n', ..] => {
                        input.advance(2);
                        *self = Self::Size;
                    }
                    _ => return Err(Fault::Malformed("A chunk does not end where its size says.")),
                },
                Self::Trailers { scanned } => return self.trailers(input, scanned),
                Self::Done => return Ok(Piece::End),
            }
        }
    }

    pub(crate) const fn is_done(self) -> bool {
        matches!(self, Self::Done)
    }

    fn trailers(&mut self, input: &mut BytesMut, scanned: usize) -> Result<Piece, Fault> {
        match input.as_ref() {
            [] | [b'\r'] => return Ok(Piece::NeedMore),
            [b'\r', b'\n', ..] => {
                input.advance(2);
                *self = Self::Done;
                return Ok(Piece::End);
            }
            _ => {}
        }
        let Some(end) = head::end(input, scanned)? else {
            *self = Self::Trailers { scanned: input.len() };
            let fits = input.len() <= MAX_TRAILERS;
            return if fits { Ok(Piece::NeedMore) } else { Err(Fault::HeadTooLarge) };
        };
        if end > MAX_TRAILERS {
            return Err(Fault::HeadTooLarge);
        }
        let trailers = head::trailers(&input.split_to(end).freeze())?;
        *self = Self::Done;
        Ok(Piece::Trailers(trailers))
    }
}

/// The size of the next chunk, once its line is complete.
fn size(input: &mut BytesMut) -> Result<Option<u64>, Fault> {
    let Some(end) = memchr::memchr(b'\n', input) else {
        // The carriage return may have arrived already.
        let fits = input.len() <= MAX_SIZE_LINE + 1;
        return if fits { Ok(None) } else { Err(Fault::Malformed("A chunk's size is too long.")) };
    };
    let line = input.split_to(end + 1);
    let line =
        line.strip_suffix(b"\r\n").ok_or(Fault::Malformed("A line ends without a carriage return."))?;
    if line.len() > MAX_SIZE_LINE {
        return Err(Fault::Malformed("A chunk's size is too long."));
    }
    let (digits, extension) = line.split_at(line.iter().position(|byte| *byte == b';').unwrap_or(line.len()));
    let visible = |byte: &u8| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t');
    let clean = (1..=MAX_DIGITS).contains(&digits.len()) && extension.iter().all(visible);
    let text = std::str::from_utf8(digits).ok().filter(|text| clean && !text.starts_with('+'));
    let number = text.and_then(|text| u64::from_str_radix(text, 16).ok());
    number.map(Some).ok_or(Fault::Malformed("A chunk's size is not a hexadecimal number."))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that can be taken when the bytes arrive `step` at a time.
    fn taken(bytes: &[u8], step: usize) -> Result<(String, Option<HeaderMap>, bool), Fault> {
        let (mut chunks, mut input) = (Chunks::Size, BytesMut::new());
        let (mut data, mut trailers) = (Vec::new(), None);
        for piece in bytes.chunks(step) {
            input.extend_from_slice(piece);
            loop {
                match chunks.next(&mut input)? {
                    Piece::Data(more) => data.extend_from_slice(&more),
                    Piece::Trailers(found) => trailers = Some(found),
                    Piece::End | Piece::NeedMore => break,
                }
            }
        }
        Ok((String::from_utf8(data).expect("text"), trailers, chunks.is_done()))
    }

    #[test]
    fn chunks_come_out_whole_however_they_arrive() {
        let bytes = b"5\r\nhello\r\n1;name=\"v\"\r\n,\r\n000A\r\n0123456789\r\n0\r\n";
        for step in [1, 2, 3, 7, 1_000] {
            let plain = [&bytes[..], b"\r\n"].concat();
            assert_eq!(taken(&plain, step), Ok(("hello,0123456789".to_owned(), None, true)), "{step}");
            let with_trailers = [&bytes[..], b"x-sum: 1\r\ngrpc-status: 0\r\n\r\n"].concat();
            let (data, trailers, done) = taken(&with_trailers, step).expect("well formed");
            let trailers = trailers.expect("trailers");
            assert_eq!((data.as_str(), done), ("hello,0123456789", true));
            assert_eq!((trailers["x-sum"].as_bytes(), trailers.len()), (&b"1"[..], 2));
        }
    }

    #[test]
    fn lines_and_trailers_are_taken_up_to_their_limits_however_they_arrive() {
        let size_line = |bytes: usize| format!("1;{}\r\nx\r\n0\r\n\r\n", "x".repeat(bytes - 2));
        let trailers = |bytes: usize| format!("0\r\nx: {}\r\n\r\n", "y".repeat(bytes - 7));
        for step in [1, 2, 255, 256, 257, 258, 100_000] {
            assert!(taken(size_line(MAX_SIZE_LINE).as_bytes(), step).expect("at the limit").2, "{step}");
            assert!(taken(size_line(MAX_SIZE_LINE + 1).as_bytes(), step).is_err(), "{step}");
            assert!(taken(trailers(MAX_TRAILERS).as_bytes(), step).expect("at the limit").2, "{step}");
            assert!(taken(trailers(MAX_TRAILERS + 1).as_bytes(), step).is_err(), "{step}");
        }
    }

    #[test]
    fn a_body_that_is_not_ended_is_not_done() {
        for bytes in [&b"5\r\nhel"[..], b"5\r\nhello\r\n", b"0\r\n", b"0\r\nx: 1\r\n", b"5"] {
            assert!(!taken(bytes, 1).expect("well formed so far").2, "{bytes:?}");
        }
    }

    #[test]
    fn what_is_not_to_the_letter_is_refused() {
        let long_extension = format!("1;{}\r\nx\r\n0\r\n\r\n", "x".repeat(MAX_SIZE_LINE));
        let long_trailer = format!("0\r\nx: {}\r\n\r\n", "x".repeat(MAX_TRAILERS));
        for bytes in [
            "5\nhello\r\n0\r\n\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "5\r\nhelloX\r\n0\r\n\r\n",
            "\r\n",
            " 5\r\nhello\r\n",
            "5 \r\nhello\r\n",
            "0x5\r\nhello\r\n",
            "+5\r\nhello\r\n",
            "-5\r\nhello\r\n",
            "5;\x01\r\nhello\r\n",
            "10000000000000\r\n",
            "g\r\n",
            "0\r\nx: 1\n\r\n",
            "0\r\n x: 1\r\n\r\n",
            "0\r\nx : 1\r\n\r\n",
            "0\r\nnothing\r\n\r\n",
            long_extension.as_str(),
            long_trailer.as_str(),
        ] {
            for step in [1, 3, 100_000] {
                assert!(taken(bytes.as_bytes(), step).is_err(), "{bytes:?} by {step}");
            }
        }
    }
}
