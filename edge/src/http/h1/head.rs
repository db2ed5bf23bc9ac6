//! Parses heads: the complete bytes up to the empty line become a request or an answer. Values stay slices of those
//! bytes.

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, Version};
use httparse::{ParserConfig, Status};

use crate::http::h1::framing::{Declared, Length};
use crate::http::h1::{Fault, framing};

/// Headers per head; the configured limit is far lower, and the array is only reserved, not initialised.
pub(crate) const MAX_HEADERS: usize = 512;
/// Trailers per body.
const MAX_TRAILERS: usize = 64;
/// Room for the headers that the gateway adds, so that the map does not grow: to a request its correlation id,
/// forwarding headers and host; to an answer the correlation id, CORS headers, a rate limit and
/// `Strict-Transport-Security`.
const REQUEST_ROOM: usize = 8;
const ANSWER_ROOM: usize = 7;
/// The longest target that the `http` crate can hold.
const MAX_URI: usize = 65_000;

/// A request without its body.
#[derive(Debug)]
pub(crate) struct RequestHead {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    /// HTTP/1.1, or HTTP/1.0 without a body.
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) length: Length,
    /// The client allows no further exchange on this connection.
    pub(crate) close: bool,
    /// The client waits for a 100 before it sends the body.
    pub(crate) expects: bool,
}

/// An answer without its body.
#[derive(Debug)]
pub(crate) struct AnswerHead {
    pub(crate) status: StatusCode,
    /// The headers, without those that an ordinary answer addresses to this hop alone: their content is in the other
    /// fields.
    pub(crate) headers: HeaderMap,
    /// The declared length of the body; a fault matters only to callers that need the length.
    pub(crate) declared: Result<Option<Length>, Fault>,
    pub(crate) close: bool,
}

/// Returns where the head ends, if its end has arrived; bytes before `from` have been scanned before. Every line ends
/// with CRLF: servers read a bare line feed differently, so it is a fault as soon as it arrives.
pub(crate) fn end(input: &[u8], from: usize) -> Result<Option<usize>, Fault> {
    for at in memchr::memchr_iter(b'\n', input.get(from..).unwrap_or_default()) {
        match input.get(..=from + at) {
            Some([.., b'\r', b'\n', b'\r', b'\n']) => return Ok(Some(from + at + 1)),
            Some([.., b'\r', b'\n']) => {}
            _ => return Err(Fault::Malformed("A line ends without a carriage return.")),
        }
    }
    Ok(None)
}

/// Parses a request's complete head.
pub(crate) fn request(raw: &Bytes) -> Result<RequestHead, Fault> {
    let mut slots = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    whole(parsed.parse_with_uninit_headers(raw, &mut slots), raw.len())?;
    let is_old = parsed.version != Some(1);
    let (method, target) = parsed.method.zip(parsed.path).ok_or(NOT_HTTP)?;
    if target.len() > MAX_URI {
        return Err(Fault::UriTooLong);
    }
    if target.contains('#') {
        return Err(Fault::BAD_TARGET);
    }
    let uri = Uri::from_maybe_shared(raw.slice_ref(target.as_bytes())).map_err(|_| Fault::BAD_TARGET)?;
    let mut parts = ToThisHop::default();
    let mut headers = HeaderMap::with_capacity(parsed.headers.len() + REQUEST_ROOM);
    for header in &*parsed.headers {
        // All headers stay: the guard judges later which concern only this hop.
        parts.hear(header);
        append(&mut headers, raw, header)?;
    }
    let length = framing::of_request(parts.declared.read()?);
    if is_old && length != Length::Exact(0) {
        return Err(Fault::Version);
    }
    Ok(RequestHead {
        method: Method::from_bytes(method.as_bytes()).map_err(|_| NOT_HTTP)?,
        uri,
        version: if is_old { Version::HTTP_10 } else { Version::HTTP_11 },
        length,
        close: is_old || parts.close,
        expects: parts.expects,
        headers,
    })
}

/// Parses an answer's complete head.
pub(crate) fn answer(raw: &Bytes) -> Result<AnswerHead, Fault> {
    let mut slots = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Response::new(&mut []);
    let outcome = ParserConfig::default().parse_response_with_uninit_headers(&mut parsed, raw, &mut slots);
    whole(outcome, raw.len())?;
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok()).ok_or(NOT_HTTP)?;
    let old = parsed.version != Some(1);
    let mut parts = ToThisHop::default();
    let mut headers = HeaderMap::with_capacity(parsed.headers.len() + ANSWER_ROOM);
    for header in &*parsed.headers {
        // On a protocol switch every header is kept.
        if !parts.hear(header) || status == StatusCode::SWITCHING_PROTOCOLS {
            append(&mut headers, raw, header)?;
        }
    }
    Ok(AnswerHead { status, headers, declared: parts.declared.read(), close: old || parts.close })
}

