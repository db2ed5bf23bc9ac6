//! The section `relations` of a module's fragment, which is also the whole of an app's `authzFragment`: object type,
//! then relation, then one expression. Only this section is loaded into the authorization engine.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::base::is_base_type;
use super::expression::{self, Expression};
use crate::FieldProblem;
use crate::envelope::shown;
use crate::manifest::strict::{Findings, Node};

/// Object type, then relation, then its holders.
pub type Relations = BTreeMap<String, BTreeMap<String, Expression>>;

/// Most object types of one module or app.
pub const MAX_TYPES: usize = 64;
/// Most relations of one object type.
pub const MAX_RELATIONS: usize = 64;
/// Longest name of a type or relation, in characters.
pub const MAX_NAME: usize = 64;
/// The relation that ties an object to its module in one company; every declared type has it, as direct tuples.
pub const ANCHOR: &str = "company_module";

/// Parses the relations section at `path` in its file (`relations`, `authzFragment`).
///
/// # Errors
/// Every violated rule of the grammar, each with its path.
pub fn parse_relations(value: &Value, path: &str) -> Result<Relations, Vec<FieldProblem>> {
    let mut found = Findings::default();
    let relations = read(&Node::root(path, value), &mut found);
    found.finish(relations)
}

/// Every tuple-to-userset whose target relation exists on no type of `model`, which must include `relations` and the
/// base types.
#[must_use]
pub fn missing_targets(relations: &Relations, path: &str, model: &[&Relations]) -> Vec<FieldProblem> {
    let known: BTreeSet<&str> =
        model.iter().flat_map(|part| part.values()).flat_map(BTreeMap::keys).map(String::as_str).collect();
    let mut found = Findings::default();
    for (type_name, of_type) in relations {
        for (relation, expression) in of_type {
            let at = format!("{path}.{}.{}", shown(type_name), shown(relation));
            check_targets(&at, expression, &known, &mut found);
        }
    }
    found.into_problems()
}

fn check_targets(path: &str, expression: &Expression, known: &BTreeSet<&str>, found: &mut Findings) {
    match expression {
        Expression::This | Expression::Computed(_) => {}
        Expression::TupleTo { computed, .. } => {
            if !known.contains(computed.as_str()) {
                let message = format!("\"{computed}\" is not a relation of any type");
                found.refuse::<()>(&format!("{path}.tupleToUserset.computedUserset"), "target", message);
            }
        }
        Expression::Union(children) => {
            for (index, child) in children.iter().enumerate() {
                check_targets(&format!("{path}.union[{index}]"), child, known, found);
            }
        }
    }
}

pub(super) fn read(node: &Node<'_>, found: &mut Findings) -> Option<Relations> {
    let types = node.open(found)?;
    if types.len() > MAX_TYPES {
        return found.refuse(&node.path, "limit", format!("at most {MAX_TYPES} object types"));
    }
    let mut relations = Relations::new();
    for (name, node) in types.entries() {
        check_type_name(name, &node, found);
        if let Some(of_type) = read_type(&node, found) {
            relations.insert(name.to_owned(), of_type);
        }
    }
    Some(relations)
}

fn check_type_name(name: &str, node: &Node<'_>, found: &mut Findings) {
    if !is_name(name) {
        found.refuse::<()>(&node.path, "name", NAME_RULE);
    }
    if is_base_type(name) {
        found.refuse::<()>(&node.path, "base_type", format!("\"{name}\" is a type of the platform's own"));
    }
}

fn read_type(node: &Node<'_>, found: &mut Findings) -> Option<BTreeMap<String, Expression>> {
    let members = node.open(found)?;
    if members.len() > MAX_RELATIONS {
        return found.refuse(&node.path, "limit", format!("at most {MAX_RELATIONS} relations"));
    }
    let entries: Vec<_> = members.entries().collect();
    let mut of_type = BTreeMap::new();
    for (name, node) in &entries {
        if !is_name(name) {
            found.refuse::<()>(&node.path, "name", NAME_RULE);
        }
        if let Some(expression) = expression::read(node, 1, found) {
            of_type.insert((*name).to_owned(), expression);
        }
    }
    let declared: Vec<&str> = entries.iter().map(|(name, _)| *name).collect();
    for (name, expression) in &of_type {
        check_references(&format!("{}.{}", node.path, shown(name)), expression, &declared, found);
    }
    check_anchor(node, &of_type, &declared, found);
    Some(of_type)
}

/// A relation that could not be parsed counts as declared, so that one mistake is not reported twice.
fn check_references(path: &str, expression: &Expression, declared: &[&str], found: &mut Findings) {
    match expression {
        Expression::This => {}
        Expression::Computed(relation) => {
            check_declared(&format!("{path}.computedUserset"), relation, declared, found);
        }
        Expression::TupleTo { tupleset, .. } => {
            check_declared(&format!("{path}.tupleToUserset.tupleset"), tupleset, declared, found);
        }
        Expression::Union(children) => {
            for (index, child) in children.iter().enumerate() {
                check_references(&format!("{path}.union[{index}]"), child, declared, found);
            }
        }
    }
}

fn check_declared(path: &str, relation: &str, declared: &[&str], found: &mut Findings) {
    if !declared.contains(&relation) {
        found.refuse::<()>(path, "relation", format!("\"{relation}\" does not exist on this type"));
    }
}

fn check_anchor(
    node: &Node<'_>,
    of_type: &BTreeMap<String, Expression>,
    declared: &[&str],
    found: &mut Findings,
) {
    let unreadable = declared.contains(&ANCHOR) && !of_type.contains_key(ANCHOR);
    if !unreadable && of_type.get(ANCHOR) != Some(&Expression::This) {
        found.refuse::<()>(&format!("{}.{ANCHOR}", node.path), "anchor", "{\"this\": true}");
    }
}

const NAME_RULE: &str = "a letter, then letters, digits, _ or -, at most 64 characters";

/// Names occur in tuples (`type:id#relation`), so they must not hold a tuple's separators.
fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic());
    first
        && text.len() <= MAX_NAME
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}
