//! Request and response bodies of the operators' routes. Pure.

use contract::fields::{Fields, FromBody, Text};
use contract::id::CompanyId;
use serde::Serialize;

/// Longest name of an operator's account, in characters; the same limit as in identity.
const MAX_OPERATOR: usize = 200;

/// The operator's account name, for the audit row.
#[derive(Clone, Debug)]
pub(super) struct Operator(String);

impl Operator {
    fn of(fields: &mut Fields<'_>) -> Option<Self> {
        fields.text("operator", Text::line(MAX_OPERATOR)).map(Self)
    }

    /// The actor of the audit row.
    pub(super) fn actor(&self) -> String {
        format!("operator:{}", self.0)
    }
}

/// The request body of `set_admin`.
#[derive(Clone, Debug)]
pub(super) struct AdminChange {
    pub(super) is_admin: bool,
    pub(super) operator: Operator,
}

impl FromBody for AdminChange {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let (is_admin, operator) = (flag(fields, "isAdmin"), Operator::of(fields));
        Some(Self { is_admin: is_admin?, operator: operator? })
    }
}

/// The request body of `set_activity`.
#[derive(Clone, Debug)]
pub(super) struct ActivityChange {
    pub(super) is_active: bool,
    pub(super) operator: Operator,
}

impl FromBody for ActivityChange {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let (is_active, operator) = (flag(fields, "isActive"), Operator::of(fields));
        Some(Self { is_active: is_active?, operator: operator? })
    }
}

fn flag(fields: &mut Fields<'_>, name: &str) -> Option<bool> {
    let value = fields.optional_bool(name)?;
    fields.required(name, value)
}

/// The response of `set_admin`: whether the subject is an administrator of the company.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CompanyAdmin {
    pub(super) company_id: CompanyId,
    pub(super) kc_sub: String,
    pub(super) is_admin: bool,
    /// False if the subject already had this state.
    pub(super) changed: bool,
}
