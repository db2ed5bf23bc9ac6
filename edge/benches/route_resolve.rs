//! Resolves a method and a path to the route: the shortest, the longest and the most common paths, and an unknown one.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use edge::bench::Routes;
use http::Method;

const PATHS: [(&str, &str); 4] = [
    ("module", "/api/timesheet/v1/entries/01890a5d-ac96-774b-bcce-b302099a8057?week=12"),
    ("first row", "/api/auth/effective-access/can"),
    ("last row", "/api/org/admin/groups/01890a5d-ac96-774b-bcce-b302099a8057/members/7"),
    ("unknown", "/nobody/knows/this/path"),
];

fn routes(criterion: &mut Criterion) {
    let routes = Routes::new();
    let mut group = criterion.benchmark_group("route_resolve");
    for (name, path) in PATHS {
        group.bench_function(name, |bencher| {
            bencher.iter(|| routes.resolve(black_box(&Method::POST), black_box(path)));
        });
    }
    group.finish();
}

criterion_group!(benches, routes);
criterion_main!(benches);
