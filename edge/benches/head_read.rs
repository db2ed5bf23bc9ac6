//! The cost per byte of a request's head, from the socket's bytes to the upstream's headers: expensive heads compared
//! with an ordinary one of the same size.

#![expect(clippy::expect_used, reason = "a broken premise ends the measurement")]

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use contract::CorrelationId;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use edge::bench::take_in;

/// Sizes of heads; the largest is about the limit of a header block.
const SIZES: [usize; 3] = [600, 6_000, 60_000];

/// A header, and the text repeated in its value up to the size.
const SHAPES: [(&str, &str, &str); 8] = [
    ("ordinary", "accept", "abcdefgh"),
    ("connection", "connection", "a,"),
    ("connection of nothing", "connection", ","),
    ("te", "te", "a,"),
    ("expect", "expect", "a,"),
    ("forwarded for", "x-forwarded-for", "1,"),
    ("cookie", "cookie", "a=b; "),
    ("tracestate", "tracestate", "a=b,"),
];

fn heads(criterion: &mut Criterion) {
    let client = SocketAddr::from((Ipv4Addr::new(198, 51, 100, 7), 4_711));
    let correlation = CorrelationId::generate();
    let mut group = criterion.benchmark_group("head_read");
    let mut measure = |name: &str, size: usize, header: String| {
        let raw = Bytes::from(format!("GET / HTTP/1.1\r\nhost: localhost\r\n{header}\r\n\r\n"));
        group.throughput(Throughput::Bytes(raw.len().try_into().expect("a small number")));
        group.bench_with_input(BenchmarkId::new(name, size), &raw, |bencher, raw| {
            bencher.iter(|| take_in(black_box(raw), "localhost", &correlation, client));
        });
    };
    for size in SIZES {
        for (name, header, repeated) in SHAPES {
            measure(name, size, format!("{header}: {}", repeated.repeat(size / repeated.len())));
        }
        measure("long name", size, format!("x{}: 1", "_".repeat(size)));
    }
    group.finish();
}

criterion_group!(benches, heads);
criterion_main!(benches);
