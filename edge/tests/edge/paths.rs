//! Paths that the gateway passes on: nothing that a usual server behind it could read as leading out of the module, and
//! everything that an honest client sends. Each attack has an honest counterpart, which reaches the module.

use http::Method;

use crate::client::Version;
use crate::raw::Raw;
use crate::world::World;

/// Suffixes of `/api/timesheet/v1/`: an attack, and its honest counterpart.
const ATTACKS: [(&str, &str); 45] = [
    ("x/..%2f..%2f..%2f..%2fmetrics", "x/a%2fb%2fc%2fd%2fmetrics"),
    ("x/..//..//..//../metrics", "x//y//z//metrics"),
    ("..%2f..%2fhelpdesk/v1/tickets", "a%2fb%2fhelpdesk/v1/tickets"),
    ("..;/..;/metrics", "a;/b;/metrics"),
    ("..;a=b/..;c=d/metrics", "x;a=b/x;c=d/metrics"),
    ("%2e%2e;/metrics", "%61%62;/metrics"),
    ("..%3b/metrics", "x%3b/metrics"),
    ("..%3ba=b/metrics", "x%3ba=b/metrics"),
    ("..%253b/metrics", "x%253b/metrics"),
    ("..%2fmetrics", "x%2fmetrics"),
    ("..%5cmetrics", "x%5cmetrics"),
    ("..%5c..%5c..%5cinternal%5cauthz", "x%5cy%5cz%5cinternal%5cauthz"),
    ("..\\..\\..\\internal\\authz", "x\\y\\z\\internal\\authz"),
    ("%2e%2e%2f%2e%2e%2fmetrics", "%61%2f%62%2fmetrics"),
    ("%252e%252e/metrics", "%2561/metrics"),
    ("%252e%252e%252fmetrics", "%2561%252fmetrics"),
    ("%25252e%25252e%25252fmetrics", "%252561%25252fmetrics"),
    ("..%252fmetrics", "x%252fmetrics"),
    ("..%255cmetrics", "x%255cmetrics"),
    (".%2e/metrics", "a%2e/metrics"),
    ("%2e./metrics", "%2ea/metrics"),
    ("..//metrics", "x//metrics"),
    ("..%20/metrics", "x%20/metrics"),
    ("%20../metrics", "%20x/metrics"),
    ("..%09/metrics", "..x/metrics"),
    ("..%0d%0a/metrics", "..x/metrics"),
    ("..%00/metrics", "..x/metrics"),
    ("..%2500/metrics", "..%2520x/metrics"),
    ("a%00b", "a%20b"),
    ("a%0d%0aX-Y:%20z", "aX-Y:%20z"),
    (".../metrics", "...x/metrics"),
    ("..%3f/metrics", "x%3f/metrics"),
    ("..%23/metrics", "x%23/metrics"),
    ("%c0%ae%c0%ae/metrics", "%c3%bc%c3%bc/metrics"),
    ("..%c0%afmetrics", "x%c3%afmetrics"),
    ("%e0%80%ae%e0%80%ae/metrics", "%e0%a4%ae%e0%a4%ae/metrics"),
    ("%f0%80%80%ae%f0%80%80%ae/metrics", "%f0%9f%98%80/metrics"),
    ("%ef%bc%8e%ef%bc%8e/metrics", "%e3%81%82%ef%bc%8e/metrics"),
    ("..%ef%bc%8fmetrics", "a%ef%bc%8fmetrics"),
    ("%25u002e%25u002e/metrics", "%25u/metrics"),
    ("%u002e%u002e/metrics", "u002e/metrics"),
    ("x/../y", "x/y"),
    ("x/./y", "x/.y"),
    ("x/..", "x/..y"),
    ("%25252541", "%252541"),
];

/// Suffixes of `/api/timesheet/v1/`.
const HONEST: [&str; 22] = [
    "a%20b",
    "a%2Fb",
    "100%25",
    "100%2525",
    "%25zz",
    "%C3%BC",
    "..foo",
    "foo..",
    "a..b",
    ".hidden",
    "a.b.c",
    ".well-known/x",
    "a;b=c",
    "a;v=1.0/b",
    "a;b=..",
    "a//b",
    "//",
    "%3B)",
    "a:b@c",
    "~a!$&'()*,=",
    "internal/authz",
    "%252541",
];