/// The parts of a head that are addressed to this hop.
#[derive(Default)]
struct ToThisHop<'a> {
    declared: Declared<'a>,
    close: bool,
    expects: bool,
}

impl<'a> ToThisHop<'a> {
    /// Reads a header, and returns whether it is addressed to this hop alone. A `Connection` that names headers is not:
    /// the code that passes the answer on must remove those.
    fn hear(&mut self, header: &httparse::Header<'a>) -> bool {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        let items = || header.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        match header.name.len() {
            6 if is("expect") => {
                self.expects |= items().any(|item| item.eq_ignore_ascii_case(b"100-continue"));
                false
            }
            10 if is("connection") => items().fold(true, |only_options, option| {
                let close = option.eq_ignore_ascii_case(b"close");
                self.close |= close;
                only_options && (close || option.eq_ignore_ascii_case(b"keep-alive"))
            }),
            10 if is("keep-alive") => true,
            14 if is("content-length") => {
                self.declared.length(header.value);
                true
            }
            17 if is("transfer-encoding") => {
                self.declared.encoding(header.value);
                true
            }
            _ => false,
        }
    }
}

/// Parses the lines after a body, including the empty one.
pub(crate) fn trailers(raw: &Bytes) -> Result<HeaderMap, Fault> {
    let mut slots = [httparse::EMPTY_HEADER; MAX_TRAILERS];
    match httparse::parse_headers(raw, &mut slots) {
        Ok(Status::Complete((length, headers))) if length == raw.len() => {
            let mut trailers = HeaderMap::with_capacity(headers.len());
            headers.iter().try_for_each(|header| append(&mut trailers, raw, header))?;
            Ok(trailers)
        }
        Ok(_) => Err(NOT_HTTP),
        Err(error) => Err(fault_of(error)),
    }
}

const NOT_HTTP: Fault = Fault::Malformed("The message is not HTTP.");

fn whole(outcome: httparse::Result<usize>, length: usize) -> Result<(), Fault> {
    match outcome {
        Ok(Status::Complete(read)) if read == length => Ok(()),
        Ok(_) => Err(NOT_HTTP),
        Err(error) => Err(fault_of(error)),
    }
}

const fn fault_of(error: httparse::Error) -> Fault {
    match error {
        httparse::Error::TooManyHeaders => Fault::HeadTooLarge,
        httparse::Error::HeaderName => Fault::Malformed("A header's name is not well formed."),
        httparse::Error::HeaderValue => Fault::Malformed("A header's value is not well formed."),
        httparse::Error::NewLine
        | httparse::Error::Status
        | httparse::Error::Token
        | httparse::Error::Version => NOT_HTTP,
    }
}

