//! Rules between the modules of one platform: no name or port is claimed twice, every dependency exists in an accepted
//! version and is not cyclic, and every tuple-to-userset leads to an existing relation.

use std::collections::BTreeMap;
use std::fmt;

use super::Manifest;
use crate::FieldProblem;
use crate::fragment::{self, Fragment, Relations, base_model, missing_targets};
use crate::ports;

/// The two contract files of one module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleContract {
    /// `module.manifest.json`.
    pub manifest: Manifest,
    /// `authz.fragment.json`.
    pub fragment: Fragment,
}

/// A problem in one file of one module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    /// The module.
    pub module_key: String,
    /// The file's name.
    pub file: &'static str,
    /// The problem.
    pub problem: FieldProblem,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FieldProblem { path, rule, message } = &self.problem;
        write!(f, "{}/{}: {path}: {message} ({rule})", self.module_key, self.file)
    }
}

/// Parses the two files of the module `key`.
///
/// # Errors
/// Every problem of both files.
pub fn parse_module(key: &str, manifest: &str, fragment: &str) -> Result<ModuleContract, Vec<FileProblem>> {
    let of_file = |file: &'static str, problems: Vec<FieldProblem>| {
        let at = move |problem| FileProblem { module_key: key.to_owned(), file, problem };
        problems.into_iter().map(at).collect::<Vec<_>>()
    };
    let manifest = super::parse(manifest).map_err(|problems| of_file(super::FILE, problems));
    let fragment = fragment::parse(fragment, key).map_err(|problems| of_file(fragment::FILE, problems));
    match (manifest, fragment) {
        (Ok(manifest), Ok(fragment)) if manifest.key == key => Ok(ModuleContract { manifest, fragment }),
        (Ok(_), Ok(_)) => {
            let problem =
                FieldProblem::new("moduleKey", "fixed", format!("exactly {key}, the module's name"));
            Err(of_file(super::FILE, vec![problem]))
        }
        (manifest, fragment) => {
            Err([manifest.err(), fragment.err()].into_iter().flatten().flatten().collect())
        }
    }
}

/// Every violated rule between the modules of this set.
#[must_use]
pub fn check(modules: &[ModuleContract]) -> Vec<FileProblem> {
    let mut problems = unique(modules);
    problems.extend(modules.iter().flat_map(|module| dependencies(module, modules)));
    problems.extend(cycle(modules));
    problems.extend(targets(modules));
    problems
}

fn in_manifest(key: &str, path: impl Into<String>, rule: &'static str, message: String) -> FileProblem {
    let problem = FieldProblem::new(path, rule, message);
    FileProblem { module_key: key.to_owned(), file: super::FILE, problem }
}

/// Keys, ports, object types and feature keys each belong to one module. Schemas and feature prefixes equal the key.
fn unique(modules: &[ModuleContract]) -> Vec<FileProblem> {
    let taken = |(port, owner): (u16, &'static str)| (("service.port".to_owned(), port.to_string()), owner);
    let mut owners: BTreeMap<_, &str> = ports::TAKEN.into_iter().map(taken).collect();
    let mut problems = Vec::new();
    for module in modules {
        let key = module.manifest.key.as_str();
        for (file, path, what) in claims(module) {
            if let Some(owner) = owners.insert((path.clone(), what.clone()), key) {
                let message = format!("\"{what}\" belongs to {owner} already");
                let problem = FieldProblem::new(path, "unique", message);
                problems.push(FileProblem { module_key: key.to_owned(), file, problem });
            }
        }
    }
    problems
}

fn claims(module: &ModuleContract) -> Vec<(&'static str, String, String)> {
    let ModuleContract { manifest, fragment } = module;
    let mut claims = vec![
        (super::FILE, "moduleKey".to_owned(), manifest.key.clone()),
        (super::FILE, "service.port".to_owned(), manifest.service.port.to_string()),
    ];
    claims.extend(
        fragment.relations.keys().map(|name| (fragment::FILE, format!("relations.{name}"), name.clone())),
    );
    let keys = fragment.features.iter().map(|feature| feature.key.clone());
    claims.extend(keys.map(|key| (fragment::FILE, "features".to_owned(), key)));
    claims
}

fn dependencies(module: &ModuleContract, modules: &[ModuleContract]) -> Vec<FileProblem> {
    let key = module.manifest.key.as_str();
    let mut problems = Vec::new();
    for (index, dependency) in module.manifest.dependencies.iter().enumerate() {
        let path = |member: &str| format!("dependencies[{index}].{member}");
        let target = modules.iter().find(|other| other.manifest.key == dependency.module_key);
        match target.map(|target| &target.manifest.version) {
            None => {
                let message = format!("\"{}\" is not a module of this platform", dependency.module_key);
                problems.push(in_manifest(key, path("moduleKey"), "dependency", message));
            }
            Some(version) if !dependency.range.matches(version) => {
                let message = format!("{} is {version}, not {}", dependency.module_key, dependency.range);
                problems.push(in_manifest(key, path("versionRange"), "dependency_version", message));
            }
            Some(_) => {}
        }
    }
    problems
}

/// Kahn's algorithm: repeatedly places modules whose dependencies are all placed; the rest contains a cycle.
fn cycle(modules: &[ModuleContract]) -> Option<FileProblem> {
    let mut left: BTreeMap<&str, Vec<&str>> =
        modules.iter().map(|module| (module.manifest.key.as_str(), needs(module))).collect();
    loop {
        let known: Vec<&str> = left.keys().copied().collect();
        let before = left.len();
        left.retain(|_, needs| needs.iter().any(|need| known.contains(need)));
        if left.len() == before {
            break;
        }
    }
    let names = walk(&left)?;
    let first = names.first().copied()?;
    let message = format!("the dependencies form a cycle: {}", names.join(" -> "));
    Some(in_manifest(first, "dependencies", "cycle", message))
}

fn needs(module: &ModuleContract) -> Vec<&str> {
    module.manifest.dependencies.iter().map(|dependency| dependency.module_key.as_str()).collect()
}

/// Follows unplaced dependencies until a module repeats; returns the names from its first occurrence on.
fn walk<'a>(left: &BTreeMap<&'a str, Vec<&'a str>>) -> Option<Vec<&'a str>> {
    let mut way: Vec<&str> = Vec::new();
    let mut at = *left.keys().next()?;
    loop {
        if let Some(begin) = way.iter().position(|name| *name == at) {
            let mut names = way.split_off(begin);
            names.push(at);
            return Some(names);
        }
        way.push(at);
        at = left.get(at)?.iter().copied().find(|need| left.contains_key(need))?;
    }
}

fn targets(modules: &[ModuleContract]) -> Vec<FileProblem> {
    let base = base_model();
    let mut model: Vec<&Relations> = modules.iter().map(|module| &module.fragment.relations).collect();
    model.push(&base);
    let of_module = |module: &ModuleContract| {
        let key = module.manifest.key.clone();
        let problems = missing_targets(&module.fragment.relations, "relations", &model);
        let at = move |problem| FileProblem { module_key: key.clone(), file: fragment::FILE, problem };
        problems.into_iter().map(at).collect::<Vec<_>>()
    };
    modules.iter().flat_map(of_module).collect()
}

#[cfg(test)]
mod tests;
