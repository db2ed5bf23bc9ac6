//! `authz.fragment.json`: a module's object types, their relations and its features; also the bare relations of an
//! app's `authzFragment`. Parsers are total: any JSON yields a value or all of its problems.

pub mod base;
mod expression;
mod relations;
mod sections;

use serde_json::Value;

use crate::FieldProblem;
use crate::manifest::strict::{self, Findings, Members, Node};

pub use base::{BASE_TYPES, base_model, is_base_type};
pub use expression::{Expression, MAX_NESTING};
pub use relations::{
    ANCHOR, MAX_NAME, MAX_RELATIONS, MAX_TYPES, Relations, missing_targets, parse_relations,
};
pub use sections::{AccessRule, AccessRuleKind, Feature, ObjectType, Role, RowScope, ScopeKind};

/// Name of the file.
pub const FILE: &str = "authz.fragment.json";

const KEYS: [&str; 9] = [
    "moduleKey",
    "roles",
    "objects",
    "relations",
    "features",
    "fieldCatalog",
    "fieldSets",
    "rowScopes",
    "bootstrapPolicy",
];

/// A module's fragment. The uninterpreted sections (`fieldCatalog`, `fieldSets`, the rules of `rowScopes`) are kept
/// unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The manifest's module key.
    pub module_key: String,
    /// Role flags; they grant nothing.
    pub roles: Vec<Role>,
    /// How permission screens show object types.
    pub objects: Vec<ObjectType>,
    /// Input of the authorization engine.
    pub relations: Relations,
    /// Features, each with its key and rule.
    pub features: Vec<Feature>,
    /// Uninterpreted.
    pub field_catalog: Vec<Value>,
    /// Uninterpreted.
    pub field_sets: Vec<Value>,
    /// Row scopes of declared types.
    pub row_scopes: Vec<RowScope>,
}

/// Parses the fragment of the module `module_key`.
///
/// # Errors
/// Every violated rule, each with its path.
pub fn parse(text: &str, module_key: &str) -> Result<Fragment, Vec<FieldProblem>> {
    let value = strict::read_json(text)?;
    let mut found = Findings::default();
    let fragment = read(&value, module_key, &mut found);
    found.finish(fragment)
}

/// The feature key that every module and app has without declaring it: permission to enter at all.
#[must_use]
pub fn access_feature(key: &str) -> String {
    format!("{key}.access")
}

fn read(value: &Value, module_key: &str, found: &mut Findings) -> Option<Fragment> {
    let file = Node::root("", value).members(&KEYS, found)?;
    check_module_key(&file, module_key, found);
    sections::check_bootstrap_policy(&file, found);
    let relations = file.need("relations", found).and_then(|node| relations::read(&node, found));
    // Sections that name types are checked against the readable ones, so that they are checked in the same pass.
    let declared = relations.clone().unwrap_or_default();
    let roles = sections::read_roles(&file, found);
    let objects = sections::read_objects(&file, &declared, found);
    let features = sections::read_features(&file, module_key, &declared, found);
    let row_scopes = sections::read_row_scopes(&file, &declared, found);
    let field_catalog = read_opaque(&file, "fieldCatalog", found);
    let field_sets = read_opaque(&file, "fieldSets", found);
    Some(Fragment {
        module_key: module_key.to_owned(),
        roles: roles?,
        objects: objects?,
        relations: relations?,
        features: features?,
        field_catalog: field_catalog?,
        field_sets: field_sets?,
        row_scopes: row_scopes?,
    })
}

fn check_module_key(file: &Members<'_>, module_key: &str, found: &mut Findings) {
    let text = file.text("moduleKey", found);
    if text.is_some_and(|text| text != module_key) {
        found.refuse::<()>("moduleKey", "fixed", format!("exactly {module_key}, the manifest's key"));
    }
}

fn read_opaque(file: &Members<'_>, name: &str, found: &mut Findings) -> Option<Vec<Value>> {
    Some(file.need(name, found)?.list(found)?.to_vec())
}

#[cfg(test)]
mod tests;
