//! `module.manifest.json`: a module's identity, its listener and its dependencies. The parser is total: any text yields
//! a manifest or all of its problems. Rules between modules are checked in [`set`].

pub mod set;
pub(crate) mod strict;
pub mod version;

use semver::{Version, VersionReq};
use serde_json::Value;

use crate::FieldProblem;
use strict::{Findings, Members, Node};

/// Name of the file.
pub const FILE: &str = "module.manifest.json";

const KEYS: [&str; 12] = [
    "contractVersion",
    "moduleKey",
    "displayName",
    "version",
    "scopeType",
    "mandatory",
    "service",
    "dependencies",
    "org",
    "data",
    "license",
    "events",
];

/// Keys that no module may have: its paths would collide with the gateway's, or its role, schema or audit table with
/// another's (`platform_owner` owns every schema).
const RESERVED_KEYS: [&str; 18] = [
    "audit",
    "auth",
    "authz",
    "console",
    "feed",
    "gateway",
    "healthz",
    "identity",
    "idp",
    "information_schema",
    "internal",
    "org",
    "owner",
    "platform",
    "public",
    "readyz",
    "realms",
    "registry",
];

/// A module's manifest. Values that the specification derives from the key (base path, schema, migrations path) are
/// checked and not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Names the schema, the database role, the feature prefix and the base path.
    pub key: String,
    /// Name for people.
    pub display_name: String,
    /// The version to which other modules' ranges apply.
    pub version: Version,
    /// Global or per company.
    pub scope_type: ScopeType,
    /// A mandatory module cannot be disabled.
    pub mandatory: bool,
    /// Its listener.
    pub service: Service,
    /// Required modules.
    pub dependencies: Vec<Dependency>,
    /// What it uses of the organization.
    pub org: OrgNeeds,
    /// Its license.
    pub license: License,
}

impl Manifest {
    /// `/api/<moduleKey>`.
    #[must_use]
    pub fn base_path(&self) -> String {
        format!("/api/{}", self.key)
    }
}

/// The scope of a module or a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopeType {
    /// The whole deployment.
    Global,
    /// One company at a time.
    Company,
}

impl ScopeType {
    pub(crate) const WORDS: [(&'static str, Self); 2] =
        [("global", Self::Global), ("company", Self::Company)];

    /// The spelling in files and tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Company => "company",
        }
    }
}

/// The module's listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The port that the gateway connects to.
    pub port: u16,
    /// Stored, but not used.
    pub health_path: String,
}

/// A required module: without it, this module's requests are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// Key of the other module.
    pub module_key: String,
    /// The accepted versions.
    pub range: VersionReq,
}

/// Declarative: nothing reads this at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrgNeeds {
    /// Type keys of units.
    pub required_unit_types: Vec<String>,
    /// Whether it works with members.
    pub uses_members: bool,
    /// Whether it works with positions.
    pub uses_positions: bool,
}

/// The module's license.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct License {
    /// `foundation` or `open`.
    pub class: LicenseClass,
    /// SPDX identifier that the class allows.
    pub spdx: String,
    /// Declarative.
    pub entitlement_required: bool,
}

/// License classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LicenseClass {
    /// Apache-2.0.
    Foundation,
    /// Apache-2.0 or MIT.
    Open,
}

impl LicenseClass {
    const WORDS: [(&'static str, Self); 2] = [("foundation", Self::Foundation), ("open", Self::Open)];

    /// The spelling in files and tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Foundation => "foundation",
            Self::Open => "open",
        }
    }

    const fn allows(self) -> &'static [&'static str] {
        match self {
            Self::Foundation => &["Apache-2.0"],
            Self::Open => &["Apache-2.0", "MIT"],
        }
    }
}

/// Parses a manifest.
///
/// # Errors
/// Every violated rule, each with its path.
pub fn parse(text: &str) -> Result<Manifest, Vec<FieldProblem>> {
    let value = strict::read_json(text)?;
    let mut found = Findings::default();
    let manifest = read(&value, &mut found);
    found.finish(manifest)
}