async fn answered(world: &World, target: &str) -> u16 {
    let mut client = Raw::client(world).await;
    let bearer = world.bearer("alice");
    let head = format!("GET {target} HTTP/1.1\r\nhost: localhost:8443\r\nauthorization: {bearer}\r\n\r\n");
    client.send(head).await;
    client.head().await.status()
}

fn reached(world: &World, target: &str) -> bool {
    world.backend.seen("").iter().any(|seen| seen.path_and_query == target)
}

#[tokio::test]
async fn a_path_that_a_server_could_read_as_leading_out_is_refused_and_its_honest_twin_is_not() {
    let world = World::start().await;
    let mut wrong = Vec::new();
    for (attack, honest) in ATTACKS {
        let [attack, honest] = [attack, honest].map(|rest| format!("/api/timesheet/v1/{rest}"));
        let status = answered(&world, &attack).await;
        if status != 400 || reached(&world, &attack) {
            wrong.push(format!("{attack}: {status}"));
        }
        let status = answered(&world, &honest).await;
        if status != 200 || !reached(&world, &honest) {
            wrong.push(format!("{honest}, which is honest: {status}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), ATTACKS.len());
}

#[tokio::test]
async fn a_path_that_a_server_could_read_as_leading_out_is_refused_over_http_2_as_well() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let auth = [("authorization", bearer.as_str())];
    for (attack, honest) in ATTACKS {
        for (rest, expected) in [(attack, 400), (honest, 200)] {
            let path = format!("/api/timesheet/v1/{rest}");
            let reply = world.send(Version::H2, Method::GET, &path, &auth, "").await;
            assert_eq!((reply.status, reached(&world, &path)), (expected, expected == 200), "{path}");
        }
    }
}

#[tokio::test]
async fn honest_paths_reach_the_module_byte_for_byte() {
    let world = World::start().await;
    for rest in HONEST {
        let path = format!("/api/timesheet/v1/{rest}");
        assert_eq!((answered(&world, &path).await, reached(&world, &path)), (200, true), "{path}");
    }
}

#[tokio::test]
async fn what_stands_in_a_fixed_rows_place_cannot_lead_out_of_it() {
    let world = World::start().await;
    let row = "/api/platform/capabilities";
    for (attack, honest) in [
        ("..%2f..%2fauthz%2fgrants", "a%2fb"),
        ("..%5cx", "a%5cx"),
        ("%252e%252e", "%2561"),
        ("..;x", "a;x"),
        ("..%20", "a%20"),
        ("%2525252e", "%252561"),
    ] {
        assert_eq!(answered(&world, &format!("{row}/{attack}")).await, 400, "{attack}");
        assert_eq!(answered(&world, &format!("{row}/{honest}")).await, 200, "{honest}");
        assert!(reached(&world, &format!("/internal/platform/capabilities/{honest}")), "{honest}");
    }
    let capabilities = world.backend.seen("/internal/platform/capabilities/");
    assert_eq!(capabilities.len(), 6, "the honest ones alone: {capabilities:?}");
}

#[tokio::test]
async fn a_fixed_row_and_the_provider_have_no_dot_segments_either() {
    let world = World::start().await;
    for (attack, honest) in [
        ("/realms/platform/x/..%2fy", "/realms/platform/x/y"),
        ("/auth/realms/platform/..;/x", "/auth/realms/platform/x"),
        ("/resources/a/b/%252e%252e/c", "/resources/a/b/c.d"),
        ("/resources/a/b/c/../d", "/resources/a/b/c/d"),
    ] {
        assert_eq!(answered(&world, attack).await, 400, "{attack}");
        assert_eq!(answered(&world, honest).await, 200, "{honest}");
    }
    assert_eq!(world.backend.seen("/re").len(), 4, "the honest ones alone");
}
