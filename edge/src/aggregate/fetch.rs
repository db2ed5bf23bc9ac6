//! Fetches one target's `/metrics` on its own connection, closed afterwards, within the target's time from dial to last
//! byte. The target is called as its requests are: with TLS and the upstreams' authorities, or over HTTP/2. The answer
//! is parsed as it arrives and dropped at its first fault.

use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use http::header::{ACCEPT, CONNECTION, HOST, HeaderValue};
use http::{Request, StatusCode, Uri, uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::aggregate::budget::Share;
use crate::aggregate::exposition::{Exposition, Reading};
use crate::aggregate::line::Fault;
use crate::aggregate::throttle::Pace;
use crate::config::{Authority, UpstreamProtocol};
use crate::upstream::client::{Failure, UpstreamClient};
use crate::upstream::socket::Socket;

/// The time for one target, dialling included.
const LONGEST: Duration = Duration::from_secs(2);
/// The maximum read ahead of the parser, also over HTTP/2.
const READ_BYTES: usize = 16 << 10;
const WINDOW_BYTES: u32 = 16 << 10;
/// Bytes parsed before yielding the core: some 20 us.
const PIECE_BYTES: usize = 4 << 10;
/// The path of every service's metrics.
const PATH: &str = "/metrics";

/// A service to scrape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) service: String,
    pub(super) speaks: UpstreamProtocol,
    pub(super) authority: Authority,
}

/// Why a target failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error("no complete answer within 2 s")]
    Late,
    #[error("cannot connect: {0}")]
    Dial(#[from] Failure),
    #[error("the answer broke off: {0}")]
    Wire(#[from] hyper::Error),
    #[error("the answer over HTTP/2 broke off: {0}")]
    Http2(#[from] h2::Error),
    #[error("answered {0}")]
    Status(StatusCode),
    #[error("the exposition is malformed: {0}")]
    Malformed(#[from] Fault),
    #[error("over the byte budget of all targets")]
    Cut,
    #[error("its families contradict those of other targets")]
    Contradiction,
}

/// Scrapes one target.
pub(super) async fn fetch(
    upstreams: &UpstreamClient,
    target: &Target,
    share: &Share,
    pace: Pace,
) -> Result<Exposition, Failed> {
    let scraped = tokio::select! {
        scraped = timeout(LONGEST, exchange(upstreams, target, share, pace)) => scraped.unwrap_or(Err(Failed::Late)),
        () = share.cut() => Err(Failed::Cut),
    };
    if scraped.is_err() {
        share.release();
    }
    scraped
}

async fn exchange(
    upstreams: &UpstreamClient,
    target: &Target,
    share: &Share,
    pace: Pace,
) -> Result<Exposition, Failed> {
    let socket = upstreams.connect(target.speaks, &target.authority).await?;
    exchange_over(socket, target, share, pace).await
}

async fn exchange_over(
    socket: Socket,
    target: &Target,
    share: &Share,
    pace: Pace,
) -> Result<Exposition, Failed> {
    // Dropped with the connection however this exchange ends.
    let mut driver = JoinSet::new();
    let body = match target.speaks {
        UpstreamProtocol::Http1 | UpstreamProtocol::Https => {
            over_http1(socket, &target.authority, &mut driver).await?
        }
        UpstreamProtocol::H2c => over_http2(socket, &target.authority, &mut driver).await?,
    };
    read(body, target, share, pace).await
}

/// A target's answer being received.
enum Answer {
    Http1(Incoming),
    Http2(RecvStream),
}

async fn over_http1(
    socket: Socket,
    authority: &Authority,
    driver: &mut JoinSet<()>,
) -> Result<Answer, Failed> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(READ_BYTES);
    let (mut sender, connection) = builder.handshake(TokioIo::new(socket)).await?;
    driver.spawn(async { drop(connection.await) });
    let response = sender.send_request(request(authority).map(|()| Empty::<Bytes>::new())).await?;
    is_good(response.status())?;
    Ok(Answer::Http1(response.into_body()))
}

async fn over_http2(
    socket: Socket,
    authority: &Authority,
    driver: &mut JoinSet<()>,
) -> Result<Answer, Failed> {
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(WINDOW_BYTES).max_header_list_size(WINDOW_BYTES).enable_push(false);
    let (sender, connection) = builder.handshake::<_, Bytes>(socket).await?;
    driver.spawn(async { drop(connection.await) });
    let mut request = request(authority);
    let headers = request.headers_mut();
    headers.remove(CONNECTION);
    let mut parts = uri::Parts::default();
    parts.scheme = Some(uri::Scheme::HTTP);
    parts.authority = headers.remove(HOST).and_then(|host| uri::Authority::try_from(host.as_bytes()).ok());
    parts.path_and_query = Some(uri::PathAndQuery::from_static(PATH));
    // A configured address is an authority; without one `h2` refuses the request.
    *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
    let (response, _) = sender.ready().await?.send_request(request, true)?;
    let response = response.await?;
    is_good(response.status())?;
    Ok(Answer::Http2(response.into_body()))
}

fn is_good(status: StatusCode) -> Result<(), Failed> {
    if status == StatusCode::OK { Ok(()) } else { Err(Failed::Status(status)) }
}

impl Answer {
    /// The next bytes; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Failed> {
        match self {
            Self::Http1(body) => loop {
                match body.frame().await.transpose()?.map(http_body::Frame::into_data) {
                    Some(Ok(data)) => return Ok(Some(data)),
                    Some(Err(_trailers)) => {}
                    None => return Ok(None),
                }
            },
            Self::Http2(stream) => {
                let Some(data) = stream.data().await.transpose()? else { return Ok(None) };
                stream.flow_control().release_capacity(data.len())?;
                Ok(Some(data))
            }
        }
    }
}

fn request(authority: &Authority) -> Request<()> {
    let mut request = Request::new(());
    *request.uri_mut() = Uri::from_static(PATH);
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static(telemetry::EXPOSITION_TYPE));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    // A configured address is a valid header value; without one the target answers 400 and counts as failed.
    if let Ok(host) = HeaderValue::from_str(&authority.host_header()) {
        headers.insert(HOST, host);
    }
    request
}

