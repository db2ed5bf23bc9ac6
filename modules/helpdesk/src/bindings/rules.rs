//! What a binding is and what its body may hold.

use contract::fields::{Fields, FromBody};
use contract::id::CompanyId;
use contract::principal::{Named, PrincipalKind};
use contract::{Principal, Timestamp};
use serde::Serialize;

use crate::tickets::names::Names;

contract::typed_id!(
    /// A binding of one company.
    BindingId
);

/// Most bindings of one list.
pub const MAX_BINDINGS: usize = 1_000;

contract::words! {
    /// What a binding makes of its subject: the relation on the company's module.
    pub enum BoundTier {
        /// Administers it.
        Admin = "admin",
        /// Works on tickets.
        Editor = "editor",
    }
}

/// A binding as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBinding {
    /// Minted when it was made.
    pub id: BindingId,
    /// Whose it is.
    pub company: CompanyId,
    /// Who is bound.
    pub principal: Principal,
    /// Of a member: the subject that it was linked to when it was bound.
    pub kc_sub: Option<String>,
    /// Name or title when it was bound.
    pub label: Option<String>,
    /// To what.
    pub tier: BoundTier,
    /// The subject that bound it.
    pub granted_by: String,
    /// When.
    pub created_at: Timestamp,
}

/// A binding as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Binding {
    id: BindingId,
    company_id: CompanyId,
    #[expect(clippy::struct_field_names, reason = "its name in the module contract")]
    binding_kind: PrincipalKind,
    #[serde(flatten)]
    principal: Principal,
    position_title: Option<String>,
    group_title: Option<String>,
    tier: BoundTier,
    granted_by: String,
    created_at: Timestamp,
}

impl StoredBinding {
    /// The subject of its audit rows.
    #[must_use]
    pub fn subject(&self) -> String {
        format!("binding:{}", self.id)
    }

    /// The binding with titles as they are now, or as they were where org cannot answer.
    #[must_use]
    pub fn shown(self, names: &Names) -> Binding {
        let label = names.of(self.principal).or(self.label);
        Binding {
            id: self.id,
            company_id: self.company,
            binding_kind: self.principal.kind(),
            principal: self.principal,
            position_title: self.principal.position().and_then(|_| label.clone()),
            group_title: self.principal.group().and_then(|_| label.clone()),
            tier: self.tier,
            granted_by: self.granted_by,
            created_at: self.created_at,
        }
    }
}

/// The body of create; that it names one principal is a rule of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingBody {
    /// Who is to be bound.
    pub named: Named,
    /// To what; administrator where the body does not say.
    pub tier: BoundTier,
}

impl FromBody for BindingBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let named = Named::read(fields);
        let tier = fields.optional_word("tier", BoundTier::WORDS);
        Some(Self { named: named?, tier: tier?.unwrap_or(BoundTier::Admin) })
    }
}
