//! Cookies: a module gets one field, however many fields a client splits them into.

use http::Method;

use crate::client::{BOTH, Reply, Version};
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/x";
/// The cost of a field besides its value under the head's limit.
const COOKIE_FIELD: usize = "cookie".len() + 32;

async fn send(world: &World, version: Version, bearer: &str, cookies: &[String]) -> Reply {
    let mut headers = vec![("authorization", bearer)];
    headers.extend(cookies.iter().map(|cookie| ("cookie", cookie.as_str())));
    world.send(version, Method::GET, PATH, &headers, "").await
}

/// The cookies of the last request that the module received.
fn seen(world: &World) -> Vec<String> {
    let seen = world.backend.seen(PATH);
    let headers = &seen.last().expect("a request").headers;
    headers.get_all("cookie").iter().map(|value| value.to_str().expect("text").to_owned()).collect()
}

#[tokio::test]
async fn a_module_gets_one_cookie_field_in_the_order_of_the_crumbs() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    for version in BOTH {
        for (crumbs, joined) in [
            (&["a=1", "b=2; c=3", "a=4", "d=\"x; y\""][..], Some("a=1; b=2; c=3; a=4; d=\"x; y\"")),
            (&["session=1", "theme=dark"], Some("session=1; theme=dark")),
            (&["a=1; b=2"], Some("a=1; b=2")),
            (&[], None),
        ] {
            let crumbs: Vec<String> = crumbs.iter().map(ToString::to_string).collect();
            assert_eq!(send(&world, version, &bearer, &crumbs).await.status, 200);
            assert_eq!(seen(&world), joined.into_iter().collect::<Vec<_>>(), "{version:?} {crumbs:?}");
        }
    }
}

#[tokio::test]
async fn crumbs_count_against_the_limits_of_the_head_as_they_came() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    // One field is the bearer's.
    let most: Vec<String> = (0..99).map(|number| format!("c{number}=x")).collect();
    let past: Vec<String> = (0..100).map(|number| format!("c{number}=x")).collect();
    let reply = send(&world, Version::H2, &bearer, &most).await;
    assert_eq!((reply.status, seen(&world)), (200, vec![most.join("; ")]));
    let reply = send(&world, Version::H2, &bearer, &past).await;
    assert_eq!((reply.status, reply.code().as_str()), (431, "HEADERS_TOO_LARGE"));

    let room = (60 << 10) - ("authorization".len() + bearer.len() + 32);
    let sized = |room: usize| {
        let first = vec!["x".repeat(10_000 - COOKIE_FIELD); 5];
        let last = "y".repeat(room - 50_000 - COOKIE_FIELD);
        [first, vec![last]].concat()
    };
    let reply = send(&world, Version::H2, &bearer, &sized(room)).await;
    assert_eq!((reply.status, seen(&world)), (200, vec![sized(room).join("; ")]));
    let reply = send(&world, Version::H2, &bearer, &sized(room + 1)).await;
    assert_eq!((reply.status, reply.code().as_str()), (431, "HEADERS_TOO_LARGE"));
}
