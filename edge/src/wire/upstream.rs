//! [`Upstreams::send`]: the only dialler. Dials within 2 s, waits 5 s for the first byte once the request is sent, and
//! retries nothing but a reused connection that died before any byte of the answer.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::Authority;
use super::body::EdgeBody;
use super::pool::{Host, Lease, Pool};
use super::upload::{ClientFault, Progress, Upload};
use crate::config::Budgets;

/// Largest answer the edge reads for itself (guards, provisioning).
const MAX_ASKED_BYTES: usize = 256 << 10;

/// A request to an upstream.
pub(crate) struct Outgoing {
    pub(crate) authority: Authority,
    pub(crate) request: Request<Upload>,
    /// Present for a client's body.
    pub(crate) upload: Option<watch::Receiver<Progress>>,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("dial_timeout")]
    DialTimeout,
    #[error("connect_refused")]
    ConnectRefused,
    #[error("dial_failed")]
    DialFailed,
    #[error("over_capacity")]
    OverCapacity,
    #[error("first_byte_timeout")]
    FirstByteTimeout,
    #[error("body_timeout")]
    BodyTimeout,
    #[error("reset")]
    Reset,
    #[error("malformed_answer")]
    Malformed,
    #[error("client: {0}")]
    Client(ClientFault),
}

impl Failure {
    /// A stable word for the access log and the details of a 503.
    pub(crate) const fn reason(self) -> &'static str {
        match self {
            Self::DialTimeout => "dial_timeout",
            Self::ConnectRefused => "connect_refused",
            Self::DialFailed => "dial_failed",
            Self::OverCapacity => "over_capacity",
            Self::FirstByteTimeout => "first_byte_timeout",
            Self::BodyTimeout => "body_timeout",
            Self::Reset => "reset",
            Self::Malformed => "malformed_answer",
            Self::Client(_) => "client_body",
        }
    }
}

/// Every upstream of this edge.
#[derive(Debug)]
pub(crate) struct Upstreams {
    pool: Pool,
    budgets: Budgets,
}

/// An attempt that brought no answer, and the request where it was not sent at all.
struct Lost {
    failure: Failure,
    unsent: Option<Box<Request<Upload>>>,
}

impl Upstreams {
    pub(crate) fn new(budgets: Budgets) -> Self {
        Self { pool: Pool::new(budgets.concurrency, budgets.pool_idle), budgets }
    }

    /// The upstream's answer, its body streaming.
    pub(crate) async fn send(&self, outgoing: Outgoing) -> Result<Response<EdgeBody>, Failure> {
        let Outgoing { authority, request, upload } = outgoing;
        let host = self.pool.host(&authority);
        let turn =
            timeout(self.budgets.dial, host.turn()).await.ok().flatten().ok_or(Failure::OverCapacity)?;
        let Some(reused) = host.checkout().await else {
            let fresh = self.dial(&authority).await?;
            return self.attempt(host, turn, fresh, request, upload).await.map_err(|(lost, _)| lost.failure);
        };
        let again = Again::of(&request);
        let (lost, turn) = match self.attempt(Arc::clone(&host), turn, reused, request, upload.clone()).await
        {
            Ok(response) => return Ok(response),
            Err(lost) => lost,
        };
        let request = again.request(lost)?;
        let fresh = self.dial(&authority).await?;
        self.attempt(host, turn, fresh, request, upload).await.map_err(|(lost, _)| lost.failure)
    }

