//! A complete exchange over loopback: client, TLS, the gateway with everything enabled, and a scripted upstream, all in
//! one process. The figure includes the client and the upstream; only its changes are meaningful.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken premise ends the measurement"
)]

use criterion::{Criterion, criterion_group, criterion_main};
use http::Method;
use tokio::runtime::Runtime;

#[expect(dead_code, reason = "the tests need more of it")]
#[path = "../tests/edge/backend.rs"]
mod backend;
#[expect(dead_code, reason = "the tests need more of it")]
#[path = "../tests/edge/client.rs"]
mod client;
#[path = "../tests/edge/tokens.rs"]
mod tokens;
#[expect(dead_code, reason = "the tests need more of it")]
#[path = "../tests/edge/world.rs"]
mod world;

use client::{Version, request};
use world::World;

const PATH: &str = "/api/timesheet/v1/entries";

fn exchanges(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let world = runtime.block_on(World::start());
    let bearer = world.bearer("alice");
    let mut group = criterion.benchmark_group("exchange_loopback");
    for (name, version) in [("HTTP/1.1", Version::H1), ("HTTP/2", Version::H2)] {
        let mut client = runtime.block_on(world.client(version));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let request = request(Method::GET, PATH, &[("authorization", &bearer)], "");
                let reply = runtime.block_on(client.send(request));
                assert_eq!(reply.status, 200);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, exchanges);
criterion_main!(benches);