fn append(headers: &mut HeaderMap, raw: &Bytes, header: &httparse::Header<'_>) -> Result<(), Fault> {
    let name = HeaderName::from_bytes(header.name.as_bytes())
        .map_err(|_| Fault::Malformed("A header's name is not well formed."))?;
    let value = HeaderValue::from_maybe_shared(raw.slice_ref(header.value))
        .map_err(|_| Fault::Malformed("A header's value is not well formed."))?;
    headers.append(name, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RequestHead, Fault> {
        request(&Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn a_request_is_read_to_the_byte() {
        let head = read(
            "POST /a%20b?c=%zz HTTP/1.1\r\nHost: a.example\r\nX-One:  1 \r\nConnection: foo, Close\r\n\
             Expect: 100-Continue\r\ncontent-length: 7\r\n\r\n",
        )
        .expect("well formed");
        assert_eq!((head.method, head.uri.to_string().as_str()), (Method::POST, "/a%20b?c=%zz"));
        assert_eq!(head.headers["x-one"], "1");
        assert_eq!((head.length, head.close, head.expects), (Length::Exact(7), true, true));
    }

    #[test]
    fn what_an_answer_says_to_this_hop_is_heard_and_not_passed_on() {
        let read = |text: &str| answer(&Bytes::copy_from_slice(text.as_bytes())).expect("well formed");
        let names =
            |head: &AnswerHead| -> Vec<String> { head.headers.keys().map(ToString::to_string).collect() };
        let head = read(
            "HTTP/1.1 200 OK\r\nServer: a\r\nCONNECTION: Keep-Alive\r\nKeep-Alive: timeout=5\r\n\
             Content-Length: 7\r\nX-One: 1\r\n\r\n",
        );
        assert_eq!((names(&head), head.close), (vec!["server".to_owned(), "x-one".to_owned()], false));
        assert_eq!(head.declared, Ok(Some(Length::Exact(7))));
        let head =
            read("HTTP/1.1 200 OK\r\nconnection: keep-alive, Close\r\ntransfer-encoding: chunked\r\n\r\n");
        assert_eq!((head.headers.len(), head.close, head.declared), (0, true, Ok(Some(Length::Chunked))));
        assert!(read("HTTP/1.0 200 OK\r\n\r\n").close);
        let head = read("HTTP/1.1 200 OK\r\nconnection: close, x-secret\r\nx-secret: 1\r\n\r\n");
        assert_eq!(names(&head), ["connection", "x-secret"], "the forwarding code must see what it names");
        assert!(head.close);
        let head = read("HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
        assert_eq!(names(&head), ["connection", "upgrade"]);
        let head = read("HTTP/1.1 200 OK\r\ncontent-length: 5\r\nContent-Length: 5\r\n\r\n");
        assert!(head.declared.is_err());
    }

    #[test]
    fn what_is_not_http_1_1_to_the_letter_is_refused() {
        for text in [
            "GET / HTTP/2.0\r\nhost: a\r\n\r\n",
            "GET / HTTP/1.2\r\nhost: a\r\n\r\n",
            "GET  / HTTP/1.1\r\nhost: a\r\n\r\n",
            "GET /\r\nhost: a\r\n\r\n",
            "GET /a b HTTP/1.1\r\nhost: a\r\n\r\n",
            "GET /a#b HTTP/1.1\r\nhost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nhost : a\r\n\r\n",
            "GET / HTTP/1.1\r\n host: a\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\nx: 1\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\nx: 1\x002\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\nx: 1\r2\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\nnothing\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\n: 1\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\nx y: 1\r\n\r\n",
            "G(T / HTTP/1.1\r\nhost: a\r\n\r\n",
            "\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\n\r\nGET",
        ] {
            assert!(matches!(read(text), Err(Fault::Malformed(_))), "{text:?}: {:?}", read(text));
        }
    }

    #[test]
    fn an_http_1_0_request_has_no_body_and_ends_its_connection() {
        let head = read("GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n").expect("well formed");
        assert_eq!((head.version, head.close, head.length), (Version::HTTP_10, true, Length::Exact(0)));
        let head = read("GET / HTTP/1.1\r\nhost: a\r\n\r\n").expect("well formed");
        assert_eq!((head.version, head.close), (Version::HTTP_11, false));
        for text in ["content-length: 1", "transfer-encoding: chunked"] {
            let text = format!("POST / HTTP/1.0\r\n{text}\r\n\r\n");
            assert_eq!(read(&text).map(|_| ()), Err(Fault::Version), "{text:?}");
        }
    }

    #[test]
    fn more_headers_than_fit_are_too_large() {
        let head = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "x: 1\r\n".repeat(count));
        assert_eq!(read(&head(MAX_HEADERS)).expect("at the limit").headers.len(), MAX_HEADERS);
        assert_eq!(read(&head(MAX_HEADERS + 1)).map(|_| ()), Err(Fault::HeadTooLarge));
    }

    #[test]
    fn a_head_ends_with_an_empty_line_wherever_its_bytes_were_cut() {
        let text = b"GET / HTTP/1.1\r\nhost: a\r\n\r\nbody\n\n";
        for looked_at in 0..27 {
            assert_eq!(end(text, looked_at), Ok(Some(27)), "{looked_at}");
        }
        assert_eq!(end(&text[..26], 0), Ok(None));
        assert_eq!(end(b"\r\n\r\n", 0), Ok(Some(4)));
    }

    #[test]
    fn a_bare_line_feed_is_found_as_soon_as_it_comes() {
        let text = b"GET / HTTP/1.1\r\nhost: a\n";
        assert!(end(text, 0).is_err());
        assert!(end(text, 20).is_err());
        assert!(end(b"\nGET", 0).is_err());
        assert_eq!(end(b"GET / HTTP/1.1\r\nhost: a\r\n", 0), Ok(None));
        assert_eq!(end(b"a\r\n", 2), Ok(None), "the carriage return came before");
    }
}
