//! Checks `/health`, `/ready`, `/metrics` and unknown paths, which every module must answer without a bearer.

use super::ModuleApi;

/// The metric families of every service with a database.
const FAMILIES: [&str; 7] = [
    "http_requests_total",
    "http_request_duration_seconds",
    "http_requests_in_flight",
    "platform_build_info",
    "platform_db_pool_acquired_conns",
    "platform_db_pool_idle_conns",
    "platform_db_pool_max_conns",
];

/// Checks that the probes answer and match the document, that metrics count a request to `tail` under its `pattern`,
/// and that an unknown route is 404.
///
/// # Panics
/// A check fails.
pub async fn check(module: &ModuleApi, tail: &str, pattern: &str) {
    for (path, status) in [("/health", "ok"), ("/ready", "ready")] {
        let reply = module.api.get(path).send().await;
        module.document().check("GET", path, &reply);
        assert_eq!((reply.status, reply.data().get("status")), (200, Some(&status.into())), "{path}");
    }
    let unknown = module.call("GET", &module.path(module.company, "/no-such-thing")).send().await;
    assert_eq!((unknown.status, unknown.code()), (404, "NOT_FOUND"));
    let outside = module.call("GET", "/v1/health").send().await;
    assert_eq!((outside.status, outside.code()), (404, "NOT_FOUND"));
    let other = module.call("DELETE", &module.path(module.company, tail)).send().await;
    assert_eq!((other.status, other.code()), (405, "METHOD_NOT_ALLOWED"));
    assert!(!other.header("allow").is_empty(), "405 tells what is allowed");
    module.call("GET", &module.path(module.company, tail)).send().await;
    check_metrics(module, pattern).await;
}

async fn check_metrics(module: &ModuleApi, pattern: &str) {
    let reply = module.api.get("/metrics").send().await;
    assert_eq!(reply.status, 200);
    assert!(reply.header("content-type").starts_with("text/plain"), "{}", reply.header("content-type"));
    let service = format!("service=\"{}\"", module.key);
    for line in reply.text.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.contains(&service), "without its service: {line}");
        assert!(!line.contains(&module.company.to_string()), "a raw path as a label: {line}");
    }
    for family in FAMILIES {
        assert!(reply.text.contains(&format!("# TYPE {family} ")), "{family} is missing");
    }
    for route in [format!("/api/{}/v1/companies/{{companyId}}{pattern}", module.key), "unmatched".to_owned()]
    {
        assert!(reply.text.contains(&format!("route=\"{route}\"")), "no series of {route}:\n{}", reply.text);
    }
}

/// Checks that without its database the module is alive but not ready.
///
/// # Panics
/// A check fails.
pub async fn check_without_database(module: &ModuleApi) {
    assert_eq!(module.api.get("/health").send().await.status, 200);
    let reply = module.api.get("/ready").send().await;
    module.document().check("GET", "/ready", &reply);
    assert_eq!((reply.status, reply.code()), (503, "INTERNAL_ERROR"));
    assert_eq!(module.api.get("/metrics").send().await.status, 200);
}
