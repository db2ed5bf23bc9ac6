//! Guessing passwords, and logging in with an e-mail address.

use std::time::Duration;

use testkit::{Call, Reply};

use crate::accounts::CHOSEN;
use crate::provider::{Provider, action_of, cookie_of, with_form};
use crate::second_factor::own;

/// The reason that the form shows.
fn problem(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.text);
    let shown = reply.text.split("id=\"input-error\"").nth(1).and_then(|text| text.split("</p>").next());
    shown.expect("the reason").to_owned()
}

/// A login form in one browser, posted from given addresses.
struct Browser<'a> {
    provider: &'a Provider,
    action: String,
    cookies: String,
}

impl<'a> Browser<'a> {
    async fn open(provider: &'a Provider) -> Self {
        let page = provider.open(&[]).await;
        Self { provider, action: action_of(&page), cookies: cookie_of(&page) }
    }

    async fn submit(&self, address: &str, name: &str, password: &str) -> Reply {
        let form = [("username", name), ("password", password), ("credentialId", "")];
        let call = |call: Call| call.header("cookie", &self.cookies).header("x-forwarded-for", address);
        self.provider.send("POST", &self.action, |to| with_form(call(to), &form)).await
    }

    /// Keeps the device cookie of a login, as a browser does.
    fn keep_device(&mut self, reply: &Reply) {
        let set = reply.headers.get_all("set-cookie").iter().filter_map(|value| value.to_str().ok());
        let found = set
            .filter_map(|line| line.split_once(';'))
            .find(|(pair, _)| pair.starts_with("PLATFORM_DEVICE="));
        let (pair, attributes) = found.expect("the device's cookie");
        assert_eq!(attributes, " Path=/realms/platform/; Max-Age=15552000; HttpOnly; Secure; SameSite=Lax");
        self.cookies = format!("{}; {pair}", self.cookies);
    }
}

const HOSTILE: &str = "198.51.100.66";
const HOME: &str = "203.0.113.9";

