//! Determines a body's length. Exactly one header may declare it; anything that parsers could read differently is
//! refused. Pure.

use http::{Method, StatusCode};

use crate::http::h1::Fault;

/// The maximum digits of a length: far more than any body needs, far fewer than would overflow.
const MAX_DIGITS: usize = 18;

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Exact(u64),
    Chunked,
    /// At the end of the connection; answers only.
    UntilClose,
}

/// The body length that a head declares, collected header by header.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Declared<'a> {
    encoding: Occurrence<'a>,
    length: Occurrence<'a>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Occurrence<'a> {
    #[default]
    Nothing,
    Once(&'a [u8]),
    Again,
}

/// The length of a request's body.
pub(crate) fn of_request(declared: Option<Length>) -> Length {
    declared.unwrap_or(Length::Exact(0))
}

/// The length of the body of an answer to `method`.
pub(crate) fn of_answer(method: &Method, status: StatusCode, declared: Option<Length>) -> Length {
    if *method == Method::HEAD || has_no_body(status) {
        return Length::Exact(0);
    }
    declared.unwrap_or(Length::UntilClose)
}

/// Whether an answer with this status never has a body.
pub(crate) fn has_no_body(status: StatusCode) -> bool {
    status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

impl<'a> Declared<'a> {
    /// Records a `Transfer-Encoding`.
    pub(crate) const fn encoding(&mut self, value: &'a [u8]) {
        self.encoding.say(value);
    }

    /// Records a `Content-Length`.
    pub(crate) const fn length(&mut self, value: &'a [u8]) {
        self.length.say(value);
    }

    /// The declared length; `None` if nothing is declared.
    pub(crate) fn read(self) -> Result<Option<Length>, Fault> {
        match (self.encoding, self.length) {
            (Occurrence::Again, _) => Err(Fault::Malformed("There is more than one Transfer-Encoding.")),
            (_, Occurrence::Again) => Err(Fault::Malformed("There is more than one Content-Length.")),
            (Occurrence::Nothing, Occurrence::Nothing) => Ok(None),
            (Occurrence::Nothing, Occurrence::Once(length)) => exact(length).map(Some),
            (Occurrence::Once(encoding), Occurrence::Nothing)
                if encoding.eq_ignore_ascii_case(b"chunked") =>
            {
                Ok(Some(Length::Chunked))
            }
            (Occurrence::Once(_), Occurrence::Nothing) => {
                Err(Fault::Malformed("The Transfer-Encoding is not chunked."))
            }
            (Occurrence::Once(_), Occurrence::Once(_)) => {
                Err(Fault::Malformed("There is both a Transfer-Encoding and a Content-Length."))
            }
        }
    }
}

impl<'a> Occurrence<'a> {
    const fn say(&mut self, value: &'a [u8]) {
        *self = if matches!(self, Self::Nothing) { Self::Once(value) } else { Self::Again };
    }
}

fn exact(digits: &[u8]) -> Result<Length, Fault> {
    let clean = (1..=MAX_DIGITS).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let number = clean.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')));
    number.map(Length::Exact).ok_or(Fault::Malformed("The Content-Length is not a number."))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::head;
    use super::*;

    fn read(pairs: &[(&'static str, &'static str)]) -> Result<Option<Length>, Fault> {
        let mut declared = Declared::default();
        for (name, value) in pairs {
            if *name == "content-length" {
                declared.length(value.as_bytes());
            } else {
                declared.encoding(value.as_bytes());
            }
        }
        declared.read()
    }

    #[test]
    fn one_header_says_how_long_a_body_is() {
        for (pairs, length) in [
            (&[][..], Length::Exact(0)),
            (&[("content-length", "0")], Length::Exact(0)),
            (&[("content-length", "999999999999999999")], Length::Exact(999_999_999_999_999_999)),
            (&[("transfer-encoding", "Chunked")], Length::Chunked),
        ] {
            assert_eq!(read(pairs).map(of_request), Ok(length), "{pairs:?}");
        }
    }

    #[test]
    fn what_two_readers_could_take_differently_is_refused() {
        for pairs in [
            &[("content-length", "5"), ("content-length", "5")][..],
            &[("content-length", "5, 5")],
            &[("content-length", "+5")],
            &[("content-length", "-1")],
            &[("content-length", "0x5")],
            &[("content-length", "")],
            &[("content-length", "1000000000000000000")],
            &[("transfer-encoding", "chunked"), ("content-length", "5")],
            &[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
            &[("transfer-encoding", "gzip, chunked")],
            &[("transfer-encoding", "chunked, identity")],
            &[("transfer-encoding", "identity")],
            &[("transfer-encoding", "xchunked")],
            &[("transfer-encoding", "")],
        ] {
            assert!(read(pairs).is_err(), "{pairs:?}");
            let lines: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let lines = lines.concat();
            let request = format!("GET / HTTP/1.1\r\n{lines}\r\n");
            assert!(head::request(&Bytes::from(request)).is_err(), "{pairs:?}");
            let answer = head::answer(&Bytes::from(format!("HTTP/1.1 200 OK\r\n{lines}\r\n")));
            assert!(answer.expect("a head").declared.is_err(), "{pairs:?}");
        }
    }

    #[test]
    fn an_answers_body_may_be_ruled_out_or_end_with_the_connection() {
        let announced = Some(Length::Exact(9));
        assert_eq!(of_answer(&Method::HEAD, StatusCode::OK, announced), Length::Exact(0));
        assert_eq!(of_answer(&Method::GET, StatusCode::NOT_MODIFIED, announced), Length::Exact(0));
        assert_eq!(of_answer(&Method::GET, StatusCode::NO_CONTENT, None), Length::Exact(0));
        assert_eq!(of_answer(&Method::GET, StatusCode::OK, announced), Length::Exact(9));
        assert_eq!(of_answer(&Method::GET, StatusCode::OK, None), Length::UntilClose);
    }
}
