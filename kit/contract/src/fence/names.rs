//! The names inside one module's fence: its schema (which includes the version table) and its audit table.

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

use super::{Refusal, Rule};

/// The schema of PostgreSQL's own types, functions and collations.
pub(super) const BUILT_IN: &str = "pg_catalog";
/// The schema of the audit tables.
const AUDIT: &str = "audit";

/// The fence of one module.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    /// The module key, which is the schema's name.
    pub(super) key: String,
}

/// The part of the fence that holds a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    /// In the module's schema.
    Schema,
    /// The audit table.
    Audit,
}

impl Fence {
    pub(super) fn new(key: &str) -> Self {
        Self { key: key.to_owned() }
    }

    /// The module's role.
    pub(super) fn role(&self) -> String {
        format!("platform_{}", self.key)
    }

    /// Locates a relation, sequence or type by its name.
    pub(super) fn place(&self, name: &ObjectName) -> Result<Inside, Refusal> {
        let parts = parts(name).ok_or_else(|| outside(name))?;
        self.place_of(&parts)
    }

    /// Locates a name given in parts.
    pub(super) fn place_of(&self, parts: &[String]) -> Result<Inside, Refusal> {
        match parts {
            [name] => {
                let message =
                    format!("{name} has no schema: write {}.{name}; no search path applies", self.key);
                Err((Rule::Unqualified, message))
            }
            [schema, _] if *schema == self.key => Ok(Inside::Schema),
            [schema, table] if schema == AUDIT && *table == format!("{}__events", self.key) => {
                Ok(Inside::Audit)
            }
            _ => Err(outside(parts.join("."))),
        }
    }

    /// Requires a name to be in the schema; the audit table may only be appended to.
    pub(super) fn own(&self, name: &ObjectName) -> Result<(), Refusal> {
        match self.place(name)? {
            Inside::Schema => Ok(()),
            Inside::Audit => Err(append_only(name)),
        }
    }
}

/// Refuses a statement that would change the audit table or its rows.
pub(super) fn append_only(name: &ObjectName) -> Refusal {
    (Rule::AuditAppendOnly, format!("{name} is append-only: rows and columns are added, nothing else"))
}

fn outside(name: impl std::fmt::Display) -> Refusal {
    (Rule::OutsideFence, format!("{name} is outside the module's schema and its audit table"))
}

/// The parts of a name as PostgreSQL folds them; `None` when one of them is not an identifier.
pub(super) fn parts(name: &ObjectName) -> Option<Vec<String>> {
    name.0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => Some(fold(ident)),
            ObjectNamePart::Function(_) => None,
        })
        .collect()
}

/// An identifier as PostgreSQL stores it: lower case unless quoted. Non-ASCII letters keep their case, so none of them
/// can fold into a name of the fence.
pub(super) fn fold(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

/// The name of something built in: unqualified, or in `pg_catalog`.
pub(super) fn built_in(name: &ObjectName) -> Option<String> {
    match parts(name)?.as_slice() {
        [name] => Some(name.clone()),
        [schema, name] if schema == BUILT_IN => Some(name.clone()),
        _ => None,
    }
}
