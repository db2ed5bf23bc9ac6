//! The lifecycle's transitions: `active ⇄ suspended`, `active | suspended → closed`. Pure.

use contract::fields::{Fields, FromBody, Text};
use serde::Serialize;
use serde_json::json;
use service::ApiError;

/// 409: the transition is not allowed.
const TRANSITION_INVALID: &str = "LIFECYCLE_TRANSITION_INVALID";
/// Longest reason, in characters.
const MAX_REASON: usize = 500;
/// Longest name of an operator's account, in characters.
const MAX_OPERATOR: usize = 200;

/// A subject's lifecycle state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Lifecycle {
    Active,
    Suspended,
    Closed,
}

impl Lifecycle {
    const WORDS: [(&'static str, Self); 3] =
        [("active", Self::Active), ("suspended", Self::Suspended), ("closed", Self::Closed)];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Closed => "closed",
        }
    }

    /// Parses the state in a row; the column's check constraint allows the same three words.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, state)| *state)
    }

    /// Checks that a subject may move from this state to `to`.
    ///
    /// # Errors
    /// 409 for any other transition, including to the same state.
    pub(crate) fn move_to(self, to: Self) -> Result<(), ApiError> {
        match (self, to) {
            (Self::Active, Self::Suspended | Self::Closed)
            | (Self::Suspended, Self::Active | Self::Closed) => Ok(()),
            (Self::Active, Self::Active) | (Self::Suspended, Self::Suspended) | (Self::Closed, _) => {
                Err(ApiError::Conflict {
                    code: TRANSITION_INVALID,
                    message: format!("a subject that is {} cannot become {}", self.as_str(), to.as_str())
                        .into(),
                    details: json!({ "from": self, "to": to }),
                })
            }
        }
    }
}

/// Body of the change.
#[derive(Debug)]
pub(crate) struct LifecycleChange {
    pub(crate) state: Lifecycle,
    pub(crate) reason: String,
    /// The operator's account name, for the audit row.
    pub(crate) operator: Option<String>,
}

impl FromBody for LifecycleChange {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let state = fields.word("state", &Lifecycle::WORDS);
        let reason = fields.text("reason", Text::line(MAX_REASON));
        let operator = fields.optional_text("operator", Text::line(MAX_OPERATOR));
        Some(Self { state: state?, reason: reason?, operator: operator? })
    }
}

impl LifecycleChange {
    /// The actor of the audit row.
    pub(crate) fn actor(&self) -> String {
        self.operator.as_ref().map_or_else(|| "operator".to_owned(), |name| format!("operator:{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_moves_and_no_other() {
        let states = [Lifecycle::Active, Lifecycle::Suspended, Lifecycle::Closed];
        let allowed: Vec<(&str, &str)> = states
            .iter()
            .flat_map(|from| states.iter().map(move |to| (*from, *to)))
            .filter(|(from, to)| from.move_to(*to).is_ok())
            .map(|(from, to)| (from.as_str(), to.as_str()))
            .collect();
        assert_eq!(
            allowed,
            [("active", "suspended"), ("active", "closed"), ("suspended", "active"), ("suspended", "closed")]
        );
    }
}
