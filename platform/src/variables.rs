//! Every variable of every crate, and what is not one of them.

use std::collections::BTreeMap;
use std::ffi::OsString;

use contract::settings::{Kind, Problem, Problems, edit_distance, nearest, split_list};
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

/// Reads the variables of a process.
///
/// # Errors
/// Variables of the platform whose values are not valid UTF-8.
pub(crate) fn readable(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Settings, Problems> {
    let (mut pairs, mut problems) = (Vec::new(), Vec::new());
    for (name, value) in variables {
        let Ok(name) = name.into_string() else { continue };
        match value.into_string() {
            Ok(value) => pairs.push((name, value)),
            Err(_) if is_meant(&name) || all().contains_key(name.as_str()) => {
                problems.push(Problem { name, message: "the value is not valid UTF-8".to_owned() });
            }
            Err(_) => {}
        }
    }
    if problems.is_empty() { Ok(Settings::from_pairs(pairs)) } else { Err(Problems(problems)) }
}

/// Warns of each variable that nothing reads, with the nearest known one.
pub(crate) fn warn_unknown(settings: &Settings) {
    for (name, near) in unknown(settings) {
        console::say(&format!("platform: warning: unknown variable {name}; did you mean {near}?"));
    }
}

/// The variables that look like the platform's and that nothing reads, each with the nearest name that something reads.
fn unknown(settings: &Settings) -> Vec<(&str, String)> {
    let known = known(settings);
    let is_known = |name: &str| {
        known.iter().any(|known| if known.contains('<') { fits(name, known) } else { known == name })
    };
    let names = settings.iter().map(|(name, _)| name).filter(|name| is_meant(name) && !is_known(name));
    names
        .map(|name| {
            let near =
                nearest(&name.to_ascii_uppercase(), known.iter().map(String::as_str)).unwrap_or_default();
            (name, near.to_owned())
        })
        .collect()
}

/// Whether a name is, or is a misspelling of, one of the platform's.
fn is_meant(name: &str) -> bool {
    let Some((head, _)) = name.split_once('_') else { return false };
    head == "IDP" || edit_distance(&head.to_ascii_uppercase(), "PLATFORM") <= MISSPELT
}

/// How far a misspelt `PLATFORM` is from it: two letters in each other's place.
const MISSPELT: usize = 2;

/// Every name that something reads: of a family the names of its members, where these are known.
fn known(settings: &Settings) -> Vec<String> {
    let parts: Vec<&str> = catalog::parts().iter().map(|part| part.name).collect();
    let modules: Vec<&str> = catalog::bundles().iter().map(|bundle| bundle.key).collect();
    // A process that is not told the clients cannot tell a stranger's secret.
    let clients = settings.raw("PLATFORM_SERVICE_CLIENTS").map(split_list).unwrap_or_default();
    let clients: Vec<&str> = clients.iter().map(String::as_str).collect();
    let members = |name: &'static str| {
        let (family, members) = match name {
            _ if name.contains("<SERVICE>") => ("<SERVICE>", &parts),
            _ if name.contains("<KEY>") => ("<KEY>", &modules),
            _ if name.contains("<ID>") && !clients.is_empty() => ("<ID>", &clients),
            _ => return vec![name.to_owned()],
        };
        let member = |member: &&str| name.replace(family, &member.to_ascii_uppercase().replace('-', "_"));
        members.iter().map(member).collect()
    };
    all().into_keys().flat_map(members).collect()
}

