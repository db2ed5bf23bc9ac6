//! Waits until every `/ready` and the edge's `/readyz` answer 200, and says meanwhile what it waits for.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::Client;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::running::Running;
use super::wiring::Urls;
use crate::console;
use crate::serve::GATEWAY;
use crate::stop::Stop;

/// How often each is asked.
const ASK_INTERVAL: Duration = Duration::from_millis(15);
/// Longest wait for one answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);
/// How often people are told what is waited for.
const TELL_INTERVAL: Duration = Duration::from_secs(1);
/// After this long something is broken, and its log says what.
const PATIENCE: Duration = Duration::from_mins(1);

/// Waits for all of them; a server that ends is a start that failed.
pub(crate) async fn wait(running: &mut Running, urls: &Urls) -> Result<(), Stop> {
    let mut waiting: BTreeSet<&'static str> = urls.internal.iter().map(|(name, _)| *name).collect();
    waiting.insert(GATEWAY);
    let mut asking = ask_all(urls)?;
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
            _ = tell.tick() => console::say(&format!("platform: waiting for {}", listed(&waiting))),
            () = tokio::time::sleep_until(deadline) => {
                let seconds = PATIENCE.as_secs();
                return Err(Stop::Unfit(format!("not ready after {seconds} s: {}; see the log above", listed(&waiting))));
            }
        }
    }
    Ok(())
}

type Outcome = Result<&'static str, String>;

fn ask_all(urls: &Urls) -> Result<JoinSet<Outcome>, Stop> {
    // Only this process's own listeners are asked, so the edge's certificate, which may be for a public name, proves
    // nothing here and is not looked at.
    let client =
        Client::builder().timeout(ANSWER_PATIENCE).no_proxy().danger_accept_invalid_certs(true).build();
    let client = client.map_err(|error| Stop::Unfit(format!("no HTTP client: {error}")))?;
    let mut asking = JoinSet::new();
    for (name, url) in &urls.internal {
        asking.spawn(ask(client.clone(), name, format!("{url}/ready")));
    }
    let edge = urls
        .edge
        .plain
        .map_or_else(|| format!("https://{}", urls.edge.tls), |plain| format!("http://{plain}"));
    asking.spawn(ask(client, GATEWAY, format!("{edge}/readyz")));
    Ok(asking)
}

/// Asks until the answer is 200, or says what waiting does not change.
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

/// What a service that is not ready says cannot be waited for.
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
