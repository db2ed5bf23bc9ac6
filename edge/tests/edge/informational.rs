//! Limits on an upstream's informational answers: 16 per request and 64 KiB in total.

use http::Method;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::{BOTH, Reply, Version};
use crate::raw::{Raw, SOON};
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/x";
const MOST: usize = 16;
const MOST_BYTES: usize = 64 << 10;

/// An informational answer of this many bytes.
fn hint(bytes: usize) -> String {
    let frame = "HTTP/1.1 103 Early Hints\r\nlink: \r\n\r\n".len();
    format!("HTTP/1.1 103 Early Hints\r\nlink: {}\r\n\r\n", "x".repeat(bytes - frame))
}

/// An upstream that sends this before each of its answers.
struct Upstream {
    address: String,
    _server: JoinSet<()>,
}

async fn upstream(before: String) -> Upstream {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let mut server = JoinSet::new();
    server.spawn(async move {
        loop {
            let mut upstream = Raw::upstream(&listener).await;
            upstream.head().await;
            upstream.send(before.clone() + "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            upstream.rest().await;
        }
    });
    Upstream { address, _server: server }
}

async fn asked(version: Version, before: String) -> Reply {
    let upstream = upstream(before).await;
    let world = World::with(&[("PLATFORM_MODULE_HOST_TIMESHEET", &upstream.address)]).await;
    let bearer = world.bearer("alice");
    let headers = [("authorization", bearer.as_str())];
    let asked = world.send(version, Method::GET, PATH, &headers, "");
    timeout(SOON, asked).await.expect("an answer in time")
}

fn is_bad(reply: &Reply) {
    assert_eq!(reply.status, 503);
    assert_eq!(reply.code(), "MODULE_UNAVAILABLE");
    assert_eq!(reply.json()["error"]["details"]["reason"], "bad_answer");
}

#[tokio::test]
async fn sixteen_informational_answers_are_passed_and_one_more_is_no_answer() {
    for version in BOTH {
        let reply = asked(version, hint(64).repeat(MOST)).await;
        assert_eq!((reply.status, reply.body.as_ref()), (200, &b"ok"[..]), "{version:?}");
        is_bad(&asked(version, hint(64).repeat(MOST + 1)).await);
    }
}

#[tokio::test]
async fn informational_answers_have_64_kib_together_and_one_byte_more_is_no_answer() {
    let most = hint(MOST_BYTES / MOST).repeat(MOST - 1);
    for version in BOTH {
        let reply = asked(version, most.clone() + &hint(MOST_BYTES / MOST)).await;
        assert_eq!((reply.status, reply.body.as_ref()), (200, &b"ok"[..]), "{version:?}");
        is_bad(&asked(version, most.clone() + &hint(MOST_BYTES / MOST + 1)).await);
    }
}

#[tokio::test]
async fn an_upstream_that_only_informs_is_left_at_once() {
    for (variable, path) in [
        ("PLATFORM_MODULE_HOST_TIMESHEET", PATH),
        // The first question of these requests goes to authz.
        ("PLATFORM_AUTHZ_BASE_URL", "/api/platform/metrics"),
    ] {
        for version in BOTH {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let scheme = if path == PATH { "" } else { "http://" };
            let world = World::with(&[(variable, &format!("{scheme}{address}"))]).await;
            let bearer = world.bearer("alice");
            let mut server = JoinSet::new();
            server.spawn(async move {
                let mut upstream = Raw::upstream(&listener).await;
                upstream.head().await;
                // The gateway closes the connection.
                while upstream.try_send(hint(64)).await {}
            });
            let headers = [("authorization", bearer.as_str())];
            let asked = world.send(version, Method::GET, path, &headers, "");
            let reply = timeout(SOON, asked).await.expect("an answer in time");
            if path == PATH {
                is_bad(&reply);
            } else {
                assert_eq!((reply.status, reply.code().as_str()), (503, "AUTHORIZATION_UNAVAILABLE"));
                let details = &reply.json()["error"]["details"];
                assert_eq!(
                    (&details["dependency"], &details["reason"]),
                    (&"authz".into(), &"bad_answer".into())
                );
            }
            timeout(SOON, server.join_next()).await.expect("the edge closes the connection");
        }
    }
}
