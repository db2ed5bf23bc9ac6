//! One target's `/metrics`: a connection of its own, closed afterwards, within the target's time from dial to last byte.
//! The answer is parsed as it arrives and never outlives its first fault.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, HOST, HeaderValue};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::budget::Share;
use super::exposition::{Exposition, Reading};
use super::line::Fault;
use super::pace::Pace;
use crate::wire::Authority;

/// What one target may take, connection included.
const LONGEST: Duration = Duration::from_secs(2);
/// Read ahead of the parser at most.
const READ_BYTES: usize = 16 << 10;
/// Parsed without a look at who else needs the core: some 20 us.
const PIECE_BYTES: usize = 4 << 10;
/// Where every service has its metrics.
const PATH: &str = "/metrics";

/// A service to scrape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) service: String,
    pub(super) authority: Authority,
}

/// Why a target failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error("nothing whole came within 2 s")]
    Late,
    #[error("cannot connect: {0}")]
    Dial(#[from] std::io::Error),
    #[error("the answer broke off: {0}")]
    Wire(#[from] hyper::Error),
    #[error("answered {0}")]
    Status(StatusCode),
    #[error("the exposition is malformed: {0}")]
    Malformed(#[from] Fault),
    #[error("past the bytes that all targets may send together")]
    Cut,
    #[error("its families contradict those of the others")]
    Contradiction,
}

/// Scrapes one target.
pub(super) async fn fetch(target: &Target, share: &Share, pace: Pace) -> Result<Exposition, Failed> {
    let scraped = tokio::select! {
        scraped = timeout(LONGEST, exchange(target, share, pace)) => scraped.unwrap_or(Err(Failed::Late)),
        () = share.cut() => Err(Failed::Cut),
    };
    if scraped.is_err() {
        share.release();
    }
    scraped
}

async fn exchange(target: &Target, share: &Share, pace: Pace) -> Result<Exposition, Failed> {
    let address = (target.authority.host.as_str(), target.authority.port);
    let stream = TcpStream::connect(address).await?;
    let mut builder = http1::Builder::new();
    builder.max_buf_size(READ_BYTES);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    // Dropped, and the connection with it, when this exchange ends however it ends.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let response = sender.send_request(request(&target.authority)).await?;
    if response.status() != StatusCode::OK {
        return Err(Failed::Status(response.status()));
    }
    read(response.into_body(), target, share, pace).await
}

fn request(authority: &Authority) -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    *request.uri_mut() = Uri::from_static(PATH);
    let headers = request.headers_mut();
    headers.insert(ACCEPT, HeaderValue::from_static(telemetry::EXPOSITION_TYPE));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    // An address of the configuration is a header value; without one the target answers 400 and counts as failed.
    if let Ok(host) = HeaderValue::from_str(&authority.host_header()) {
        headers.insert(HOST, host);
    }
    request
}

async fn read(mut body: Incoming, target: &Target, share: &Share, pace: Pace) -> Result<Exposition, Failed> {
    let mut reading = Reading::new(&target.service);
    let mut received = 0_usize;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
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