/// `^[a-z][a-z0-9_]{1,31}$`, the pattern of module and app keys.
#[must_use]
pub fn is_key(text: &str) -> bool {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase());
    let rest = bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    first && rest && (2..=32).contains(&text.len())
}

/// Whether the key is reserved.
#[must_use]
pub fn is_reserved_key(key: &str) -> bool {
    RESERVED_KEYS.contains(&key) || key.starts_with("pg_")
}

fn read(value: &Value, found: &mut Findings) -> Option<Manifest> {
    let file = Node::root("", value).members(&KEYS, found)?;
    check_contract_version(&file, found);
    file.null("events", found);
    let key = read_module_key(&file, found);
    check_data(&file, key.as_deref(), found);
    let display_name = file.label("displayName", found);
    let version = read_version(&file, found);
    let scope_type = file.word("scopeType", &ScopeType::WORDS, found);
    let mandatory = file.flag("mandatory", found);
    let service = read_service(&file, key.as_deref(), found);
    let dependencies = read_dependencies(&file, key.as_deref(), found);
    let org = read_org(&file, found);
    let license = read_license(&file, found);
    Some(Manifest {
        key: key?,
        display_name: display_name?,
        version: version?,
        scope_type: scope_type?,
        mandatory: mandatory?,
        service: service?,
        dependencies: dependencies?,
        org: org?,
        license: license?,
    })
}

fn check_contract_version(file: &Members<'_>, found: &mut Findings) {
    if let Some(node) = file.need("contractVersion", found)
        && node.value.as_u64() != Some(1)
    {
        found.refuse::<()>(&node.path, "contract_version", "1");
    }
}

fn read_key(members: &Members<'_>, name: &str, found: &mut Findings) -> Option<String> {
    let text = members.text(name, found)?;
    if is_key(text) {
        return Some(text.to_owned());
    }
    found.refuse(&members.path_of(name), "pattern", "^[a-z][a-z0-9_]{1,31}$")
}

/// The module's own key.
fn read_module_key(file: &Members<'_>, found: &mut Findings) -> Option<String> {
    let key = read_key(file, "moduleKey", found)?;
    if is_reserved_key(&key) {
        return found.refuse("moduleKey", "reserved", format!("not \"{key}\", which is the platform's own"));
    }
    Some(key)
}

fn read_version(file: &Members<'_>, found: &mut Findings) -> Option<Version> {
    let text = file.text("version", found)?;
    version::parse(text).or_else(|| found.refuse("version", "semver", "a semantic version such as 1.2.3"))
}

fn read_service(file: &Members<'_>, key: Option<&str>, found: &mut Findings) -> Option<Service> {
    let service =
        file.need("service", found)?.members(&["basePath", "port", "healthPath", "image"], found)?;
    service.null("image", found);
    check_fixed(&service, "basePath", key.map(|key| format!("/api/{key}")), found);
    let port = read_port(&service, found);
    let health_path = read_health_path(&service, found);
    Some(Service { port: port?, health_path: health_path? })
}

fn read_port(service: &Members<'_>, found: &mut Findings) -> Option<u16> {
    let number = service.integer("port", found)?;
    let port = u16::try_from(number).ok().filter(|port| *port > 0);
    port.or_else(|| found.refuse(&service.path_of("port"), "range", "from 1 to 65535"))
}

fn read_health_path(service: &Members<'_>, found: &mut Findings) -> Option<String> {
    let text = service.text("healthPath", found)?;
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'?' && byte != b'#');
    if plain && text.starts_with('/') && !text.starts_with("//") && text.len() <= strict::MAX_LABEL {
        return Some(text.to_owned());
    }
    found.refuse(&service.path_of("healthPath"), "absolute_path", "an absolute path such as /health")
}

