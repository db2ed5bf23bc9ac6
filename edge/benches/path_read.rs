//! The cost per byte of parsing a path: expensive paths at three sizes. The figure must not grow with the size, or a
//! few long paths delay every request on the worker.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use edge::bench::Routes;
use http::Method;

/// Sizes of paths; the largest is the limit of a path and its query.
const SIZES: [usize; 3] = [100, 1 << 10, 16 << 10];

/// The start of a path, and the text repeated after it up to the size.
const SHAPES: [(&str, &str, &str); 9] = [
    ("plain", "/api/timesheet/v1/", "entries/"),
    ("nested", "/api/timesheet/v1/%", "25"),
    ("nested provider", "/auth/realms/%", "25"),
    ("nested often", "/api/timesheet/v1/", "%252525"),
    ("percent signs", "/api/timesheet/v1/", "%25"),
    ("dots", "/api/timesheet/v1/", "..a/.b/"),
    ("dots provider", "/auth/realms/x/", "../x/"),
    ("parameters", "/api/timesheet/v1/", "%61;b=%3b;"),
    ("slashes", "/api/org/", "/%2f"),
];

fn path_of(size: usize, begin: &str, repeated: &str) -> String {
    let count = size.saturating_sub(begin.len()) / repeated.len();
    format!("{begin}{}", repeated.repeat(count))
}

fn paths(criterion: &mut Criterion) {
    let routes = Routes::new();
    let mut group = criterion.benchmark_group("path_read");
    for (name, begin, repeated) in SHAPES {
        for size in SIZES {
            let path = path_of(size, begin, repeated);
            group.throughput(Throughput::Bytes(path.len().try_into().unwrap_or(u64::MAX)));
            group.bench_with_input(BenchmarkId::new(name, size), &path, |bencher, path| {
                bencher.iter(|| routes.resolve(black_box(&Method::GET), black_box(path)));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, paths);
criterion_main!(benches);
