//! The expression of one relation, and its grammar: direct tuples, another relation of the same object, a relation of
//! the objects that a tuple leads to, or a union of these. There is no intersection, exclusion, wildcard or condition,
//! so a check is plain reachability.

use serde_json::Value;

use crate::manifest::strict::{Findings, MAX_ENTRIES, Members, Node};

/// Deepest nesting of an expression: a plain `{this: true}` is one level.
pub const MAX_NESTING: usize = 16;

const OPERATORS: [&str; 4] = ["this", "computedUserset", "tupleToUserset", "union"];

/// The holders of a relation on an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Expression {
    /// The subjects that a tuple of this relation names.
    This,
    /// The holders of another relation of the same object.
    Computed(String),
    /// The holders of `computed` on every object that a tuple of `tupleset` names.
    TupleTo {
        /// Relation of the same type, whose tuples are followed.
        tupleset: String,
        /// Relation of the objects that they lead to.
        computed: String,
    },
    /// The holders of any child.
    Union(Vec<Self>),
}

/// Parses one expression at nesting level `level` (the relation's own is level 1).
pub(super) fn read(node: &Node<'_>, level: usize, found: &mut Findings) -> Option<Expression> {
    if level > MAX_NESTING {
        return found.refuse(&node.path, "nesting", format!("at most {MAX_NESTING} levels"));
    }
    let members = node.open(found)?;
    let (operator, operand) = only_operator(node, &members, found)?;
    match operator {
        "this" => read_this(&operand, found),
        "computedUserset" => Some(Expression::Computed(operand.text(found)?.to_owned())),
        "tupleToUserset" => read_tuple_to(&operand, found),
        "union" => read_union(&operand, level, found),
        _ => found.refuse(&operand.path, "operator", format!("one of {}", OPERATORS.join(", "))),
    }
}

fn only_operator<'a>(
    node: &Node<'a>,
    members: &Members<'a>,
    found: &mut Findings,
) -> Option<(&'a str, Node<'a>)> {
    let (mut only, mut strange) = (None, false);
    for (name, operand) in members.entries() {
        if !OPERATORS.contains(&name) {
            strange = true;
            found.refuse::<()>(&operand.path, "operator", format!("one of {}", OPERATORS.join(", ")));
        }
        only = Some((name, operand));
    }
    match only {
        _ if strange => None,
        Some(only) if members.len() == 1 => Some(only),
        _ => found.refuse(&node.path, "operator", format!("exactly one of {}", OPERATORS.join(", "))),
    }
}

fn read_this(operand: &Node<'_>, found: &mut Findings) -> Option<Expression> {
    if *operand.value == Value::Bool(true) {
        return Some(Expression::This);
    }
    found.refuse(&operand.path, "this", "true")
}

fn read_tuple_to(operand: &Node<'_>, found: &mut Findings) -> Option<Expression> {
    let members = operand.members(&["tupleset", "computedUserset"], found)?;
    let tupleset = members.text("tupleset", found);
    let computed = members.text("computedUserset", found);
    Some(Expression::TupleTo { tupleset: tupleset?.to_owned(), computed: computed?.to_owned() })
}

fn read_union(operand: &Node<'_>, level: usize, found: &mut Findings) -> Option<Expression> {
    let items = operand.items(MAX_ENTRIES, found)?;
    if items.is_empty() {
        return found.refuse(&operand.path, "union", "at least one expression");
    }
    let children: Vec<Option<Expression>> = items.iter().map(|item| read(item, level + 1, found)).collect();
    children.into_iter().collect::<Option<Vec<_>>>().map(Expression::Union)
}