async fn read(mut body: Answer, target: &Target, share: &Share, pace: Pace) -> Result<Exposition, Failed> {
    let mut reading = Reading::new(&target.service);
    let mut received = 0_usize;
    while let Some(data) = body.next().await? {
        received = received.saturating_add(data.len());
        if !share.take(received) {
            return Err(Failed::Cut);
        }
        for piece in data.chunks(PIECE_BYTES) {
            reading.feed(piece)?;
            pace.give_way();
        }
        if !share.take(reading.written()) {
            return Err(Failed::Cut);
        }
    }
    Ok(reading.finish(|| pace.give_way())?)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::aggregate::{TOTAL_BYTES, budget_of_a_run};

    /// An exposition of exactly this many bytes: three samples, then comments.
    fn exposition(length: usize) -> Vec<u8> {
        let mut body = b"a NaN\nb +Inf\nc{service=\"gateway\"} -Inf 12\n".to_vec();
        while body.len() < length {
            let line = (length - body.len()).min(1_000);
            body.extend(std::iter::repeat_n(b'#', line - 1));
            body.push(b'\n');
        }
        body
    }

    /// Reads an answer of these bytes from a target over loopback. Nothing here limits the time.
    async fn read_whole(body: Vec<u8>, share: &Share) -> Result<Exposition, Failed> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mut server = JoinSet::new();
        server.spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("the fetch connects");
            let mut request = [0; 1024];
            assert!(stream.read(&mut request).await.expect("a request") > 0);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            // The fetch closes the connection when its target is cut.
            let _sent = stream.write_all(&[head.as_bytes(), &body].concat()).await;
        });
        let socket = Socket::plain(TcpStream::connect(address).await.expect("a connection"));
        let authority = Authority::new("127.0.0.1".to_owned(), address.port());
        let target = Target { service: "timesheet".to_owned(), speaks: UpstreamProtocol::Http1, authority };
        exchange_over(socket, &target, share, Pace::begin()).await
    }

    #[tokio::test]
    async fn a_target_of_all_bytes_of_a_run_is_whole_and_one_byte_past_them_is_cut() {
        let share = budget_of_a_run().share();
        let whole = read_whole(exposition(TOTAL_BYTES), &share).await.expect("whole");
        let samples: Vec<_> = whole.families.iter().map(|family| whole.samples(family)).collect();
        assert_eq!(
            samples.concat(),
            b"a{service=\"timesheet\"} NaN\nb{service=\"timesheet\"} +Inf\nc{service=\"timesheet\"} -Inf 12\n"
        );
        assert!(!share.is_cut());
        let share = budget_of_a_run().share();
        let past = read_whole(exposition(TOTAL_BYTES + 1), &share).await;
        assert!(matches!(past, Err(Failed::Cut)), "{past:?}");
    }

    #[tokio::test]
    async fn what_one_target_took_is_gone_for_the_others() {
        let budget = budget_of_a_run();
        let (first, second) = (budget.share(), budget.share());
        read_whole(exposition(TOTAL_BYTES / 2), &first).await.expect("whole");
        read_whole(exposition(TOTAL_BYTES - TOTAL_BYTES / 2), &second).await.expect("whole beside the first");
        assert!(!first.is_cut() && !second.is_cut());
        let third = budget.share();
        read_whole(exposition(1_000), &third).await.expect("a small target stays");
        assert!(first.is_cut() || second.is_cut(), "one of the large ones has made room");
    }
}
