//! Waits until every `/ready` and the gateway's `/readyz` answer 200, and prints what it is waiting for.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use reqwest::Client;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::running::Running;
use crate::catalog::GATEWAY;
use crate::console;
use crate::plan::Urls;
use crate::stop::Stop;

/// Interval of the requests to each server.
const ASK_INTERVAL: Duration = Duration::from_millis(15);
/// Longest wait for one response.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// Interval of the progress lines.
const TELL_INTERVAL: Duration = Duration::from_secs(1);
/// Limit of the whole wait. Past it something is broken, and the log says what.
const PATIENCE: Duration = Duration::from_mins(1);

/// Waits for all servers; a server that ends fails the start.
pub(crate) async fn wait(running: &mut Running, urls: &Urls, is_behind_proxy: bool) -> Result<(), Stop> {
    let mut waiting: BTreeSet<&'static str> = urls.internal.iter().map(|(name, _)| *name).collect();
    waiting.insert(GATEWAY);
    let mut asking = ask_all(urls, is_behind_proxy)?;
    let mut tell = interval(TELL_INTERVAL);
    tell.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let deadline = Instant::now() + PATIENCE;
    while !waiting.is_empty() {
        tokio::select! {
            ready = asking.join_next() => match ready.and_then(Result::ok) {
                Some(Ok(name)) => drop(waiting.remove(name)),
                Some(Err(stuck)) => return Err(Stop::Unfit(stuck)),
                None => {}
            },
            ended = running.ended() => return Err(Stop::Unfit(ended.to_string())),
            _ = tell.tick() => console::progress(&format!("platform: waiting for {}", listed(&waiting))),
            () = tokio::time::sleep_until(deadline) => {
                let seconds = PATIENCE.as_secs();
                return Err(Stop::Unfit(format!("not ready after {seconds} s: {}; see the log above", listed(&waiting))));
            }
        }
    }
    Ok(())
}

type Outcome = Result<&'static str, String>;

fn ask_all(urls: &Urls, is_behind_proxy: bool) -> Result<JoinSet<Outcome>, Stop> {
    // All requests go to this process's own listeners, so the gateway's certificate, which may be for a public name,
    // proves nothing here and is not verified.
    let client =
        Client::builder().timeout(ANSWER_PATIENCE).no_proxy().danger_accept_invalid_certs(true).build();
    let client = client.map_err(|error| Stop::Unfit(format!("no HTTP client: {error}")))?;
    let mut asking = JoinSet::new();
    for (name, url) in &urls.internal {
        asking.spawn(ask(client.clone(), name, format!("{url}/ready")));
    }
    match (urls.edge.plain, is_behind_proxy) {
        (Some(plain), true) => drop(asking.spawn(ask_with_proxy_header(plain))),
        // This client cannot send the header before the TLS handshake. The gateway's listener is already open, and
        // everything that the gateway depends on is asked directly.
        (None, true) => drop(asking.spawn(async { Ok(GATEWAY) })),
        (Some(plain), false) => drop(asking.spawn(ask(client, GATEWAY, format!("http://{plain}/readyz")))),
        (None, false) => {
            drop(asking.spawn(ask(client, GATEWAY, format!("https://{}/readyz", urls.edge.tls))));
        }
    }
    Ok(asking)
}

/// Asks the gateway as a load balancer's health check does: with a PROXY v2 header whose command is LOCAL.
async fn ask_with_proxy_header(edge: SocketAddr) -> Outcome {
    const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    const REQUEST: &[u8] = b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    const READY: &[u8] = b"HTTP/1.1 200 ";
    let mut again = interval(ASK_INTERVAL);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        again.tick().await;
        let answer = timeout(ANSWER_PATIENCE, async {
            let mut stream = TcpStream::connect(edge).await?;
            stream.write_all(&[LOCAL, REQUEST].concat()).await?;
            let mut begin = [0; READY.len()];
            stream.read_exact(&mut begin).await?;
            std::io::Result::Ok(begin)
        });
        if matches!(answer.await, Ok(Ok(begin)) if begin == READY) {
            return Ok(GATEWAY);
        }
    }
}

/// Asks until the response is 200; fails with a problem that waiting does not solve.
async fn ask(client: Client, name: &'static str, url: String) -> Outcome {
    let mut again = interval(ASK_INTERVAL);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        again.tick().await;
        let Ok(answer) = client.get(&url).send().await else { continue };
        if answer.status().is_success() {
            return Ok(name);
        }
        if let Some(why) = answer.json::<Value>().await.ok().as_ref().and_then(stuck) {
            return Err(why.to_owned());
        }
    }
}

/// The problem that keeps a service from ever becoming ready, if its response names one.
fn stuck(answer: &Value) -> Option<&str> {
    answer.pointer("/error/details/stuck/0").and_then(Value::as_str)
}

fn listed(names: &BTreeSet<&'static str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_waiting_does_not_change_ends_the_wait() {
        let answer = |details: Value| json!({ "error": { "code": "INTERNAL_ERROR", "details": details } });
        assert_eq!(stuck(&answer(json!({ "waitingFor": ["platform superadmins"] }))), None);
        assert_eq!(stuck(&answer(json!({ "dependency": "postgres" }))), None);
        let told = answer(json!({ "waitingFor": ["platform superadmins"], "stuck": ["X: is wrong"] }));
        assert_eq!(stuck(&told), Some("X: is wrong"));
    }
}
