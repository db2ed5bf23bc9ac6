//! Waits until every `/ready` and the edge's `/readyz` answer 200, and says meanwhile what it waits for.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::Client;
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
            ready = asking.join_next() => drop(ready.and_then(Result::ok).map(|name| waiting.remove(name))),
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

fn ask_all(urls: &Urls) -> Result<JoinSet<&'static str>, Stop> {
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

/// Asks until the answer is 200.
async fn ask(client: Client, name: &'static str, url: String) -> &'static str {
    let mut again = interval(ASK_INTERVAL);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        again.tick().await;
        if client.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) {
            return name;
        }
    }
}

fn listed(names: &BTreeSet<&'static str>) -> String {
    names.iter().copied().collect::<Vec<_>>().join(", ")
}
