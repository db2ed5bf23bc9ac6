//! Implements `TupleRow` for bindings and `NewRow` for bindings to create.

use contract::Subject;
use contract::decision::ObjectRef;
use contract::grants::Tuple;
use contract::id::CompanyId;
use contract::{Clock, Principal};
use serde_json::{Value, json};
use service::clients::org::FoundPrincipal;
use service::refusal::{broken, conflict};
use service::two_store::{NewRow, TupleRow};
use service::{ApiError, AuditEvent, AuditedTx};
use sqlx::PgConnection;
use uuid::Uuid;

use super::rules::{Binding, BindingId, BoundTier, MAX_BINDINGS, StoredBinding};
use super::store;
use crate::KEY;
use crate::tickets::names::Names;

/// How often an insertion starts over because of a row that it conflicted with.
const MAX_LOOKS: usize = 3;

/// A stored binding, as `service::two_store` handles it.
#[derive(Clone, Debug)]
pub struct BindingRow {
    pub(super) stored: StoredBinding,
    /// The subject that the tuple names; only for a member.
    subject: Option<Subject>,
}

impl BindingRow {
    pub(super) fn of(stored: StoredBinding) -> Result<Self, ApiError> {
        let subject = match (&stored.kc_sub, stored.principal) {
            (Some(kc_sub), Principal::Member(_)) => {
                let subject = Subject::parse(kc_sub);
                Some(subject.ok_or_else(|| ApiError::internal("a binding's subject is malformed"))?)
            }
            (None, Principal::Position(_) | Principal::Group(_)) => None,
            (None, Principal::Member(_)) | (Some(_), Principal::Position(_) | Principal::Group(_)) => {
                return Err(ApiError::internal("only a member's binding has a subject"));
            }
        };
        Ok(Self { stored, subject })
    }

    pub(super) fn is_admin(&self) -> bool {
        self.stored.tier == BoundTier::Admin
    }

    pub(super) async fn note_unbound(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        match &self.subject {
            Some(login) => store::note_unbound(tx, self.stored.company, login.as_str()).await,
            None => Ok(()),
        }
    }

    pub(super) fn event(&self, action: &'static str) -> AuditEvent {
        AuditEvent {
            company: Some(self.stored.company),
            action,
            subject: self.stored.subject(),
            payload: self.told(),
        }
    }

    fn told(&self) -> Value {
        json!({ "bindingKind": self.stored.principal.kind(), "subject": self.stored.principal,
            "tier": self.stored.tier })
    }
}

impl TupleRow for BindingRow {
    const TABLE: &'static str = "helpdesk.bindings";
    const NOUN: &'static str = "binding";
    const PENDING_MAY_BE_REMOVED: bool = true;
    type Shown = Binding;

    async fn find(conn: &mut PgConnection, company: CompanyId, id: Uuid) -> Result<Option<Self>, ApiError> {
        store::find(conn, company, id).await?.map(Self::of).transpose()
    }

    fn tuples(&self) -> Vec<Tuple> {
        let module = ObjectRef::company_module(self.stored.company, KEY);
        let relation = self.stored.tier.word();
        let tuple = match (self.stored.principal, &self.subject) {
            (Principal::Position(id), _) => Tuple::position(module, relation, id),
            (Principal::Group(id), _) => Tuple::group(module, relation, id),
            (Principal::Member(_), Some(subject)) => Tuple::user(module, relation, subject),
            // `of` never builds such a row.
            (Principal::Member(_), None) => return Vec::new(),
        };
        vec![tuple]
    }

    /// Shows the title that was stored at binding, which org has just reported.
    fn shown(&self) -> Binding {
        self.stored.clone().shown(&Names::default())
    }

    async fn granted(&self, tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        if self.is_admin() {
            store::count_up(tx, self.stored.company).await?;
        }
        Ok(self.event("binding.created"))
    }

    async fn not_granted(&self, _tx: &mut AuditedTx) -> Result<Option<AuditEvent>, ApiError> {
        Ok(Some(self.event("binding.create_failed")))
    }

    async fn revoking(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        if self.is_admin() { store::count_down(tx, self.stored.company).await } else { Ok(()) }
    }

    async fn revoked(&self, tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        self.note_unbound(tx).await?;
        Ok(self.event("binding.deleted"))
    }

    async fn not_revoked(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        if self.is_admin() { store::count_up(tx, self.stored.company).await } else { Ok(()) }
    }
}

/// A binding to create.
pub(super) struct NewBinding(StoredBinding);

impl NewBinding {
    pub(super) fn of(
        company: CompanyId,
        found: &FoundPrincipal,
        tier: BoundTier,
        by: &Subject,
        clock: &Clock,
    ) -> Self {
        let kc_sub = found.kc_sub.as_ref().filter(|_| found.principal.member().is_some());
        Self(StoredBinding {
            id: BindingId::mint(),
            company,
            principal: found.principal,
            kc_sub: kc_sub.map(ToString::to_string),
            label: Some(found.title.clone()),
            tier,
            granted_by: by.as_str().to_owned(),
            created_at: clock.now().into(),
        })
    }
}

impl NewRow for NewBinding {
    type Row = BindingRow;

    async fn insert(&self, tx: &mut AuditedTx) -> Result<Uuid, ApiError> {
        let made = &self.0;
        store::lock(tx, made.company).await?;
        for _ in 0..MAX_LOOKS {
            match store::of(tx.conn(), made.company, made.principal, made.tier).await? {
                Some((id, state)) if state == Self::PENDING => return Ok(id),
                Some(_) => return Err(exists(made)),
                None => {}
            }
            if store::count(tx, made.company).await? >= MAX_BINDINGS {
                return Err(too_many());
            }
            if store::insert(tx, made).await? {
                return Ok(made.id.as_uuid());
            }
            // The conflicting row, of the same login, may be gone by now.
        }
        Err(ApiError::unavailable("postgres"))
    }
}

impl NewBinding {
    const PENDING: &'static str = <BindingRow as TupleRow>::STATES.pending;
}

fn too_many() -> ApiError {
    broken("TOO_MANY_BINDINGS", "at most 1000 bindings", Value::Null)
}

fn exists(made: &StoredBinding) -> ApiError {
    let details = json!({ "bindingKind": made.principal.kind(), "tier": made.tier });
    conflict("BINDING_EXISTS", "already bound to this tier", details)
}
