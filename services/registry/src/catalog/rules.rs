//! The content of the catalog, computed from one consistent read. Pure.

use contract::Subject;
use contract::catalog::{AppEntry, CatalogSnapshot, ModuleEntry, ModuleState};
use semver::{Version, VersionReq};
use serde::Serialize;

/// The `state` of a module or app that will be enabled once its default grants are written in every company.
pub(crate) const ENABLING: &str = "ENABLING";

/// Identifies a catalog's content. The revision alone does not: a restored database can reuse revisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edition {
    pub(crate) revision: i64,
    /// The transaction that wrote the revision and the start time of the database server. Opaque; only compared.
    pub(crate) written: String,
}

/// All registered modules and apps of one edition, by key.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    pub(crate) edition: Edition,
    pub(crate) registered: Vec<Registered>,
}

/// A registered module or app.
#[derive(Clone, Debug)]
pub(crate) struct Registered {
    pub(crate) key: String,
    pub(crate) display_name: String,
    pub(crate) version: Version,
    pub(crate) installed: bool,
    pub(crate) enabled: bool,
    pub(crate) enabling: bool,
    pub(crate) kind: Kind,
}

impl Registered {
    fn state(&self) -> Option<&'static str> {
        self.enabling.then_some(ENABLING)
    }
}

/// The properties that only modules or only apps have.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Module(Module),
    /// `subject` is the service account of the client, if known.
    App {
        client_id: String,
        subject: Option<Subject>,
    },
}

/// The properties that only modules have.
#[derive(Clone, Debug)]
pub(crate) struct Module {
    pub(crate) scope_type: String,
    pub(crate) mandatory: bool,
    pub(crate) base_path: String,
    pub(crate) health_path: String,
    pub(crate) port: u16,
    pub(crate) license_class: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// A module on which another one depends.
#[derive(Clone, Debug)]
pub(crate) struct Dependency {
    pub(crate) module_key: String,
    pub(crate) range: VersionReq,
}

/// The specification's `Capability`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Capability {
    pub(crate) module: String,
    pub(crate) installed: bool,
    pub(crate) enabled: bool,
    pub(crate) dependencies: Vec<String>,
    pub(crate) missing_dependencies: Vec<String>,
    /// [`ENABLING`] while the module or app is being enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<&'static str>,
}

/// The specification's `CatalogEntry`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CatalogEntry {
    module_key: String,
    display_name: String,
    scope_type: String,
    mandatory: bool,
    base_path: String,
    port: u16,
    health_path: String,
    license_class: String,
    manifest_version: String,
    is_active: bool,
    /// As in [`Capability`].
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
}

impl Catalog {
    pub(crate) fn capabilities(&self) -> Vec<Capability> {
        self.registered.iter().map(|one| self.capability_of(one)).collect()
    }

    pub(crate) fn capability(&self, key: &str) -> Option<Capability> {
        self.registered.iter().find(|one| one.key == key).map(|one| self.capability_of(one))
    }

    /// Returns the modules by key.
    pub(crate) fn entries(&self) -> Vec<CatalogEntry> {
        self.modules().map(|(one, module)| entry(one, module)).collect()
    }

    /// Returns the snapshot by which gateways admit requests.
    pub(crate) fn snapshot(&self) -> CatalogSnapshot {
        let apps = self.registered.iter().filter_map(app_entry).collect();
        let modules = self.modules().map(|(one, module)| self.module_entry(one, module)).collect();
        let Edition { revision, written } = self.edition.clone();
        CatalogSnapshot { revision, edition: written, modules, apps }
    }

    fn modules(&self) -> impl Iterator<Item = (&Registered, &Module)> {
        self.registered.iter().filter_map(|one| match &one.kind {
            Kind::Module(module) => Some((one, module)),
            Kind::App { .. } => None,
        })
    }

    fn capability_of(&self, one: &Registered) -> Capability {
        let needs: &[Dependency] = match &one.kind {
            Kind::Module(module) => &module.dependencies,
            Kind::App { .. } => &[],
        };
        Capability {
            module: one.key.clone(),
            installed: one.installed,
            enabled: one.enabled,
            dependencies: needs.iter().map(|need| need.module_key.clone()).collect(),
            missing_dependencies: self.missing(needs),
            state: one.state(),
        }
    }

    fn module_entry(&self, one: &Registered, module: &Module) -> ModuleEntry {
        let missing = self.missing(&module.dependencies);
        let state = match (one.installed, one.enabled, missing.is_empty()) {
            (false, _, _) => ModuleState::ModuleNotInstalled,
            (true, false, _) => ModuleState::ModuleDisabled,
            (true, true, false) => ModuleState::ModuleDependencyMissing,
            (true, true, true) => ModuleState::Ok,
        };
        ModuleEntry { key: one.key.clone(), state, port: module.port, missing }
    }

