//! Bindings: their fields and request body.

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

/// Most bindings of a company, so that its list and the check of its administrators see all of them.
pub const MAX_BINDINGS: usize = 1_000;

contract::words! {
    /// The relation that a binding gives on the company's module.
    pub enum BoundTier {
        /// Administers the module.
        Admin = "admin",
        /// Works on tickets.
        Editor = "editor",
    }
}

/// A binding as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBinding {
    /// Minted at creation.
    pub id: BindingId,
    /// The company that it belongs to.
    pub company: CompanyId,
    /// The bound principal.
    pub principal: Principal,
    /// The subject that the member was linked to when it was bound; only for a member.
    pub kc_sub: Option<String>,
    /// The principal's name or title when it was bound.
    pub label: Option<String>,
    /// The tier.
    pub tier: BoundTier,
    /// The subject that bound it.
    pub granted_by: String,
    /// When it was bound.
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
    /// The subject of the binding's audit rows.
    #[must_use]
    pub fn subject(&self) -> String {
        format!("binding:{}", self.id)
    }

    /// Renders the binding with current titles, or with the stored ones where org cannot answer.
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

/// The body of a request to create a binding; that it names exactly one principal is checked separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindingBody {
    /// The principal to bind.
    pub named: Named,
    /// The tier; `admin` by default.
    pub tier: BoundTier,
}

impl FromBody for BindingBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let named = Named::read(fields);
        let tier = fields.optional_word("tier", BoundTier::WORDS);
        Some(Self { named: named?, tier: tier?.unwrap_or(BoundTier::Admin) })
    }
}
