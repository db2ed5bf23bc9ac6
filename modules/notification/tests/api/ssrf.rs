//! Webhooks never reach what only the platform may reach, whatever the target and whoever set it. A resolver that
//! changes its answers is tested at the boundary, in `service::outbound`'s own tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use testkit::ModuleApi;
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::start_with;
use crate::support::{LOCAL, channel, message, reason, settled};

/// Webhooks may be http and may lead to public addresses only.
const STRICT: &[(&str, &str)] = &[("PLATFORM_NOTIFICATION_WEBHOOK_ALLOW_HTTP", "true")];

/// Blocked addresses in various spellings of the host.
const HOSTS: &[&str] = &[
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "0x7F.0x0.0x0.0x1",
    "127.0.0.1.",
    "0.0.0.0",
    "0",
    "0.0.0.1",
    "10.0.0.1",
    "10.255.255.255",
    "0xa.0.0.1",
    "012.0.0.1",
    "167772161",
    "100.64.0.1",
    "100.127.255.255",
    "169.254.169.254",
    "169.254.0.1",
    "0xa9fea9fe",
    "2852039166",
    "0251.0376.0251.0376",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.255",
    "3232235521",
    "0xc0a80001",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "4294967295",
    "%31%32%37.0.0.1",
    "①②⑦.0.0.1",
    "127。0。0。1",
    "[::]",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:10.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[0:0:0:0:0:ffff:192.168.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::10.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:7f00:1::]",
    "[2002:a00:1::]",
    "[2002:c0a8:1::1]",
    "[fc00::1]",
    "[fd00:ec2::254]",
    "[fdff:ffff::1]",
    "[fe80::1]",
    "[febf::1]",
    "[ff00::1]",
    "[ff02::1]",
    "[ff0e::1]",
    "[2001:db8::1]",
    "[2001:db8:ffff::1]",
];
/// Targets that are invalid in other ways.
const TARGETS: &[&str] = &[
    "ftp://hooks.example.com/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:11211/",
    "javascript:alert(1)",
    "//127.0.0.1/",
    "http://user@127.0.0.1/",
    "http://hooks.example.com@127.0.0.1/",
    "http://127.0.0.1#@hooks.example.com/",
    "http://hooks.example.com:22/",
    "http://hooks.example.com:25/",
    "http://hooks.example.com:0/",
    "http://hooks.example.com:99999/",
    "http:///x",
    "http://",
    "https://[::1",
    "http://127.0.0.1\\@hooks.example.com/",
    "http://hooks.example.com /",
];

fn corpus(port: u16) -> Vec<String> {
    let hosts = HOSTS.iter().map(|host| format!("http://{host}:{port}/"));
    hosts.chain(TARGETS.iter().map(|target| (*target).to_owned())).collect()
}

/// A listener that counts connections.
async fn trap() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("0.0.0.0", 0)).await.expect("a port");
    let (port, count) = (listener.local_addr().expect("bound").port(), Arc::new(AtomicUsize::new(0)));
    let counting = Arc::clone(&count);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counting.fetch_add(1, Ordering::SeqCst);
        }
    });
    (port, count)
}

/// Inserts a job with a target that no request could have set.
async fn smuggle(module: &ModuleApi, channel: &str, target: &str) {
    let id = Uuid::now_v7();
    let target = target.replace('\'', "''");
    module
        .execute(format!(
            "INSERT INTO notification.messages(id, company_id, channel_id, subject_line, body, created_by) \
             VALUES ('{id}', '{0}', '{channel}', 's', 'b', 'x'); \
             INSERT INTO notification.delivery_jobs(id, company_id, message_id, channel_id, kind, target, payload) \
             VALUES ('{id}', '{0}', '{id}', '{channel}', 'webhook', '{target}', '{{}}')",
            module.company
        ))
        .await;
}

#[tokio::test]
async fn property_6_no_blocked_target_is_taken_or_ever_connected_to() {
    let module = start_with(STRICT).await;
    let (port, accepted) = trap().await;
    let corpus = corpus(port);
    assert!(corpus.len() >= 80, "{}", corpus.len());
    for target in &corpus {
        let key = format!("k{}", Uuid::now_v7().simple());
        let body = json!({ "key": key, "label": "x", "kind": "webhook", "target": target });
        let reply = module.ask("POST", "/channels", Some(body)).await;
        assert_eq!((reply.status, reason(&reply)), (422, "TARGET_INVALID"), "{target}");
    }
    let hook = channel(&module, "hook", "webhook", Some("https://hooks.example.com/")).await;
    for target in &corpus {
        smuggle(&module, &hook, target).await;
    }
    // A name is checked when it is resolved, on connecting.
    smuggle(&module, &hook, &format!("http://localhost:{port}/")).await;
    let dead = settled(&module).await;
    assert_eq!(dead.len(), corpus.len() + 1);
    for job in &dead {
        let class = job["class"].as_str().unwrap_or_default();
        assert_eq!((&job["state"], &job["attempts"]), (&json!("dead"), &json!(1)), "{job}");
        assert!(["blocked_address", "malformed_target"].contains(&class), "{job}");
    }
    assert_eq!(accepted.load(Ordering::SeqCst), 0, "there was no connection");
}

#[tokio::test]
async fn inside_allowed_networks_the_platforms_own_ports_stay_closed() {
    let module = start_with(LOCAL).await;
    for port in [8090, 8110, 8120, 8130, 8140, 8150, 8160, 8190, 8191, 8443] {
        let body = json!({ "key": format!("k{port}"), "label": "x", "kind": "webhook",
            "target": format!("http://127.0.0.1:{port}/") });
        let reply = module.ask("POST", "/channels", Some(body)).await;
        assert_eq!((reply.status, reason(&reply)), (422, "TARGET_INVALID"), "{port}");
    }
    let (port, accepted) = trap().await;
    let hook = channel(&module, "hook", "webhook", Some(&format!("http://127.0.0.1:{port}/"))).await;
    message(&module, &hook).await;
    crate::support::until(&module, |jobs| jobs[0]["attempts"].as_i64() >= Some(1)).await;
    let start = std::time::Instant::now();
    while accepted.load(Ordering::SeqCst) == 0 {
        assert!(start.elapsed() < std::time::Duration::from_secs(30), "control: another port is open");
        tokio::task::yield_now().await;
    }
}