/// The variable that a set name belongs to.
pub(crate) fn fits(name: &str, variable: &str) -> bool {
    let Some((head, rest)) = variable.split_once('<') else { return name == variable };
    let tail = rest.split_once('>').map_or("", |(_, tail)| tail);
    let middle = name.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail)).unwrap_or_default();
    !middle.is_empty()
        && middle.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name near` of each unknown one.
    fn told(pairs: &[(&str, &str)]) -> Vec<String> {
        let owned = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let settings = Settings::from_pairs(owned);
        unknown(&settings).into_iter().map(|(name, near)| format!("{name} {near}")).collect()
    }

    #[test]
    fn every_variable_and_every_member_of_a_family_is_known() {
        let mut names = vec!["PATH", "HOME", "PLATFORM", "PLATO_HOME", "OTEL_SERVICE_NAME", "_"];
        let families = [
            "PLATFORM_ORG_DB_HOST",
            "PLATFORM_TIMESHEET_DB_PASSWORD",
            "PLATFORM_IDP_DB_PORT",
            "PLATFORM_MODULE_HOST_DOCS",
            "PLATFORM_SERVICE_CLIENT_SECRET_ANY_CLIENT",
        ];
        names.extend(families);
        let variables = all();
        names.extend(
            variables.keys().filter(|name| !name.contains('<') && **name != "PLATFORM_SERVICE_CLIENTS"),
        );
        let pairs: Vec<_> = names.into_iter().map(|name| (name, "x")).collect();
        assert_eq!(told(&pairs), Vec::<String>::new());
    }

    #[test]
    fn a_misspelt_family_or_member_is_told_with_the_nearest_name() {
        for (wrong, near) in [
            ("PLATFORM_DOMIAN", "PLATFORM_DOMAIN"),
            ("PLATFROM_DOMAIN", "PLATFORM_DOMAIN"),
            ("PLATFORMS_REALM", "PLATFORM_REALM"),
            ("platform_realm", "PLATFORM_REALM"),
            ("IDP_ISSUER", "IDP_ISSUER_URL"),
            ("PLATFORM_NOTIFICATIONS_DB_HOST", "PLATFORM_NOTIFICATION_DB_HOST"),
            ("PLATFORM_TIMSHEET_DB_PASSWORD", "PLATFORM_TIMESHEET_DB_PASSWORD"),
            ("PLATFORM_ORG_DB_HOSTNAME", "PLATFORM_ORG_DB_HOST"),
            ("PLATFORM_MODULE_HOST_DOC", "PLATFORM_MODULE_HOST_DOCS"),
            ("PLATFORM_MODULES_HOST_DOCS", "PLATFORM_MODULE_HOST_DOCS"),
        ] {
            assert_eq!(told(&[(wrong, "x")]), [format!("{wrong} {near}")]);
        }
        let clients = ("PLATFORM_SERVICE_CLIENTS", "crm-backend, erp");
        let secret = |id: &str| format!("PLATFORM_SERVICE_CLIENT_SECRET_{id}");
        for (id, near) in [("CRM_BACKEND", None), ("ERP", None), ("CRM_BAKEND", Some("CRM_BACKEND"))] {
            let expected: Vec<String> =
                near.iter().map(|near| format!("{} {}", secret(id), secret(near))).collect();
            assert_eq!(told(&[clients, (&secret(id), "x")]), expected, "{id}");
        }
    }

    #[test]
    fn a_value_that_is_not_utf8_is_refused_where_it_is_ours() {
        use std::os::unix::ffi::OsStringExt;
        let latin = |name: &str| (OsString::from(name), OsString::from_vec(b"caf\xe9".to_vec()));
        let domain = (OsString::from("PLATFORM_DOMAIN"), OsString::from("a.test"));
        let read = readable([domain.clone(), latin("LESSOPEN")]).expect("another program's is left out");
        assert_eq!((read.raw("PLATFORM_DOMAIN"), read.is_set("LESSOPEN")), (Some("a.test"), false));
        let ours =
            ["PLATFORM_ORG_DB_PASSWORD", "IDP_ISSUER_URL", "PLATFROM_REALM", "OTEL_EXPORTER_OTLP_ENDPOINT"];
        let refused = readable(ours.map(latin).into_iter().chain([domain])).expect_err("ours");
        let named: Vec<_> = refused.0.iter().map(|problem| problem.name.as_str()).collect();
        assert_eq!(named, ours);
        assert!(refused.to_string().contains("IDP_ISSUER_URL: the value is not valid UTF-8"), "{refused}");
    }

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