    /// A whole small answer, for the edge's own questions: within the first-byte budget from end to end.
    pub(crate) async fn ask(
        &self,
        authority: Authority,
        request: Request<Upload>,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let asked = async {
            let response = self.send(Outgoing { authority, request, upload: None }).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ASKED_BYTES).collect().await;
            Ok((status, body.map_err(|_| Failure::Malformed)?.to_bytes()))
        };
        let whole = self.budgets.dial + self.budgets.first_byte;
        timeout(whole, asked).await.map_err(|_| Failure::FirstByteTimeout)?
    }

    /// Closes connections that have been idle for too long, until the task is dropped.
    pub(crate) async fn sweep_for_ever(&self) {
        let mut ticks = tokio::time::interval(self.budgets.pool_idle.max(Duration::from_millis(100)));
        loop {
            ticks.tick().await;
            self.pool.sweep();
        }
    }

    async fn dial(&self, authority: &Authority) -> Result<SendRequest<Upload>, Failure> {
        let address = (authority.host.as_str(), authority.port);
        let dialled = timeout(self.budgets.dial, TcpStream::connect(address)).await;
        let stream = dialled.map_err(|_| Failure::DialTimeout)?.map_err(|error| dial_failure(&error))?;
        // Small requests must not wait for the peer's acknowledgement; a socket that cannot be told so still works.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot turn Nagle's algorithm off");
        }
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|_| Failure::DialFailed)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "an upstream connection ended");
            }
        });
        Ok(sender)
    }

    async fn attempt(
        &self,
        host: Arc<Host>,
        turn: OwnedSemaphorePermit,
        mut sender: SendRequest<Upload>,
        request: Request<Upload>,
        upload: Option<watch::Receiver<Progress>>,
    ) -> Result<Response<EdgeBody>, (Lost, OwnedSemaphorePermit)> {
        let answer = async {
            sender.try_send_request(request).await.map_err(|mut error| {
                let unsent = error.take_message().map(Box::new);
                Lost { failure: failure_of(error.error()), unsent }
            })
        };
        match self.within_budget(answer, upload.clone()).await {
            Ok(response) => {
                let lease = Lease { host, sender, upload, _turn: turn };
                Ok(response.map(|body| EdgeBody::streamed(body, lease, self.budgets.stream_idle)))
            }
            Err(lost) => Err((lost, turn)),
        }
    }

    /// Waits for the answer's head as long as the request makes progress and, once it is sent, for the first-byte budget.
    async fn within_budget(
        &self,
        answer: impl Future<Output = Result<Response<Incoming>, Lost>>,
        mut upload: Option<watch::Receiver<Progress>>,
    ) -> Result<Response<Incoming>, Lost> {
        tokio::pin!(answer);
        let mut progress = Progress::Sent(Instant::now());
        loop {
            if let Some(upload) = &mut upload {
                progress = *upload.borrow_and_update();
            }
            tokio::select! {
                biased;
                answered = &mut answer => return settle(answered, upload.as_ref()),
                changed = next_change(upload.as_mut()) => {
                    // The body was let go of before its end: the upstream has read what it wants.
                    if changed.is_err() && upload.take().is_some() {
                        progress = Progress::Sent(Instant::now());
                    }
                }
                failure = self.overdue(progress) => return Err(Lost { failure, unsent: None }),
            }
        }
    }

    async fn overdue(&self, progress: Progress) -> Failure {
        match progress {
            Progress::Sending(last) | Progress::AwaitingClient(last) => {
                sleep_until(last + self.budgets.body_idle).await;
            }
            Progress::Sent(at) => sleep_until(at + self.budgets.first_byte).await,
            Progress::Failed(_) => {}
        }
        match progress {
            Progress::Sending(_) => Failure::BodyTimeout,
            Progress::AwaitingClient(_) => Failure::Client(ClientFault::Stalled),
            Progress::Sent(_) => Failure::FirstByteTimeout,
            Progress::Failed(fault) => Failure::Client(fault),
        }
    }
}

async fn next_change(upload: Option<&mut watch::Receiver<Progress>>) -> Result<(), watch::error::RecvError> {
    match upload {
        Some(upload) => upload.changed().await,
        None => std::future::pending().await,
    }
}

/// The answer, or the reason why there is none: a client that broke its body off made the upstream connection fail.
fn settle(
    answered: Result<Response<Incoming>, Lost>,
    upload: Option<&watch::Receiver<Progress>>,
) -> Result<Response<Incoming>, Lost> {
    match answered {
        // Nobody asked for another protocol, so this is no answer to the request.
        Ok(response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
            Err(Lost { failure: Failure::Malformed, unsent: None })
        }
        Ok(response) => Ok(response),
        Err(lost) => match upload.map(|upload| *upload.borrow()) {
            Some(Progress::Failed(fault)) => Err(Lost { failure: Failure::Client(fault), unsent: None }),
            _ => Err(lost),
        },
    }
}

fn dial_failure(error: &io::Error) -> Failure {
    if error.kind() == ErrorKind::ConnectionRefused {
        Failure::ConnectRefused
    } else if error.kind() == ErrorKind::TimedOut {
        Failure::DialTimeout
    } else {
        Failure::DialFailed
    }
}

fn failure_of(error: &hyper::Error) -> Failure {
    if error.is_parse() { Failure::Malformed } else { Failure::Reset }
}

/// What may be sent a second time: an idempotent request that was handed back unsent, or that has no body.
struct Again {
    idempotent: bool,
    copy: Option<Request<Upload>>,
}

impl Again {
    fn of(request: &Request<Upload>) -> Self {
        let idempotent = matches!(
            *request.method(),
            Method::GET | Method::HEAD | Method::PUT | Method::DELETE | Method::OPTIONS
        );
        let bodyless = idempotent && request.body().is_end_stream();
        Self { idempotent, copy: bodyless.then(|| bodyless_copy(request)) }
    }

    fn request(self, lost: Lost) -> Result<Request<Upload>, Failure> {
        let died = matches!(lost.failure, Failure::Reset);
        let unsent = lost.unsent.filter(|_| self.idempotent).map(|request| *request);
        unsent.or(self.copy).filter(|_| died).ok_or(lost.failure)
    }
}

fn bodyless_copy(request: &Request<Upload>) -> Request<Upload> {
    let mut copy = Request::new(Upload::empty());
    request.method().clone_into(copy.method_mut());
    request.uri().clone_into(copy.uri_mut());
    request.headers().clone_into(copy.headers_mut());
    copy
}
