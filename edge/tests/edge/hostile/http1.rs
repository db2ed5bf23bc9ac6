//! Sends a case's bytes over one TLS connection and reads the answers with a separate parser.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::Target;
use super::corpus::{Case, Class};
use super::script::bytes;
use crate::client::{Version, tls};

/// More than any answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(8);

/// One answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn is_envelope(&self) -> bool {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        body["error"]["code"].is_string() && body["error"]["message"].is_string()
    }

    /// Checks for an error with one of these statuses and the envelope.
    pub(super) fn is_error(&self, status: &[u16]) -> Result<(), String> {
        if status.contains(&self.status) && self.is_envelope() {
            Ok(())
        } else {
            Err(format!("answered {} {:?}, not {status:?}", self.status, String::from_utf8_lossy(&self.body)))
        }
    }
}

pub(super) async fn run(target: &Target, case: &Case) -> Result<(), String> {
    let stream = tls(target.world.tls, &target.world.root, Version::H1).await;
    let (mut read, mut write) = tokio::io::split(stream);
    let sent = bytes(&case.send.concat(), &target.bearer);
    let sending = async {
        // The gateway may have refused and closed before the last byte.
        let _sent = write.write_all(&sent).await;
        let _flushed = write.flush().await;
    };
    let probe = probe(&case.path);
    let reading = async {
        let mut answers = Answers::new(&mut read);
        match case.class {
            Class::Refused => {
                answers.next().await?.ok_or("no answer")?.is_error(&case.status)?;
                answers.ended().await?;
            }
            Class::Declined => answers.next().await?.ok_or("no answer")?.is_error(&case.status)?,
            Class::Passed => {
                for _ in &case.reaches {
                    let answer = answers.next().await?.ok_or("no answer")?;
                    if answer.status != 200 {
                        return Err(format!("answered {answer:?}"));
                    }
                }
            }
            Class::Ended | Class::Reset | Class::Ignored => answers.ended().await?,
        }
        Ok(answers)
    };
    let (mut answers, ()) = {
        let (answers, ()) = tokio::join!(timeout(PATIENCE, reading), sending);
        (answers.map_err(|_| "no end in time".to_owned())??, ())
    };
    if matches!(case.class, Class::Declined | Class::Passed) {
        let _sent = write.write_all(probe.as_bytes()).await;
        let _flushed = write.flush().await;
        let next =
            timeout(PATIENCE, answers.next()).await.map_err(|_| "the next request is not answered")??;
        return is_in_step(next.as_ref(), &case.path);
    }
    Ok(())
}

/// A request that names the case, so that its answer is recognisable.
fn probe(path: &str) -> String {
    format!(
        "GET /healthz HTTP/1.1\r\nHost: localhost:8443\r\nX-Correlation-Id: after{path}\r\nConnection: close\r\n\r\n"
    )
}

/// Checks that the answer after the case's own belongs to the probe, or that the gateway closed.
fn is_in_step(next: Option<&Answer>, path: &str) -> Result<(), String> {
    match next {
        Some(answer) if answer.head.contains(&format!("x-correlation-id: after{path}\r\n")) => Ok(()),
        Some(answer) => Err(format!("one answer too many: {answer:?}")),
        None => Ok(()),
    }
}

/// The answers of one connection, in order.
pub(super) struct Answers<R> {
    stream: R,
    held: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Answers<R> {
    pub(super) const fn new(stream: R) -> Self {
        Self { stream, held: Vec::new() }
    }

    /// The next final answer; `None` at the end of the connection.
    pub(super) async fn next(&mut self) -> Result<Option<Answer>, String> {
        loop {
            let Some(head) = self.head().await? else { return Ok(None) };
            let status = head.get(9..12).and_then(|digits| digits.parse().ok()).ok_or("no status")?;
            if (100..200).contains(&status) {
                continue;
            }
            let lower = head.to_ascii_lowercase();
            let body = if lower.contains("\r\ntransfer-encoding: chunked\r\n") {
                self.until(b"0\r\n\r\n").await?
            } else {
                let length =
                    lower.split("\r\ncontent-length: ").nth(1).and_then(|rest| rest.split('\r').next());
                self.exactly(length.map_or(Ok(0), str::parse).map_err(|_| "no length")?).await?
            };
            return Ok(Some(Answer { status, head: lower, body }));
        }
    }

    /// Checks that the connection ends without further bytes.
    pub(super) async fn ended(&mut self) -> Result<(), String> {
        if self.more().await || !self.held.is_empty() {
            return Err(format!("then came {:?}", String::from_utf8_lossy(&self.held)));
        }
        Ok(())
    }

    async fn head(&mut self) -> Result<Option<String>, String> {
        loop {
            if let Some(end) = find(&self.held, b"\r\n\r\n") {
                let head = self.held.drain(..end + 4).collect();
                return String::from_utf8(head).map(Some).map_err(|_| "the head is no text".to_owned());
            }
            if !self.more().await {
                return if self.held.is_empty() { Ok(None) } else { Err("half a head".to_owned()) };
            }
        }
    }

    async fn until(&mut self, end: &[u8]) -> Result<Vec<u8>, String> {
        loop {
            if let Some(position) = find(&self.held, end) {
                return Ok(self.held.drain(..position + end.len()).collect());
            }
            if !self.more().await {
                return Err("half a body".to_owned());
            }
        }
    }

    async fn exactly(&mut self, length: usize) -> Result<Vec<u8>, String> {
        while self.held.len() < length {
            if !self.more().await {
                return Err("half a body".to_owned());
            }
        }
        Ok(self.held.drain(..length).collect())
    }

    /// Whether another byte arrived. A gateway that closes while it is being sent data may reset the connection.
    async fn more(&mut self) -> bool {
        let mut buffer = [0; 8_192];
        match self.stream.read(&mut buffer).await {
            Ok(0) | Err(_) => false,
            Ok(length) => {
                self.held.extend_from_slice(&buffer[..length]);
                true
            }
        }
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}
