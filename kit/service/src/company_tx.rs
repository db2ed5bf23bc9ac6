//! A module's transaction in one company. Only a permit begins one, so a store function that takes it needs no other
//! proof; every statement names [`CompanyTx::company`].

use std::ops::{Deref, DerefMut};

use contract::id::CompanyId;
use serde::Serialize;
use serde_json::Value;

use crate::{ApiError, AuditEvent, AuditedTx, changes};

/// An [`AuditedTx`] whose rows belong to one company.
#[must_use = "a transaction that is not committed is rolled back"]
pub struct CompanyTx {
    tx: AuditedTx,
    company: CompanyId,
}

impl CompanyTx {
    pub(crate) const fn of(tx: AuditedTx, company: CompanyId) -> Self {
        Self { tx, company }
    }

    /// The permit's company.
    #[must_use]
    pub const fn company(&self) -> CompanyId {
        self.company
    }

    /// Writes an audit row, for a transaction that makes more than one change. `subject` is `<type>:<id>`.
    ///
    /// # Errors
    /// The row could not be written; the caller must abandon the transaction.
    pub async fn record(
        &mut self,
        action: &'static str,
        subject: impl Into<String>,
        payload: impl Into<Value>,
    ) -> Result<(), ApiError> {
        let event = self.event(action, subject, payload);
        self.tx.record(&event).await
    }

    /// Writes the audit row and commits.
    ///
    /// # Errors
    /// As [`AuditedTx::commit`].
    pub async fn commit(
        self,
        action: &'static str,
        subject: impl Into<String>,
        payload: impl Into<Value>,
    ) -> Result<(), ApiError> {
        let event = self.event(action, subject, payload);
        self.tx.commit(&event).await
    }

    /// Commits a partial change to a row that this transaction locks: `save` writes the row, and the audit row lists
    /// the changed fields. If nothing changed, nothing is written.
    ///
    /// # Errors
    /// Those of `save`, and those of [`Self::commit`].
    pub async fn commit_change<T: Serialize>(
        mut self,
        before: &T,
        after: &T,
        save: impl AsyncFnOnce(&mut Self) -> Result<(), ApiError>,
        action: &'static str,
        subject: impl Into<String>,
    ) -> Result<(), ApiError> {
        let changed = changes(Some(before), after)?;
        if changed.is_empty() {
            return self.unchanged().await;
        }
        save(&mut self).await?;
        self.commit(action, subject, changed).await
    }

    /// Commits a transaction whose rows were written by [`Self::record`], or that only claims an idempotency key.
    ///
    /// # Errors
    /// As [`AuditedTx::commit`].
    pub async fn commit_recorded(self) -> Result<(), ApiError> {
        self.tx.commit_recorded().await
    }

    /// Ends a transaction that changed nothing: no change, no audit row.
    ///
    /// # Errors
    /// 503 when the database cannot be asked.
    pub async fn unchanged(self) -> Result<(), ApiError> {
        self.tx.unchanged().await
    }

    /// The audit row of a change in this company. `subject` is `<type>:<id>`.
    #[must_use]
    pub fn event(
        &self,
        action: &'static str,
        subject: impl Into<String>,
        payload: impl Into<Value>,
    ) -> AuditEvent {
        AuditEvent { company: Some(self.company), action, subject: subject.into(), payload: payload.into() }
    }

    pub(crate) async fn commit_event(self, event: &AuditEvent) -> Result<(), ApiError> {
        self.tx.commit(event).await
    }
}

impl Deref for CompanyTx {
    type Target = AuditedTx;

    fn deref(&self) -> &AuditedTx {
        &self.tx
    }
}

impl DerefMut for CompanyTx {
    fn deref_mut(&mut self) -> &mut AuditedTx {
        &mut self.tx
    }
}