/// Checks a text that the module's key determines. Without a readable key, checks only its presence and type.
fn check_fixed(members: &Members<'_>, name: &str, right: Option<String>, found: &mut Findings) {
    let text = members.text(name, found);
    if let (Some(text), Some(right)) = (text, right)
        && text != right
    {
        found.refuse::<()>(&members.path_of(name), "fixed", format!("exactly {right}"));
    }
}

fn read_dependencies(file: &Members<'_>, key: Option<&str>, found: &mut Findings) -> Option<Vec<Dependency>> {
    let items = file.items("dependencies", strict::MAX_NAMED, found)?;
    let mut dependencies: Vec<Dependency> = Vec::new();
    for item in items {
        let Some(dependency) = read_dependency(&item, found) else { continue };
        let path = format!("{}.moduleKey", item.path);
        if key == Some(dependency.module_key.as_str()) {
            found.refuse::<()>(&path, "cycle", "another module");
        } else if dependencies.iter().any(|known| known.module_key == dependency.module_key) {
            found.refuse::<()>(&path, "unique", "each module once");
        } else {
            dependencies.push(dependency);
        }
    }
    Some(dependencies)
}

fn read_dependency(item: &Node<'_>, found: &mut Findings) -> Option<Dependency> {
    let members = item.members(&["moduleKey", "versionRange", "required"], found)?;
    if members.flag("required", found) == Some(false) {
        found.refuse::<()>(&members.path_of("required"), "required_dependency", "true");
    }
    let module_key = read_key(&members, "moduleKey", found);
    let range = members.text("versionRange", found).and_then(|text| {
        let path = members.path_of("versionRange");
        version::parse_range(text).or_else(|| found.refuse(&path, "version_range", version::RANGE_RULE))
    });
    Some(Dependency { module_key: module_key?, range: range? })
}

fn read_org(file: &Members<'_>, found: &mut Findings) -> Option<OrgNeeds> {
    let org =
        file.need("org", found)?.members(&["requiredOrgUnitTypes", "usesMembers", "usesPositions"], found)?;
    let required_unit_types = read_unit_types(&org, found);
    let uses_members = org.flag("usesMembers", found);
    let uses_positions = org.flag("usesPositions", found);
    Some(OrgNeeds {
        required_unit_types: required_unit_types?,
        uses_members: uses_members?,
        uses_positions: uses_positions?,
    })
}

fn read_unit_types(org: &Members<'_>, found: &mut Findings) -> Option<Vec<String>> {
    let items = org.items("requiredOrgUnitTypes", strict::MAX_NAMED, found)?;
    let read = |item: &Node<'_>, found: &mut Findings| {
        let text = item.text(found)?;
        if is_key(text) {
            Some(text.to_owned())
        } else {
            found.refuse(&item.path, "pattern", "a type key of units")
        }
    };
    let types: Vec<Option<String>> = items.iter().map(|item| read(item, found)).collect();
    types.into_iter().collect()
}

fn check_data(file: &Members<'_>, key: Option<&str>, found: &mut Findings) {
    let Some(node) = file.need("data", found) else { return };
    let Some(data) = node.members(&["postgresSchema", "migrationsPath"], found) else { return };
    check_fixed(&data, "postgresSchema", key.map(ToOwned::to_owned), found);
    check_fixed(&data, "migrationsPath", Some("migrations".to_owned()), found);
}

fn read_license(file: &Members<'_>, found: &mut Findings) -> Option<License> {
    let license = file.need("license", found)?.members(&["class", "spdx", "entitlementRequired"], found)?;
    let class = license.word("class", &LicenseClass::WORDS, found);
    let spdx = license.text("spdx", found);
    let entitlement_required = license.flag("entitlementRequired", found);
    let (class, spdx) = (class?, spdx?);
    if !class.allows().contains(&spdx) {
        let message = format!("{} with class {}", class.allows().join(" or "), class.as_str());
        return found.refuse(&license.path_of("spdx"), "license", message);
    }
    Some(License { class, spdx: spdx.to_owned(), entitlement_required: entitlement_required? })
}

#[cfg(test)]
pub(crate) mod tests;
