//! Resolves a request to a row, module, provider path or probe, purely from its method and path. Also yields the
//! metrics label, so every refusal after this step has one.

use http::Method;

use crate::pipeline::guard::Guarded;
use crate::pipeline::path;
use crate::pipeline::path::{BadPath, Reading, Segment};
use crate::pipeline::refusal::Refusal;
use crate::pipeline::routes::{FIXED, Guard, RESERVED_KEYS, Row, Verb};

/// Label of every module request.
pub(crate) const MODULE_LABEL: &str = "/api/{moduleKey}/{path}";
/// `Allow` where the gateway forwards any method that ends in an answer.
const FORWARDED_METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// The route of a request.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) label: &'static str,
    pub(crate) to: To,
}

/// The destination of a route.
#[derive(Debug)]
pub(crate) enum To {
    /// A row of the gateway document.
    Fixed(Match),
    /// `/api/<key>/…`
    Module(String),
    /// The identity provider, at this path.
    Provider(String),
    /// The gateway's own health.
    Probe(Probe),
}

impl To {
    /// The guard of a fixed row.
    pub(crate) const fn guard(&self) -> Option<Guard> {
        if let Self::Fixed(found) = self { Some(found.row.guard) } else { None }
    }
}

/// A row, and its parameters as the client sent them.
#[derive(Debug)]
pub(crate) struct Match {
    pub(crate) row: &'static Row,
    pub(crate) parameters: Vec<(&'static str, String)>,
}

/// The health routes for balancers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    Alive,
    Ready,
}

