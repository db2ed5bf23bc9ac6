//! The modules that this program ships. They are parsed and checked together before the service starts; an error in one
//! of their files prevents the start and names the module and the file.

use contract::fragment;
use contract::manifest::set::{self, FileProblem, ModuleContract};
use contract::settings::split_list;
use serde_json::{Value, json};
use service::Bundle;

use crate::content::fingerprint;

/// A shipped module: its parsed contract, and its files as they are stored.
#[derive(Clone, Debug)]
pub struct ShippedModule {
    /// The parsed files.
    pub contract: ModuleContract,
    /// `module.manifest.json`.
    pub manifest: Value,
    /// `authz.fragment.json`.
    pub fragment: Value,
    /// Fingerprint of both files.
    pub content_hash: Vec<u8>,
}

impl ShippedModule {
    /// All feature keys of the module, including the access feature that every module has.
    #[must_use]
    pub fn feature_keys(&self) -> Vec<String> {
        let declared = self.contract.fragment.features.iter().map(|feature| feature.key.clone());
        declared.chain([fragment::access_feature(&self.contract.manifest.key)]).collect()
    }

    /// All object types that the module declares.
    #[must_use]
    pub fn object_types(&self) -> Vec<String> {
        self.contract.fragment.relations.keys().cloned().collect()
    }
}

/// The error for an install list with modules that this program does not ship.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "PLATFORM_INSTALLED_MODULES: no such module: {}; this program ships {}",
    .unknown.join(", "),
    .shipped.join(", ")
)]
pub struct UnknownModules {
    /// The keys that are not shipped.
    pub unknown: Vec<String>,
    /// The keys that are shipped.
    pub shipped: Vec<String>,
}

/// Parses an install list of comma-separated keys, ignoring spaces and duplicates.
///
/// # Errors
/// Fails if no bundle has one of the keys.
pub fn check_install_list(bundles: &[Bundle], list: &str) -> Result<Vec<String>, UnknownModules> {
    let mut keys = split_list(list);
    keys.sort();
    keys.dedup();
    let shipped: Vec<String> = bundles.iter().map(|bundle| bundle.key.to_owned()).collect();
    let unknown: Vec<String> = keys.iter().filter(|key| !shipped.contains(key)).cloned().collect();
    if unknown.is_empty() { Ok(keys) } else { Err(UnknownModules { unknown, shipped }) }
}

/// Lists every problem of the bundles' manifests and fragments, each as `<key>/<file>: <path>: …`.
#[must_use]
pub fn check_bundles(bundles: &[Bundle]) -> Vec<String> {
    match parse(bundles) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(FileProblem::to_string).collect(),
    }
}

/// Parses and checks the bundles.
///
/// # Errors
/// Every problem, one per line.
pub(crate) fn read(bundles: &[Bundle]) -> Result<Vec<ShippedModule>, String> {
    parse(bundles).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(FileProblem::to_string).collect();
        lines.join("\n")
    })
}

fn parse(bundles: &[Bundle]) -> Result<Vec<ShippedModule>, Vec<FileProblem>> {
    let mut modules = Vec::new();
    let mut problems = Vec::new();
    for bundle in bundles {
        match set::parse_module(bundle.key, bundle.manifest, bundle.fragment) {
            Ok(contract) => modules.push(shipped(bundle, contract)),
            Err(found) => problems.extend(found),
        }
    }
    // Rules between modules are checked only if all modules parse; otherwise an invalid module is reported twice.
    if problems.is_empty() {
        let contracts: Vec<ModuleContract> = modules.iter().map(|module| module.contract.clone()).collect();
        problems = set::check(&contracts);
    }
    if problems.is_empty() { Ok(modules) } else { Err(problems) }
}

#[expect(clippy::expect_used, reason = "both texts were read as JSON to make the contract that is passed")]
fn shipped(bundle: &Bundle, contract: ModuleContract) -> ShippedModule {
    let json = |text: &str| serde_json::from_str::<Value>(text).expect("read a moment ago");
    let (manifest, fragment) = (json(bundle.manifest), json(bundle.fragment));
    let content_hash = fingerprint(&json!([manifest, fragment]));
    ShippedModule { contract, manifest, fragment, content_hash }
}
