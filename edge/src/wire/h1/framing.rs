//! How long a body is. Exactly one header may say so; everything that two readers could take differently is refused. Pure.

use http::header::{CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::Fault;

/// Digits of the longest length: far above any body, far below an overflow.
const MOST_DIGITS: usize = 18;

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Exact(u64),
    Chunked,
    /// With the connection; answers only.
    UntilClose,
}

/// The length of a request's body.
pub(crate) fn of_request(headers: &HeaderMap) -> Result<Length, Fault> {
    Ok(declared(headers)?.unwrap_or(Length::Exact(0)))
}

/// The length of the body of an answer to `method`.
pub(crate) fn of_answer(method: &Method, status: StatusCode, headers: &HeaderMap) -> Result<Length, Fault> {
    let declared = declared(headers)?;
    if *method == Method::HEAD || has_no_body(status) {
        return Ok(Length::Exact(0));
    }
    Ok(declared.unwrap_or(Length::UntilClose))
}

/// Whether an answer of this status never has a body.
pub(crate) fn has_no_body(status: StatusCode) -> bool {
    status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

fn declared(headers: &HeaderMap) -> Result<Option<Length>, Fault> {
    let encoding = only(headers, &TRANSFER_ENCODING, "There is more than one Transfer-Encoding.")?;
    let length = only(headers, &CONTENT_LENGTH, "There is more than one Content-Length.")?;
    match (encoding, length) {
        (None, None) => Ok(None),
        (None, Some(length)) => exact(length).map(Some),
        (Some(encoding), None) if encoding.as_bytes().eq_ignore_ascii_case(b"chunked") => {
            Ok(Some(Length::Chunked))
        }
        (Some(_), None) => Err(Fault::Malformed("The Transfer-Encoding is not chunked.")),
        (Some(_), Some(_)) => Err(Fault::Malformed("There are a Transfer-Encoding and a Content-Length.")),
    }
}

fn only<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
    several: &'static str,
) -> Result<Option<&'a HeaderValue>, Fault> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() { Err(Fault::Malformed(several)) } else { Ok(first) }
}

fn exact(value: &HeaderValue) -> Result<Length, Fault> {
    let digits = value.as_bytes();
    let clean = (1..=MOST_DIGITS).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let number = clean.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')));
    number.map(Length::Exact).ok_or(Fault::Malformed("The Content-Length is not a number."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn one_header_says_how_long_a_body_is() {
        for (pairs, length) in [
            (&[][..], Length::Exact(0)),
            (&[("content-length", "0")], Length::Exact(0)),
            (&[("content-length", "999999999999999999")], Length::Exact(999_999_999_999_999_999)),
            (&[("transfer-encoding", "Chunked")], Length::Chunked),
        ] {
            assert_eq!(of_request(&headers(pairs)), Ok(length), "{pairs:?}");
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
            assert!(of_request(&headers(pairs)).is_err(), "{pairs:?}");
            assert!(of_answer(&Method::GET, StatusCode::OK, &headers(pairs)).is_err(), "{pairs:?}");
        }
    }

    #[test]
    fn an_answers_body_may_be_ruled_out_or_end_with_the_connection() {
        let length = |method: &Method, status, pairs| of_answer(method, status, &headers(pairs));
        let announced = &[("content-length", "9")][..];
        assert_eq!(length(&Method::HEAD, StatusCode::OK, announced), Ok(Length::Exact(0)));
        assert_eq!(length(&Method::GET, StatusCode::NOT_MODIFIED, announced), Ok(Length::Exact(0)));
        assert_eq!(length(&Method::GET, StatusCode::NO_CONTENT, &[]), Ok(Length::Exact(0)));
        assert_eq!(length(&Method::GET, StatusCode::OK, announced), Ok(Length::Exact(9)));
        assert_eq!(length(&Method::GET, StatusCode::OK, &[]), Ok(Length::UntilClose));
    }
}
