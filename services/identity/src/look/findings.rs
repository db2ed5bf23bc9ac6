//! The account states that a look found, and the changes among them. Pure.

use std::collections::BTreeMap;

use crate::provision::rules::AccountState;

/// A subject as recorded here.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) subject: String,
    pub(super) is_service: bool,
    pub(super) state: AccountState,
}

/// The states that a look found, by subject.
#[derive(Debug, Default)]
pub(super) struct Findings(BTreeMap<String, AccountState>);

impl Findings {
    /// Notes a state; a later note replaces an earlier one of the same subject.
    pub(super) fn note(&mut self, subject: impl Into<String>, state: AccountState) {
        self.0.insert(subject.into(), state);
    }

    /// Whether the look found a state of this subject.
    pub(super) fn has(&self, subject: &str) -> bool {
        self.0.contains_key(subject)
    }

    /// Returns three columns for SQL: subjects, whether enabled, whether gone.
    pub(super) fn columns(&self) -> (Vec<String>, Vec<bool>, Vec<bool>) {
        let subjects = self.0.keys().cloned().collect();
        let enabled = self.0.values().map(|state| state.is_enabled()).collect();
        let gone = self.0.values().map(|state| state.is_gone()).collect();
        (subjects, enabled, gone)
    }
}

/// A record whose state changed.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) subject: String,
    pub(super) before: AccountState,
    pub(super) after: AccountState,
}
