//! The tables of the gateway's API description, row for row: method, pattern, guard, service, internal path, and
//! exceptions. The one place where a public route gets its guard; a golden test shows every change.

use http::Method;

use crate::config::Service;

/// The methods of the API description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
    Put,
    Delete,
}

impl Verb {
    pub(crate) const fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Post => Method::POST,
            Self::Put => Method::PUT,
            Self::Delete => Method::DELETE,
        }
    }
}

/// Who may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Any valid bearer.
    Bearer,
    /// Any valid bearer; provisioning delays the request by at most 250 ms.
    BearerAtOnce,
    /// Any valid bearer; the service asks authz itself, afresh for every request, before it reads. The gateway would only
    /// ask the same a moment earlier.
    Service,
    /// A holder of the platform superadmin role, checked afresh for every request.
    Superadmin,
    /// A registered app's service account that may act, or a superadmin.
    AppBackend,
}

/// Where a row leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// This path of a service; `{name}` is replaced by the client's bytes of that segment.
    Internal(Service, &'static str),
    /// The gateway itself: all services' metrics in one exposition.
    AggregatedMetrics,
}

/// What happens to the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    /// The query passes unchanged.
    AsIs,
    /// `kcSub` is overwritten with the bearer's own subject.
    OwnSubject,
}

/// What the gateway does before it returns the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing.
    Answer,
    /// Waits until its own catalog holds the change.
    SettleCatalog,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) verb: Verb,
    pub(crate) pattern: &'static str,
    pub(crate) guard: Guard,
    pub(crate) target: Target,
    pub(crate) query: Query,
    pub(crate) then: Then,
}

const fn row(
    verb: Verb,
    pattern: &'static str,
    guard: Guard,
    service: Service,
    internal: &'static str,
) -> Row {
    Row {
        verb,
        pattern,
        guard,
        target: Target::Internal(service, internal),
        query: Query::AsIs,
        then: Then::Answer,
    }
}

const fn own_subject(row: Row) -> Row {
    Row { query: Query::OwnSubject, ..row }
}

const fn settling(row: Row) -> Row {
    Row { then: Then::SettleCatalog, ..row }
}

const fn aggregated(verb: Verb, pattern: &'static str, guard: Guard) -> Row {
    Row { verb, pattern, guard, target: Target::AggregatedMetrics, query: Query::AsIs, then: Then::Answer }
}

use Guard::{AppBackend, Bearer, BearerAtOnce, Superadmin};
use Service::{Authz, Org, Registry};
use Verb::{Delete, Get, Post, Put};

/// Every row, in the order of the API description.
#[rustfmt::skip]
pub(crate) static FIXED: [Row; 38] = [
    // Decisions and self-scoped reads
    row(Post, "/api/auth/effective-access/can", Bearer, Authz, "/internal/authz/effective-access/can"),
    row(Post, "/api/auth/effective-access/batch-can", Bearer, Authz, "/internal/authz/effective-access/batch-can"),
    own_subject(row(Get, "/api/auth/effective-access/summary", Bearer, Authz, "/internal/authz/effective-access/summary")),
    own_subject(row(Get, "/api/auth/effective-access/objects", Bearer, Authz, "/internal/authz/effective-access/objects")),
    row(Get, "/api/auth/effective-access/explain", Bearer, Authz, "/internal/authz/effective-access/explain"),
    // The same decision under AuthZEN's names
    row(Post, "/access/v1/evaluation", Bearer, Authz, "/internal/authz/access/v1/evaluation"),
    row(Post, "/access/v1/evaluations", Bearer, Authz, "/internal/authz/access/v1/evaluations"),
    row(Get, "/.well-known/authzen-configuration", Bearer, Authz, "/internal/authz/authzen-configuration"),
    own_subject(row(Get, "/api/org/me/companies", Bearer, Org, "/internal/org/me/companies")),
    row(Get, "/api/org/companies/{companyId}/members", Guard::Service, Org, "/internal/org/companies/{companyId}/members"),
    row(Get, "/api/org/companies/{companyId}/members/by-subject/{subject}", AppBackend, Org, "/internal/org/companies/{companyId}/members/by-kcsub/{subject}"),
    // Grants and platform role
    row(Post, "/api/auth/grants", AppBackend, Authz, "/internal/authz/grants"),
    row(Post, "/api/platform/admin/platform-roles", Superadmin, Authz, "/internal/authz/platform-roles"),
    row(Delete, "/api/platform/admin/platform-roles/{role}/{subjectId}", Superadmin, Authz, "/internal/authz/platform-roles/{role}/{subjectId}"),
    // Capabilities, catalog, apps, metrics
    row(Get, "/api/platform/capabilities", BearerAtOnce, Registry, "/internal/platform/capabilities"),
    row(Get, "/api/platform/capabilities/{module}", BearerAtOnce, Registry, "/internal/platform/capabilities/{module}"),
    row(Get, "/api/platform/catalog", BearerAtOnce, Registry, "/internal/platform/catalog"),
    settling(row(Post, "/api/platform/admin/modules/{key}/enable", Superadmin, Registry, "/internal/platform/modules/{key}/enable")),
    settling(row(Post, "/api/platform/admin/modules/{key}/disable", Superadmin, Registry, "/internal/platform/modules/{key}/disable")),
    settling(row(Post, "/api/platform/admin/apps", Superadmin, Registry, "/internal/platform/apps")),
    aggregated(Get, "/api/platform/metrics", Superadmin),
    // Organization administration
    row(Post, "/api/org/admin/units", Superadmin, Org, "/internal/org/admin/units"),
    row(Get, "/api/org/admin/units/{id}", Guard::Service, Org, "/internal/org/admin/units/{id}"),
    row(Get, "/api/org/admin/units/{id}/subtree", Guard::Service, Org, "/internal/org/admin/units/{id}/subtree"),
    row(Post, "/api/org/admin/members", Superadmin, Org, "/internal/org/admin/members"),
    row(Get, "/api/org/admin/members", Guard::Service, Org, "/internal/org/admin/members"),
    row(Put, "/api/org/admin/members/{id}", Superadmin, Org, "/internal/org/admin/members/{id}"),
    row(Post, "/api/org/admin/members/{id}/link-user", Superadmin, Org, "/internal/org/admin/members/{id}/link-user"),
    row(Delete, "/api/org/admin/members/{id}/link-user", Superadmin, Org, "/internal/org/admin/members/{id}/link-user"),
    row(Get, "/api/org/admin/companies/{companyId}/positions", Guard::Service, Org, "/internal/org/admin/companies/{companyId}/positions"),
    row(Post, "/api/org/admin/companies/{companyId}/positions", Superadmin, Org, "/internal/org/admin/companies/{companyId}/positions"),
    row(Post, "/api/org/admin/positions/{id}/assignments", Superadmin, Org, "/internal/org/admin/positions/{id}/assignments"),
    row(Post, "/api/org/admin/assignments/{id}/end", Superadmin, Org, "/internal/org/admin/assignments/{id}/end"),
    row(Get, "/api/org/admin/companies/{companyId}/groups", Guard::Service, Org, "/internal/org/admin/companies/{companyId}/groups"),
    row(Post, "/api/org/admin/companies/{companyId}/groups", Superadmin, Org, "/internal/org/admin/companies/{companyId}/groups"),
    row(Get, "/api/org/admin/groups/{id}/members", Guard::Service, Org, "/internal/org/admin/groups/{id}/members"),
    row(Post, "/api/org/admin/groups/{id}/members", Superadmin, Org, "/internal/org/admin/groups/{id}/members"),
    row(Delete, "/api/org/admin/groups/{id}/members/{memberId}", Superadmin, Org, "/internal/org/admin/groups/{id}/members/{memberId}"),
];

