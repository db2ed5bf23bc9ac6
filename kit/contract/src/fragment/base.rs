//! The platform's own types, which no fragment may redeclare, and their relations. Fragments reach them through their
//! anchor; authz evaluates them like any other type.

use std::collections::BTreeMap;

use super::Expression::{self, This};
use super::Relations;

/// Every base type (module contract, "Authorization fragment").
pub const BASE_TYPES: [&str; 17] = [
    "user",
    "system",
    "module",
    "company",
    "company_module",
    "module_role_binding",
    "access_bundle",
    "access_segment",
    "member_directory",
    "member",
    "project_directory",
    "project",
    "timesheet_entry",
    "submission",
    "position",
    "group",
    "document",
];

/// Whether `name` is one of the platform's own types.
#[must_use]
pub fn is_base_type(name: &str) -> bool {
    BASE_TYPES.contains(&name)
}

/// Every base type with its relations; a type that is only a subject or reserved has none.
#[must_use]
pub fn base_model() -> Relations {
    let mut model: Relations = BASE_TYPES.iter().map(|name| ((*name).to_owned(), BTreeMap::new())).collect();
    model.insert("company_module".to_owned(), company_module());
    model.insert("company".to_owned(), direct(&["member", "admin"]));
    model.insert("system".to_owned(), direct(&["superadmin"]));
    model.insert("position".to_owned(), direct(&["holder"]));
    model.insert("group".to_owned(), direct(&["member"]));
    model
}

/// One module in one company. Its tiers are monotonic (admin ⊆ editor ⊆ member), and every active member of the company
/// is a member of an enabled module without an explicit grant.
fn company_module() -> BTreeMap<String, Expression> {
    let mut relations = direct(&["company", "system"]);
    relations.insert("admin".to_owned(), union([This, follow("system", "superadmin")]));
    relations.insert("editor".to_owned(), union([This, computed("admin")]));
    relations.insert("approver".to_owned(), union([This, computed("admin")]));
    relations.insert("member".to_owned(), union([This, follow("company", "member"), computed("editor")]));
    relations.insert("viewer".to_owned(), union([This, computed("editor"), computed("approver")]));
    relations.insert("submitter".to_owned(), union([This, computed("member")]));
    relations
}

fn direct(relations: &[&str]) -> BTreeMap<String, Expression> {
    relations.iter().map(|name| ((*name).to_owned(), This)).collect()
}

fn union<const N: usize>(children: [Expression; N]) -> Expression {
    Expression::Union(children.into())
}

fn computed(relation: &str) -> Expression {
    Expression::Computed(relation.to_owned())
}

fn follow(tupleset: &str, relation: &str) -> Expression {
    Expression::TupleTo { tupleset: tupleset.to_owned(), computed: relation.to_owned() }
}
