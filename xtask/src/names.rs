//! One name means one thing in the workspace: public type names that stand in more than one crate need a reason each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use syn::visit::{self, Visit};
use syn::{Item, Visibility};

/// Names that several crates use on purpose, each with its reason.
const SHARED: &[(&str, &str)] = &[];

/// Prints every shared name with its crates and its reason.
///
/// # Errors
/// A file that is no Rust.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let reasons: BTreeMap<&str, &str> = SHARED.iter().copied().collect();
    let mut problems = Vec::new();
    let mut shared = BTreeSet::new();
    for (name, crates) in public_types(root)? {
        if crates.len() < 2 {
            continue;
        }
        let crates = crates.into_iter().collect::<Vec<_>>().join(", ");
        match reasons.get(name.as_str()) {
            Some(reason) => crate::say(&format!("{name} ({crates}): {reason}")),
            None => problems.push(format!("{name} stands in {crates}, and names.rs gives no reason")),
        }
        shared.insert(name);
    }
    let stale = reasons.keys().filter(|name| !shared.contains(**name));
    problems
        .extend(stale.map(|name| format!("names.rs gives a reason for {name}, which one crate has at most")));
    Ok(problems)
}

/// The crates that have a public type of this name, by name.
fn public_types(root: &Path) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in crate::rust_files(root)? {
        let Some((package, _)) = path.split_once("/src/") else { continue };
        if package.starts_with("examples/") {
            continue;
        }
        let text = std::fs::read_to_string(root.join(&path))?;
        let parsed = syn::parse_file(&text).with_context(|| path.clone())?;
        let mut types = Types::default();
        types.visit_file(&parsed);
        for name in types.names {
            found.entry(name).or_default().insert(package.to_owned());
        }
    }
    Ok(found)
}

#[derive(Default)]
struct Types {
    names: BTreeSet<String>,
}

impl Visit<'_> for Types {
    fn visit_item(&mut self, item: &Item) {
        let (visibility, name) = match item {
            Item::Struct(item) => (&item.vis, &item.ident),
            Item::Enum(item) => (&item.vis, &item.ident),
            Item::Union(item) => (&item.vis, &item.ident),
            Item::Trait(item) => (&item.vis, &item.ident),
            Item::Type(item) => (&item.vis, &item.ident),
            other => return visit::visit_item(self, other),
        };
        if matches!(visibility, Visibility::Public(_)) {
            self.names.insert(name.to_string());
        }
    }
}