#[tokio::test]
async fn wrong_passwords_from_an_address_delay_that_address_and_no_other() {
    let provider = Provider::start().await;
    let browser = Browser::open(&provider).await;
    for attempt in 0..30 {
        let name = if attempt % 2 == 0 { "alice" } else { "Alice@Example.test" };
        problem(&browser.submit(HOSTILE, name, "wrong").await);
    }
    let delayed = problem(&browser.submit(HOSTILE, "alice", "alice").await);
    assert_eq!(
        delayed,
        problem(&browser.submit(HOSTILE, "mallory", "alice").await),
        "as an unknown name is refused"
    );
    assert_eq!(browser.submit(HOSTILE, "bob", "bob").await.status, 302, "another account");
    assert_eq!(browser.submit(HOME, "alice", "alice").await.status, 302, "the owner's address");
    provider.clock.advance(Duration::from_secs(1));
    problem(&browser.submit(HOSTILE, "alice@example.test", "alice").await);
    provider.clock.advance(Duration::from_secs(1));
    assert_eq!(browser.submit(HOSTILE, "alice", "alice").await.status, 302, "it is a delay");

    let counted = (provider.failures("").await, provider.failures("too_many_failures").await);
    assert_eq!(counted, (33, 27));
    let metrics = provider.get("/metrics").await.text;
    let counted = "platform_idp_logins_total{outcome=\"delayed\",service=\"idp\"} 27";
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn a_known_device_signs_in_while_strangers_guess_from_many_addresses_even_its_own() {
    let provider = Provider::start().await;
    let (mut known, stranger) = (Browser::open(&provider).await, Browser::open(&provider).await);
    known.keep_device(&known.submit(HOME, "alice", "alice").await);
    for number in 0..40 {
        problem(&stranger.submit(&format!("198.51.100.{number}"), "alice", "wrong").await);
    }
    for _ in 0..2 {
        problem(&stranger.submit(HOME, "alice", "wrong").await);
    }
    problem(&stranger.submit(HOME, "alice", "alice").await);
    for _ in 0..3 {
        problem(&known.submit(HOME, "alice", "mistyped").await);
        assert_eq!(known.submit(HOME, "alice", "alice").await.status, 302, "its own device");
    }
    let elsewhere = stranger.submit("192.0.2.1", "alice", "alice").await;
    assert_eq!(elsewhere.status, 302, "a new address has one attempt at once");
    problem(&stranger.submit("192.0.2.2", "alice", "mistyped").await);
    problem(&stranger.submit("192.0.2.2", "alice", "alice").await);
    provider.clock.advance(Duration::from_secs(2));
    assert_eq!(stranger.submit("192.0.2.2", "alice", "alice").await.status, 302);
}

#[tokio::test]
async fn a_device_of_another_account_is_a_stranger() {
    let provider = Provider::start().await;
    let mut device = Browser::open(&provider).await;
    device.keep_device(&device.submit(HOSTILE, "bob", "bob").await);
    for _ in 0..5 {
        problem(&device.submit(HOSTILE, "alice", "wrong").await);
    }
    problem(&device.submit(HOSTILE, "alice", "alice").await);
    assert_eq!(device.submit(HOSTILE, "bob", "bob").await.status, 302);
}

#[tokio::test]
async fn another_password_makes_strangers_of_all_devices_but_its_own() {
    let provider = Provider::start().await;
    let mut earlier = Browser::open(&provider).await;
    earlier.keep_device(&earlier.submit(HOSTILE, "alice", "alice").await);
    let mut owner = own(&provider);
    let page = owner.enter("alice", "alice").await;
    let pairs = [("password", "alice"), ("password-new", CHOSEN), ("password-confirm", CHOSEN)];
    assert_eq!(owner.change(&page, "password", &pairs).await.status, 302);
    let stranger = Browser::open(&provider).await;
    for _ in 0..5 {
        problem(&stranger.submit(HOSTILE, "alice", "wrong").await);
    }
    problem(&earlier.submit(HOSTILE, "alice", CHOSEN).await);
    assert_eq!(earlier.submit(HOME, "alice", CHOSEN).await.status, 302, "control");
    let mut owner = owner.with("x-forwarded-for", HOSTILE);
    assert_eq!(owner.sign_in("alice", CHOSEN).await.status, 302, "where it was chosen");
}

#[tokio::test]
async fn attempts_at_once_are_all_counted() {
    let provider = Provider::start().await;
    let browser = Browser::open(&provider).await;
    let wrong = (0..30).map(|_| browser.submit(HOSTILE, "alice", "wrong"));
    for reply in futures_util::future::join_all(wrong).await {
        assert!([200, 503].contains(&reply.status), "checked, or too many in line: {}", reply.text);
    }
    problem(&browser.submit(HOSTILE, "alice", "alice").await);
    assert_eq!(provider.failures("credentials").await, 5);
}

/// Hashing is slow, so a flood of attempts would delay everyone if they all waited in one line.
#[tokio::test]
async fn hostile_connections_do_not_make_a_login_fail() {
    let provider = Provider::start().await;
    let (mut known, stranger, owner) =
        (Browser::open(&provider).await, Browser::open(&provider).await, Browser::open(&provider).await);
    known.keep_device(&known.submit(HOME, "alice", "alice").await);
    for hostile in [|_: u8| HOSTILE.to_owned(), |number: u8| format!("198.51.100.{}", number % 8)] {
        let flood = (0..120).map(|number| {
            let address = hostile(number);
            let stranger = &stranger;
            async move { stranger.submit(&address, "alice", "wrong").await.status }
        });
        let owners = async {
            tokio::join!(known.submit(HOME, "alice", "alice"), owner.submit("192.0.2.77", "bob", "bob"))
        };
        let (statuses, (known, owner)) = tokio::join!(futures_util::future::join_all(flood), owners);
        assert_eq!((known.status, owner.status), (302, 302), "{} {}", known.text, owner.text);
        assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    }
}

#[tokio::test]
async fn failed_logins_are_one_audit_row_an_account_address_and_minute() {
    let provider = Provider::start().await;
    let browser = Browser::open(&provider).await;
    for _ in 0..7 {
        problem(&browser.submit(HOSTILE, "alice", "wrong").await);
    }
    problem(&browser.submit(HOME, "alice", "wrong").await);
    problem(&browser.submit(HOME, "mallory", "wrong").await);
    problem(&browser.submit(HOME, "trudy", "wrong").await);
    let (app, _stop) = provider.twin(|settings| settings).await;
    assert_eq!(idp::write_failures_once(&app).await.expect("asked"), 0, "the minute is not over");
    provider.clock.advance(Duration::from_secs(70));
    problem(&browser.submit(HOME, "alice", "wrong").await);
    assert_eq!(idp::write_failures_once(&app).await.expect("asked"), 3);
    assert_eq!(idp::write_failures_once(&app).await.expect("asked"), 0, "once");
    let rows: Vec<(String, serde_json::Value)> = sqlx::query_as(
        "SELECT regexp_replace(subject, ':.*-.*', ':id'), payload - 'minute' FROM audit.idp__events \
         WHERE action = 'login.failed' ORDER BY 1, payload->>'address'",
    )
    .fetch_all(&provider.database.owner_pool())
    .await
    .expect("the audit table");
    let row = |subject: &str, address: &str, reasons: serde_json::Value| {
        let count: i64 =
            reasons.as_object().expect("reasons").values().filter_map(serde_json::Value::as_i64).sum();
        let payload = serde_json::json!({
            "address": address, "clientId": "platform-frontend", "count": count, "reasons": reasons,
        });
        (subject.to_owned(), payload)
    };
    assert_eq!(
        rows,
        [
            row("user:id", HOSTILE, serde_json::json!({ "credentials": 5, "too_many_failures": 2 })),
            row("user:id", HOME, serde_json::json!({ "credentials": 1 })),
            row("user:unknown", HOME, serde_json::json!({ "credentials": 2 })),
        ]
    );
    assert_eq!(provider.failures("").await, 1, "of the current minute");
}

#[tokio::test]
async fn failures_of_one_ipv6_site_are_one_row_whatever_address_they_come_from() {
    let provider = Provider::start().await;
    let browser = Browser::open(&provider).await;
    for host in 1..=4 {
        problem(&browser.submit(&format!("2001:db8:1:{host}::{host}"), "mallory", "wrong").await);
    }
    problem(&browser.submit("2001:db8:2::1", "mallory", "wrong").await);
    let sql = "SELECT address, attempts FROM idp.failed_logins ORDER BY address";
    let rows: Vec<(String, i32)> =
        sqlx::query_as(sql).fetch_all(&provider.database.owner_pool()).await.expect("the counts");
    assert_eq!(rows, [("2001:db8:1::/48".to_owned(), 4), ("2001:db8:2::/48".to_owned(), 1)]);
}

#[tokio::test]
async fn an_e_mail_address_is_a_login_name() {
    let provider = Provider::start().await;
    provider.login(" Alice@EXAMPLE.test ", "alice").await;
    let page = provider.open(&[]).await;
    for name in ["alice@example.tes", "@", "alice@", "bob@example.test"] {
        problem(&provider.submit(&page, name, "alice").await);
    }
}
