//! A POST with a body over loopback to an axum router, each connection served as it is and in a `CoalescedWake`:
//! processor time of an exchange on 1 connection and of one on each of 16. The figures include the client; the ratio is
//! what the wrapper buys. It buys something where workers are idle, on one connection.

#![expect(
    clippy::expect_used,
    clippy::missing_docs_in_private_items,
    reason = "a broken premise ends the measurement"
)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustix::time::{ClockId, clock_gettime};
use tokio::net::TcpListener;
use tokio::runtime::{Builder as RuntimeBuilder, Runtime};

#[cfg_attr(test, expect(dead_code, reason = "nothing calls its unit tests here"))]
#[path = "../src/coalesced_wake.rs"]
mod coalesced_wake;

use coalesced_wake::CoalescedWake;

const REQUEST: &[u8] = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 16\r\n\r\n0123456789abcdef";
/// How every answer ends: the handler returns the body that it read.
const END: &[u8] = b"0123456789abcdef";

/// Two workers, because a wake-up costs most when another worker is woken to fetch the task.
fn runtime() -> Runtime {
    RuntimeBuilder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// Serves every connection as `service::serve` does, with or without the wrapper.
async fn serve(is_coalesced: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let app = Router::new().route("/", post(|body: Bytes| async { body }));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("a socket");
            let service = TowerToHyperService::new(app.clone());
            let connection = Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .into_owned();
            if is_coalesced {
                tokio::spawn(CoalescedWake::of(connection));
            } else {
                tokio::spawn(connection);
            }
        }
    });
    address
}

/// Sends a request on each connection, then reads the answers.
fn exchange(clients: &mut [TcpStream], answer: &mut Vec<u8>) {
    for client in &mut *clients {
        client.write_all(REQUEST).expect("a request");
    }
    for client in clients {
        read(client, answer);
    }
}

fn read(client: &mut TcpStream, answer: &mut Vec<u8>) {
    answer.clear();
    let mut part = [0; 1024];
    while !answer.ends_with(END) {
        let length = client.read(&mut part).expect("an answer");
        let part = part.get(..length).filter(|part| !part.is_empty()).expect("an open connection");
        answer.extend_from_slice(part);
    }
}

/// What all threads of this process have used.
fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(used).expect("a positive time")
}

fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).expect("a connection");
    client.set_nodelay(true).expect("a socket");
    client
}

fn bodies(criterion: &mut Criterion) {
    let runtime = runtime();
    let mut group = criterion.benchmark_group("coalesced_wake");
    for (name, is_coalesced) in [("as it is", false), ("coalesced", true)] {
        let address = runtime.block_on(serve(is_coalesced));
        for count in [1, 16] {
            let mut clients: Vec<_> = (0..count).map(|_| connect(address)).collect();
            let mut answer = Vec::new();
            let id = BenchmarkId::new(name, count);
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|times| {
                    let before = processor_time();
                    (0..times).for_each(|_| exchange(&mut clients, &mut answer));
                    processor_time().saturating_sub(before)
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, bodies);
criterion_main!(benches);
