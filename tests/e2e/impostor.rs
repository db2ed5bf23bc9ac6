//! F6: a wrong process in place of authz answers with an error, with garbage, with an incomplete allow, or not at all.
//! No refusal may turn into an allow, and requests without a decision keep working.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::harness::Reply;
use crate::outages::{Scene, set_up};

/// authz's port, before the offset.
const AUTHZ: u16 = 8140;
/// How often every guarded call is made.
const ROUNDS: usize = 3;
/// The specification's five seconds to the first byte, plus a margin for a busy machine.
const LONGEST: Duration = Duration::from_secs(6);

/// The response to every request; none at all if there is no status.
struct Shape {
    name: &'static str,
    status: Option<&'static str>,
    body: &'static str,
}

const SHAPES: [Shape; 7] = [
    Shape { name: "silent", status: None, body: "" },
    Shape { name: "500", status: Some("500 Internal Server Error"), body: "{}" },
    Shape { name: "garbage", status: Some("200 OK"), body: "<html>no decision here</html>" },
    Shape { name: "empty", status: Some("200 OK"), body: "" },
    Shape { name: "half a yes", status: Some("200 OK"), body: r#"{"data":{"allowed":true}}"# },
    Shape {
        name: "a yes that is text",
        status: Some("200 OK"),
        body: r#"{"data":{"allowed":"true","held":"true","reason":"ALLOWED","evidence":[]}}"#,
    },
    Shape { name: "an empty object", status: Some("200 OK"), body: r#"{"data":{}}"# },
];

#[tokio::test]
async fn whatever_stands_in_the_place_of_authz_allows_nothing() {
    let mut scene = set_up("impostor").await;
    for shape in &SHAPES {
        scene.platform.kill("authz");
        let impostor = impersonate(scene.platform.port(AUTHZ), shape).await;
        nothing_is_allowed(&scene, shape).await;
        drop(impostor);
        let gone = Instant::now();
        scene.heal("authz").await;
        println!(
            "F6 {}: all works {:.1} s after the start of authz",
            shape.name,
            gone.elapsed().as_secs_f64()
        );
    }
}

async fn nothing_is_allowed(scene: &Scene, shape: &Shape) {
    let Scene { admin, alice, company, .. } = scene;
    let (unit, projects) = (format!("/api/org/admin/units/{company}"), scene.projects());
    let late = json!({"typeKey": "company", "code": "late", "name": "Late"});
    let mut answers = Vec::new();
    for _ in 0..ROUNDS {
        let (read, written, module) = tokio::join!(
            timed(admin.get(&unit)),
            timed(admin.post("/api/org/admin/units", late.clone())),
            timed(alice.get(&projects)),
        );
        answers.extend([read, written, module]);
    }
    for (reply, _) in &answers {
        reply.refused(503, "AUTHORIZATION_UNAVAILABLE");
    }
    let longest = answers.iter().map(|(_, took)| *took).max().unwrap_or_default();
    assert!(longest <= LONGEST, "{}: {longest:?}", shape.name);
    for path in ["/api/platform/capabilities", "/api/platform/catalog", "/api/org/me/companies"] {
        alice.get(path).await.data(200);
    }
    println!(
        "F6 {}: {} guarded calls, all 503 AUTHORIZATION_UNAVAILABLE, the longest {:.2} s; catalog, capabilities and me/companies 200",
        shape.name,
        answers.len(),
        longest.as_secs_f64()
    );
}

async fn timed(asked: impl Future<Output = Reply>) -> (Reply, Duration) {
    let begun = Instant::now();
    let reply = asked.await;
    (reply, begun.elapsed())
}

/// Responds like this on the port until it is dropped.
async fn impersonate(port: u16, shape: &'static Shape) -> JoinSet<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut clients = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            clients.spawn(answer(socket, shape));
        }
    });
    serving
}

async fn answer(mut socket: TcpStream, shape: &Shape) {
    let mut asked = vec![0; 16 << 10];
    // The client may leave at any time.
    while socket.read(&mut asked).await.is_ok_and(|read| read > 0) {
        let Some(status) = shape.status else { continue };
        let length = shape.body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        drop(socket.write_all(format!("{head}{}", shape.body).as_bytes()).await);
        return;
    }
}
