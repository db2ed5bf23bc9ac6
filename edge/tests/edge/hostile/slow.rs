//! Slow clients. The first line of a script is the way to connect (`tcp`, `tls`, `http1`, `http2`, `plain`); then `send
//! | text`, `drip 50 | text` (a byte every 50 ms), `wait 100`, or a line of the HTTP/2 language. After the last line
//! the client waits; the gateway must end the connection within the case's time.

use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Target;
use super::corpus::{Case, Class};
use super::frames::Script;
use super::http1::Answers;
use super::script::bytes;
use crate::client::{Version, tls};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0";
/// Beyond any case's time.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) async fn run(target: &Target, case: &Case) -> Result<(), String> {
    let (way, script) = case.send.split_first().expect("a way in");
    let world = &target.world;
    match way.as_str() {
        "tcp" => over(TcpStream::connect(world.tls).await.expect("a connection"), target, case, script).await,
        "plain" => {
            over(TcpStream::connect(world.plain).await.expect("a connection"), target, case, script).await
        }
        "http1" => over(tls(world.tls, &world.root, Version::H1).await, target, case, script).await,
        "http2" => over(tls(world.tls, &world.root, Version::H2).await, target, case, script).await,
        other => panic!("{}: {other:?} is no way in", case.id),
    }
}

async fn over<S>(stream: S, target: &Target, case: &Case, script: &[String]) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let begun = Instant::now();
    let (read, mut write) = tokio::io::split(stream);
    let sending = async {
        for line in script {
            if !send(&mut write, target, case, line).await {
                break;
            }
        }
        // Held open until the gateway has ended it.
        std::future::pending::<()>().await;
    };
    let reading = async {
        let ended = timeout(PATIENCE, end(read, case)).await;
        ended.map_err(|_| "the connection was not ended".to_owned())?
    };
    tokio::select! {
        () = sending => Err("the client never stops".to_owned()),
        outcome = reading => {
            outcome?;
            in_time(case, begun.elapsed())
        }
    }
}

/// Sends one line; `false` when the gateway accepts no more.
async fn send<W: AsyncWrite + Unpin>(write: &mut W, target: &Target, case: &Case, line: &str) -> bool {
    let (head, text) = line.split_once(" | ").unwrap_or((line, ""));
    let words: Vec<&str> = head.split(' ').collect();
    let (pause, sent) = match words.as_slice() {
        ["wait", millis] => {
            tokio::time::sleep(Duration::from_millis(millis.parse().expect("milliseconds"))).await;
            return true;
        }
        ["drip", millis] => (Some(millis.parse().expect("milliseconds")), bytes(text, &target.bearer)),
        ["send"] => (None, bytes(text, &target.bearer)),
        ["hello"] => (None, PREFACE.to_vec()),
        _ => (None, Script { case, bearer: &target.bearer }.line(line)),
    };
    let Some(pause) = pause else {
        return write.write_all(&sent).await.is_ok() && write.flush().await.is_ok();
    };
    for byte in sent {
        if write.write_all(&[byte]).await.is_err() || write.flush().await.is_err() {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    true
}

/// Reads to the end, and checks the answer if the class requires one.
async fn end<R: AsyncRead + Unpin>(mut read: R, case: &Case) -> Result<(), String> {
    if case.class == Class::Refused {
        let mut answers = Answers::new(read);
        answers.next().await?.ok_or("no answer")?.is_error(&case.status)?;
        return answers.ended().await;
    }
    let mut buffer = [0; 4_096];
    while matches!(read.read(&mut buffer).await, Ok(length) if length > 0) {}
    Ok(())
}

fn in_time(case: &Case, took: Duration) -> Result<(), String> {
    let (least, most) = case.ends_ms.expect("a slow case has its time");
    let within = Duration::from_millis(least)..=Duration::from_millis(most);
    if within.contains(&took) { Ok(()) } else { Err(format!("ended after {took:?}")) }
}
