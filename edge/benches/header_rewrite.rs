//! Rewrites the headers of a browser's request for the upstream.

use std::net::{Ipv4Addr, SocketAddr};

use contract::CorrelationId;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use edge::bench::rewrite;
use http::{HeaderMap, HeaderName, HeaderValue};

const HEADERS: [(&str, &str); 12] = [
    ("host", "localhost:8443"),
    ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
    ("accept", "application/json, text/plain, */*"),
    ("accept-language", "en-GB,en;q=0.7,de;q=0.3"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("authorization", "Bearer head.claims.signature"),
    ("origin", "https://localhost:8443"),
    ("referer", "https://localhost:8443/console/"),
    ("connection", "keep-alive"),
    ("x-forwarded-for", "203.0.113.9"),
    ("sec-fetch-mode", "cors"),
    ("cookie", "session=0123456789abcdef0123456789abcdef; theme=dark"),
];

fn headers(criterion: &mut Criterion) {
    let sent: HeaderMap = HEADERS
        .into_iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
    let client = SocketAddr::from((Ipv4Addr::new(198, 51, 100, 7), 4_711));
    let correlation = CorrelationId::generate();
    criterion.bench_function("header_rewrite", |bencher| {
        bencher.iter_batched(
            || sent.clone(),
            |headers| rewrite(headers, "localhost:8443", &correlation, client),
            BatchSize::SmallInput,
        );
    });
}

criterion_group!(benches, headers);
criterion_main!(benches);
