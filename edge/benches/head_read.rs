//! The cost per byte of a request's head, from the socket's bytes to the upstream's headers: expensive heads compared
//! with an ordinary one of the same size.

#![expect(clippy::expect_used, reason = "a broken premise ends the measurement")]

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use contract::CorrelationId;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use edge::bench::{HeaderBlocks, take_in};

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

/// A header block of one literal, `authorization` with a Huffman-coded value of at least this many bytes, whose bits
/// repeat these.
fn block(bytes: usize, bits: &[u8]) -> Vec<u8> {
    let bits: Vec<u8> = bits.iter().copied().cycle().take(bytes.next_multiple_of(bits.len()) * 8).collect();
    let value = bits.chunks(8).map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | bit));
    let value: Vec<u8> = value.collect();
    let mut block = vec![0x1f, 8, 0xff];
    let mut length = value.len() - 0x7f;
    while length >= 0x80 {
        block.push(u8::try_from(length % 0x80).expect("seven bits") | 0x80);
        length /= 0x80;
    }
    block.push(u8::try_from(length).expect("seven bits"));
    block.extend(value);
    block
}

/// Header blocks of HTTP/2. The code of one control character is ten ones and three zeros, which may also stand in a token
/// by chance.
fn blocks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("block_read");
    for size in SIZES {
        // `0`, and `9X0` in every eighth place.
        let plain = [0; 5];
        let by_chance = [&[0; 30][..], &[0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]].concat();
        for (name, bits) in [("token", &plain[..]), ("token with ten ones and three zeros", &by_chance)] {
            let block = block(size.max(200), bits);
            assert!(HeaderBlocks::default().is_well_formed(&block), "{name}");
            group.throughput(Throughput::Bytes(block.len().try_into().expect("a small number")));
            group.bench_with_input(BenchmarkId::new(name, size), &block, |bencher, block| {
                let mut blocks = HeaderBlocks::default();
                bencher.iter(|| blocks.is_well_formed(black_box(block)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, heads, blocks);
criterion_main!(benches);