/// The fixed rows, with their patterns parsed once.
#[derive(Debug)]
pub(crate) struct RouteTable {
    patterns: Vec<(&'static Row, Vec<Part>)>,
}

#[derive(Clone, Copy, Debug)]
enum Part {
    Literal(&'static str),
    Parameter(&'static str),
}

impl RouteTable {
    pub(crate) fn new() -> Self {
        Self { patterns: FIXED.iter().map(|row| (row, parts(row.pattern))).collect() }
    }

    /// The route of a request.
    pub(crate) fn resolve(&self, guarded: &Guarded) -> Result<Route, Refusal> {
        let request = &guarded.request;
        // Extended CONNECT opens a stream for another protocol: routing treats it as the GET that HTTP/1.1 would send.
        let stream = request.extensions().get::<h2::ext::Protocol>().is_some();
        let method =
            if stream && *request.method() == Method::CONNECT { &Method::GET } else { request.method() };
        self.find(method, request.uri().path())
    }

    /// The route of a method and a path.
    pub(crate) fn find(&self, method: &Method, path: &str) -> Result<Route, Refusal> {
        if is_never_forwarded(method) {
            return Err(Refusal::MethodNotAllowed { label: None, allow: FORWARDED_METHODS.to_owned() });
        }
        match plain_module(path) {
            Some(key) => Ok(Route { label: MODULE_LABEL, to: To::Module(key) }),
            None => self.read(method, path),
        }
    }

    fn read(&self, method: &Method, path: &str) -> Result<Route, Refusal> {
        let reading = Reading::of(path).map_err(Refusal::Path)?;
        // Checked first: these paths are 404 in every spelling, even in spellings that would be 400.
        if reading.is_reserved_at_provider() {
            return Err(Refusal::NotFound);
        }
        reading.reads_one_way().map_err(Refusal::Path)?;
        if let Some(route) = provider(path, &reading)? {
            return Ok(route);
        }
        if let Some(probe) = probe(method, path)? {
            return Ok(probe);
        }
        if let Some(key) = module_of(path) {
            return Ok(Route { label: MODULE_LABEL, to: To::Module(key) });
        }
        self.fixed(method, &reading.segments().ok_or(Refusal::NotFound)?)
    }

    #[inline(never)]
    fn fixed(&self, method: &Method, segments: &[Segment<'_>]) -> Result<Route, Refusal> {
        let wanted = if *method == Method::HEAD { &Method::GET } else { method };
        let mut allowed: Vec<&'static Row> = Vec::new();
        for (row, pattern) in &self.patterns {
            let Some(parameters) = matched(pattern, segments) else { continue };
            if row.verb.method() == *wanted {
                return Ok(Route { label: row.pattern, to: To::Fixed(Match { row, parameters }) });
            }
            allowed.push(row);
        }
        match allowed.first() {
            Some(row) => Err(Refusal::MethodNotAllowed { label: Some(row.pattern), allow: allow(&allowed) }),
            None => Err(Refusal::NotFound),
        }
    }
}

/// Whether a method opens a tunnel or echoes a request, including headers added on the way. Methods are case-sensitive,
/// but some servers ignore case.
fn is_never_forwarded(method: &Method) -> bool {
    const NEVER: [&str; 4] = ["CONNECT", "PRI", "TRACE", "TRACK"];
    let is_usual = matches!(
        *method,
        Method::GET
            | Method::HEAD
            | Method::POST
            | Method::PUT
            | Method::PATCH
            | Method::DELETE
            | Method::OPTIONS
    );
    !is_usual && NEVER.iter().any(|never| method.as_str().eq_ignore_ascii_case(never))
}

fn parts(pattern: &'static str) -> Vec<Part> {
    let part = |text: &'static str| {
        let name = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        name.map_or(Part::Literal(text), Part::Parameter)
    };
    pattern.trim_start_matches('/').split('/').map(part).collect()
}

fn matched(pattern: &[Part], segments: &[Segment<'_>]) -> Option<Vec<(&'static str, String)>> {
    if pattern.len() != segments.len() {
        return None;
    }
    let mut parameters = Vec::new();
    for (part, segment) in pattern.iter().zip(segments) {
        match part {
            Part::Literal(literal) if segment.is(literal) => {}
            Part::Parameter(name) if !segment.raw.is_empty() => {
                parameters.push((*name, segment.raw.to_owned()));
            }
            Part::Literal(_) | Part::Parameter(_) => return None,
        }
    }
    Some(parameters)
}

/// The methods of a path, for `Allow`; HEAD is allowed wherever GET is.
fn allow(rows: &[&Row]) -> String {
    let methods = rows.iter().map(|row| match row.verb {
        Verb::Get => "GET, HEAD",
        Verb::Post => "POST",
        Verb::Put => "PUT",
        Verb::Delete => "DELETE",
    });
    methods.collect::<Vec<_>>().join(", ")
}

/// The module of a path that reads one way as it stands, as nearly all do; any other path has to be parsed.
fn plain_module(path: &str) -> Option<String> {
    module_of(path).filter(|_| path::is_plain(path))
}

/// The module whose prefix a path starts with. Parsing cannot change the prefix: it has nothing to decode, merge or
/// strip.
fn module_of(path: &str) -> Option<String> {
    let rest = path.strip_prefix("/api/")?;
    let end = rest.bytes().position(|byte| byte == b'/').unwrap_or(rest.len());
    module_key(rest.get(..end)?)
}

fn module_key(key: &str) -> Option<String> {
    let (first, rest) = key.as_bytes().split_first()?;
    let tail = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
    let shaped = first.is_ascii_lowercase() && (1..=31).contains(&rest.len()) && rest.iter().all(tail);
    (shaped && !RESERVED_KEYS.contains(&key)).then(|| key.to_owned())
}

/// The provider's prefixes: `/auth` is removed, `/realms` and `/resources` are its own.
fn provider(path: &str, reading: &Reading<'_>) -> Result<Option<Route>, Refusal> {
    let below =
        |prefix: &str| path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let (label, own) = if let Some(rest) = below("/auth") {
        ("/auth/{path}", rest)
    } else if below("/realms").is_some() {
        ("/realms/{path}", path)
    } else if below("/resources").is_some() {
        ("/resources/{path}", path)
    } else {
        return Ok(None);
    };
    if reading.hides_a_separator() {
        return Err(Refusal::Path(BadPath::TwoReadings));
    }
    let own = if own.is_empty() { "/" } else { own };
    Ok(Some(Route { label, to: To::Provider(own.to_owned()) }))
}

fn probe(method: &Method, path: &str) -> Result<Option<Route>, Refusal> {
    let (label, probe) = match path {
        "/healthz" => ("/healthz", Probe::Alive),
        "/readyz" => ("/readyz", Probe::Ready),
        _ => return Ok(None),
    };
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(Refusal::MethodNotAllowed { label: Some(label), allow: "GET, HEAD".to_owned() });
    }
    Ok(Some(Route { label, to: To::Probe(probe) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(method: &Method, path: &str) -> String {
        match RouteTable::new().find(method, path) {
            Ok(Route { label, to: To::Fixed(found) }) => {
                let parameters: Vec<_> =
                    found.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("{label} {}", parameters.join(",")).trim_end().to_owned()
            }
            Ok(Route { to: To::Module(key), .. }) => format!("module {key}"),
            Ok(Route { to: To::Provider(path), .. }) => format!("provider {path}"),
            Ok(Route { to: To::Probe(probe), .. }) => format!("probe {probe:?}"),
            Err(Refusal::MethodNotAllowed { allow, .. }) => format!("405 {allow}"),
            Err(Refusal::NotFound) => "404".to_owned(),
            Err(Refusal::Path(bad)) => format!("400 {bad:?}"),
            Err(other) => format!("{other:?}"),
        }
    }

    #[test]
    fn every_row_is_found_by_its_own_pattern() {
        for row in &FIXED {
            let path = row.pattern.replace('{', "x").replace('}', "");
            let found = RouteTable::new().find(&row.verb.method(), &path).expect("a route");
            assert_eq!(found.label, row.pattern, "{path}");
        }
    }

    #[test]
    fn a_get_row_answers_head_and_other_methods_are_405_with_what_is_allowed() {
        assert_eq!(meaning(&Method::HEAD, "/api/platform/catalog"), "/api/platform/catalog");
        assert_eq!(meaning(&Method::POST, "/api/platform/catalog"), "405 GET, HEAD");
        assert_eq!(meaning(&Method::PUT, "/api/org/admin/members"), "405 POST, GET, HEAD");
        assert_eq!(meaning(&Method::GET, "/api/org/admin/members/7/link-user"), "405 POST, DELETE");
        assert_eq!(meaning(&Method::OPTIONS, "/healthz"), "405 GET, HEAD");
        for method in ["TRACE", "trace", "Track", "TRACK", "CONNECT", "connect", "PRI", "pri"] {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            assert_eq!(meaning(&method, "/api/docs/v1/x"), format!("405 {FORWARDED_METHODS}"));
        }
        assert_eq!(
            meaning(&Method::from_bytes(b"TRACER").expect("a method"), "/api/docs/v1/x"),
            "module docs"
        );
    }

    #[test]
    fn what_stands_outside_of_api_is_the_standards_and_nothing_else() {
        assert_eq!(meaning(&Method::POST, "/access/v1/evaluation"), "/access/v1/evaluation");
        assert_eq!(meaning(&Method::GET, "/access/v1/evaluations"), "405 POST");
        for path in
            ["/access", "/access/v1/search/subject", "/.well-known/openid-configuration", "/v1/evaluation"]
        {
            assert_eq!(meaning(&Method::GET, path), "404", "{path}");
        }
    }

    #[test]
    fn modules_take_every_key_that_is_not_reserved() {
        assert_eq!(meaning(&Method::PATCH, "/api/timesheet/v1/companies/7"), "module timesheet");
        assert_eq!(meaning(&Method::GET, "/api/crm_2"), "module crm_2");
        for path in [
            "/api",
            "/api/",
            "/api//x",
            "/api/X/v1",
            "/api/9x/v1",
            "/api/a/v1",
            "/api/internal/x",
            "/api/console/x",
        ] {
            assert_eq!(meaning(&Method::GET, path), "404", "{path}");
        }
        for path in
            ["/api/org/nothing", "/api/auth/", "/api/platform/capabilities/", "/api/org/admin/units/7/"]
        {
            assert_eq!(meaning(&Method::GET, path), "404", "{path}");
        }
    }

    #[test]
    fn a_plain_path_leads_to_the_module_that_reading_it_finds() {
        const PIECES: [&str; 11] = ["/", "/api", "/docs", "/org", "a", ";", ".", "..", "%2e", "%2f", "\\"];
        let table = RouteTable::new();
        let mut paths = vec!["/api".to_owned(), String::new()];
        let mut plain = 0;
        for _ in 0..4 {
            paths = paths.iter().flat_map(|path| PIECES.map(|piece| format!("{path}{piece}"))).collect();
            for path in &paths {
                let Some(key) = plain_module(path) else { continue };
                plain += 1;
                let read = table.read(&Method::GET, path);
                assert!(
                    matches!(&read, Ok(Route { label: MODULE_LABEL, to: To::Module(found) }) if *found == key),
                    "{path}: {read:?}"
                );
            }
        }
        assert!(plain > 100, "{plain}");
    }

    #[test]
    fn nothing_else_leads_anywhere() {
        for path in [
            "/",
            "/internal/authz/grants",
            "/metrics",
            "/health",
            "/ready",
            "/index.html",
            "/API/org/me/companies",
        ] {
            assert_eq!(meaning(&Method::GET, path), "404", "{path}");
        }
        assert_eq!(meaning(&Method::GET, "/api/docs/../../internal/x"), "400 TwoReadings");
        for path in
            ["/api/docs;x/v1", "/api;x/docs/v1", "/api//docs/v1", "//api/docs/v1", "/healthz;x", "/healthz/"]
        {
            assert_eq!(meaning(&Method::GET, path), "404", "{path}");
        }
        assert_eq!(meaning(&Method::GET, "/api/docs/v1/%25252541"), "400 TooNested");
    }

    #[test]
    fn the_provider_gets_its_paths_and_not_its_administration() {
        assert_eq!(
            meaning(&Method::POST, "/realms/p/protocol/openid-connect/token"),
            "provider /realms/p/protocol/openid-connect/token"
        );
        assert_eq!(meaning(&Method::GET, "/auth/realms/p/x%20y"), "provider /realms/p/x%20y");
        assert_eq!(meaning(&Method::GET, "/auth"), "provider /");
        for path in [
            "/auth/admin/x",
            "/auth/realms/../admin",
            "/realms/master/x",
            "/realms/p/../../auth/admin",
            "/auth/%61dmin",
            "/auth/ready",
        ] {
            assert_eq!(meaning(&Method::GET, path), "404", "{path}");
        }
        for path in ["/realms/p/x/../y", "/realms/p/x%2fy", "/realms/%70/x", "/auth/realms/p/x/%2e%2e/y"] {
            assert_eq!(meaning(&Method::GET, path), "400 TwoReadings", "{path}");
        }
    }

    #[test]
    fn a_parameter_is_the_clients_bytes() {
        assert_eq!(
            meaning(&Method::DELETE, "/api/platform/admin/platform-roles/platform-superadmin/f%3A1%2Fx"),
            "/api/platform/admin/platform-roles/{role}/{subjectId} role=platform-superadmin,subjectId=f%3A1%2Fx"
        );
    }
}
