//! Every variable of every crate, and what is not one of them.

use std::collections::BTreeMap;

use contract::settings::{Kind, nearest};
use contract::{Settings, Variable};
use postgres::{MAVEN_URL, PG_BIN};

use crate::{catalog, console};

/// Where `up` keeps everything.
pub(crate) const DATA_DIR: Variable = Variable::new(
    "PLATFORM_DATA_DIR",
    Kind::Path,
    Some("./.platform"),
    "Folder of the embedded database, development certificates and generated secrets",
);
/// The owner's address of a database that is not embedded. A secret, because it holds a password.
pub(crate) const DATABASE_URL: Variable = Variable::new(
    "PLATFORM_DATABASE_URL",
    Kind::Secret,
    None,
    "postgres://owner:password@host:port/database of a login that may create roles and schemas; absent: up runs an embedded database",
);
/// Least free space to start with. The database needs about 60 MiB at first, and must never run out while it writes.
pub(crate) const MIN_FREE_DISK: Variable = Variable::new(
    "PLATFORM_MIN_FREE_DISK",
    Kind::Size,
    Some("256MiB"),
    "Free space that the data directory's disk must have at a start",
);

const OWN: &[Variable] =
    &[DATA_DIR, DATABASE_URL, edge::EDGE_ADDR, edge::EDGE_PLAIN_ADDR, MAVEN_URL, MIN_FREE_DISK, PG_BIN];

/// Every variable by name; a crate that declares one that another has declared means the same one.
pub(crate) fn all() -> BTreeMap<&'static str, Variable> {
    let shared = [
        OWN,
        bearer::VARIABLES,
        service::config::VARIABLES,
        service::module::VARIABLES,
        service::outbound::VARIABLES,
        service::sealed::VARIABLES,
        edge::VARIABLES,
    ];
    let parts = catalog::parts();
    let theirs = parts.iter().map(|part| part.variables);
    let mut found = BTreeMap::new();
    for variable in telemetry::VARIABLES.iter().copied().chain(shared).chain(theirs).flatten() {
        found.entry(variable.name).or_insert(*variable);
    }
    found
}

/// Names a variable that nobody reads, with the nearest known one.
pub(crate) fn warn_unknown(settings: &Settings) {
    let known = all();
    for (name, _) in settings.iter().filter(|(name, _)| name.starts_with("PLATFORM_")) {
        if is_known(name, known.keys()) {
            continue;
        }
        let near = nearest(name, known.keys().copied()).unwrap_or_default();
        console::say(&format!("platform: warning: unknown variable {name}; did you mean {near}?"));
    }
}

/// The variable that a set name belongs to.
pub(crate) fn fits(name: &str, variable: &str) -> bool {
    let Some((head, rest)) = variable.split_once('<') else { return name == variable };
    let tail = rest.split_once('>').map_or("", |(_, tail)| tail);
    let middle = name.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail)).unwrap_or_default();
    !middle.is_empty()
        && middle.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

fn is_known<'a>(name: &str, known: impl Iterator<Item = &'a &'static str>) -> bool {
    known.into_iter().any(|variable| fits(name, variable))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_covers_its_members_only() {
        assert!(fits("PLATFORM_ORG_DB_HOST", "PLATFORM_<SERVICE>_DB_HOST"));
        assert!(fits("PLATFORM_MODULE_HOST_DOCS", "PLATFORM_MODULE_HOST_<KEY>"));
        for stranger in
            ["PLATFORM__DB_HOST", "PLATFORM_ORG_DB_HOSTS", "PLATFORM_org_DB_HOST", "PLATFORM_DB_HOST"]
        {
            assert!(!fits(stranger, "PLATFORM_<SERVICE>_DB_HOST"), "{stranger}");
        }
    }
}
