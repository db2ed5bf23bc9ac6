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

    /// Splits the states into portions of at most `size`, of which the last may be empty.
    pub(super) fn portions(mut self, size: usize) -> Vec<Self> {
        let mut portions = Vec::with_capacity(self.0.len() / size + 1);
        while let Some(next) = self.0.keys().nth(size).cloned() {
            let rest = self.0.split_off(&next);
            portions.push(std::mem::replace(&mut self, Self(rest)));
        }
        portions.push(self);
        portions
    }

    /// Whether the look found a state of this subject.
    pub(super) fn has(&self, subject: &str) -> bool {
        self.0.contains_key(subject)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.len()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_hold_every_finding_once() {
        for (count, expected) in
            [(0, vec![0]), (1, vec![1]), (3, vec![3]), (4, vec![3, 1]), (7, vec![3, 3, 1])]
        {
            let mut findings = Findings::default();
            for number in 0..count {
                findings.note(format!("s{number}"), AccountState::Disabled);
            }
            let portions = findings.portions(3);
            let lengths: Vec<usize> = portions.iter().map(Findings::len).collect();
            assert_eq!(lengths, expected);
            let subjects: Vec<String> = portions.iter().flat_map(|portion| portion.columns().0).collect();
            assert_eq!(subjects, (0..count).map(|number| format!("s{number}")).collect::<Vec<_>>());
        }
    }
}