/// Keys that can never be a module's: names used for another purpose under `/api/` or at the root.
pub(crate) const RESERVED_KEYS: [&str; 9] =
    ["auth", "console", "healthz", "internal", "org", "platform", "readyz", "realms", "resources"];

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> String {
        let line = |row: &Row| {
            let target = match row.target {
                Target::Internal(service, internal) => format!("{} {internal}", service.name()),
                Target::AggregatedMetrics => "edge aggregated metrics".to_owned(),
            };
            let Row { verb, pattern, guard, query, then, .. } = row;
            format!("{} {pattern} | {guard:?} | {target} | {query:?} | {then:?}\n", verb.method())
        };
        FIXED.iter().map(line).collect()
    }

    #[test]
    fn the_route_table_is_the_reviewed_one() {
        let golden = include_str!("../../tests/golden/routes.txt");
        assert_eq!(table(), golden, "a route changed: review it, then change tests/golden/routes.txt");
    }

    #[test]
    fn every_change_under_admin_needs_a_superadmin_and_no_row_leads_out_of_internal() {
        for row in &FIXED {
            let is_read = matches!(row.verb, Get);
            let is_organization = row.pattern.starts_with("/api/org/");
            if row.pattern.contains("/admin/") {
                let guard = if is_read && is_organization { Guard::Service } else { Superadmin };
                assert_eq!(row.guard, guard, "{}", row.pattern);
            }
            if row.guard == Guard::Service {
                assert!(is_read && is_organization, "{}: org's reads ask authz themselves", row.pattern);
            }
            if let Target::Internal(_, internal) = row.target {
                assert!(internal.starts_with("/internal/"), "{internal}");
            }
        }
    }

    /// The file is what the running services answered: its second column is a bearer without any rights.
    #[test]
    fn what_a_service_guards_itself_is_403_to_a_bearer_without_rights() {
        let answered = include_str!("../../../tests/golden/internal_routes.txt");
        let refuses = |method: &str, path: &str| {
            answered.lines().any(|line| {
                let cells: Vec<&str> = line.split_whitespace().collect();
                matches!(cells.as_slice(), [verb, route, _, "403", ..] if *verb == method && *route == path)
            })
        };
        assert!(!refuses("GET", "/internal/org/companies/{companyId}/members/by-kcsub/{kcSub}"), "a control");
        for row in FIXED.iter().filter(|row| row.guard == Guard::Service) {
            let Target::Internal(_, internal) = row.target else { panic!("{}: no service", row.pattern) };
            assert!(refuses(row.verb.method().as_str(), internal), "{internal}");
        }
    }

    #[test]
    fn the_published_description_has_exactly_these_rows_and_the_probes() {
        let document: serde_json::Value = serde_json::from_str(crate::OPENAPI).expect("JSON");
        let paths = document["paths"].as_object().expect("paths");
        let mut published: Vec<String> = paths
            .iter()
            .flat_map(|(path, item)| {
                let item = item.as_object().expect("a path item");
                let methods = item.keys().filter(|key| key.as_str() != "parameters");
                methods.map(move |method| format!("{} {path}", method.to_uppercase()))
            })
            .collect();
        let fixed = FIXED.iter().map(|row| format!("{} {}", row.verb.method(), row.pattern));
        let mut rows: Vec<String> = fixed.chain(["GET /healthz".into(), "GET /readyz".into()]).collect();
        published.sort();
        rows.sort();
        assert_eq!(published, rows);
    }
}