    /// Returns the keys of the dependencies that are not installed, not enabled or out of range.
    fn missing(&self, needs: &[Dependency]) -> Vec<String> {
        let met = |need: &Dependency| {
            let module = self.modules().find(|(one, _)| one.key == need.module_key);
            module.is_some_and(|(one, _)| one.installed && one.enabled && need.range.matches(&one.version))
        };
        needs.iter().filter(|need| !met(need)).map(|need| need.module_key.clone()).collect()
    }
}

fn entry(one: &Registered, module: &Module) -> CatalogEntry {
    CatalogEntry {
        module_key: one.key.clone(),
        display_name: one.display_name.clone(),
        scope_type: module.scope_type.clone(),
        mandatory: module.mandatory,
        base_path: module.base_path.clone(),
        port: module.port,
        health_path: module.health_path.clone(),
        license_class: module.license_class.clone(),
        manifest_version: one.version.to_string(),
        is_active: one.installed && one.enabled,
        state: one.state(),
    }
}

fn app_entry(one: &Registered) -> Option<AppEntry> {
    match &one.kind {
        Kind::App { client_id, subject } => Some(AppEntry {
            key: one.key.clone(),
            client_id: client_id.clone(),
            subject: subject.clone(),
            enabled: one.enabled,
        }),
        Kind::Module(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edition(revision: i64) -> Edition {
        Edition { revision, ..Edition::default() }
    }

    fn module(key: &str, installed: bool, enabled: bool, needs: &[(&str, &str)]) -> Registered {
        let need = |(key, range): &(&str, &str)| Dependency {
            module_key: (*key).to_owned(),
            range: VersionReq::parse(range).expect("a range"),
        };
        let module = Module {
            scope_type: "company".to_owned(),
            mandatory: false,
            base_path: format!("/api/{key}"),
            health_path: "/health".to_owned(),
            port: 8200,
            license_class: "open".to_owned(),
            dependencies: needs.iter().map(need).collect(),
        };
        let (key, display_name) = (key.to_owned(), key.to_uppercase());
        Registered {
            key,
            display_name,
            version: Version::new(1, 2, 0),
            installed,
            enabled,
            enabling: false,
            kind: Kind::Module(module),
        }
    }

    fn states(registered: Vec<Registered>) -> Vec<(ModuleState, Vec<String>)> {
        let snapshot = Catalog { edition: edition(1), registered }.snapshot();
        snapshot.modules.into_iter().map(|module| (module.state, module.missing)).collect()
    }

    #[test]
    fn not_installed_comes_before_disabled_and_disabled_before_missing() {
        let needs: &[(&str, &str)] = &[("zz", "*")];
        let missing = vec!["zz".to_owned()];
        for (installed, enabled, state) in [
            (false, false, ModuleState::ModuleNotInstalled),
            (true, false, ModuleState::ModuleDisabled),
            (true, true, ModuleState::ModuleDependencyMissing),
        ] {
            assert_eq!(states(vec![module("aa", installed, enabled, needs)]), [(state, missing.clone())]);
        }
        assert_eq!(states(vec![module("aa", true, true, &[])]), [(ModuleState::Ok, vec![])]);
    }

    #[test]
    fn a_dependency_must_be_installed_enabled_and_in_range() {
        for (installed, enabled, range, met) in [
            (true, true, "^1", true),
            (true, true, "^2", false),
            (true, false, "^1", false),
            (false, false, "^1", false),
        ] {
            let rows =
                vec![module("aa", true, true, &[("bb", range)]), module("bb", installed, enabled, &[])];
            assert_eq!(states(rows)[0].0 == ModuleState::Ok, met, "{installed} {enabled} {range}");
        }
    }

    #[test]
    fn only_direct_dependencies_count() {
        let rows = vec![
            module("aa", true, true, &[("bb", "*")]),
            module("bb", true, true, &[("cc", "*")]),
            module("cc", true, false, &[]),
        ];
        let found: Vec<ModuleState> = states(rows).into_iter().map(|(state, _)| state).collect();
        assert_eq!(
            found,
            [ModuleState::Ok, ModuleState::ModuleDependencyMissing, ModuleState::ModuleDisabled]
        );
    }

    #[test]
    fn apps_are_capabilities_and_no_catalog_entries() {
        let app = Registered {
            kind: Kind::App { client_id: "crm-backend".to_owned(), subject: Subject::parse("crm-account") },
            ..module("crm", true, false, &[])
        };
        let catalog = Catalog { edition: edition(7), registered: vec![app] };
        assert_eq!(catalog.entries(), []);
        assert_eq!(catalog.capabilities().len(), 1);
        assert!(catalog.capability("nobody").is_none());
        let app = AppEntry {
            key: "crm".to_owned(),
            client_id: "crm-backend".to_owned(),
            subject: Subject::parse("crm-account"),
            enabled: false,
        };
        let wanted =
            CatalogSnapshot { revision: 7, edition: edition(7).written, modules: vec![], apps: vec![app] };
        assert_eq!(catalog.snapshot(), wanted);
    }
}
