//! The data of a record. Pure.

use contract::Subject;
use contract::fields::{Fields, FromBody, Text};
use serde::Serialize;

use crate::provider::Account;

/// Longest display value, in characters: room for a first and a last name of 255 each.
const MAX_DISPLAY: usize = 1_000;

/// Members of a profile that audit rows contain only as digests.
pub(crate) const NAMES: [&str; 3] = ["email", "displayName", "preferredUsername"];

/// A person's account or a service client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    User,
    Service,
}

impl Kind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Service => "service",
        }
    }
}

/// Display data. A token that omits a value leaves it unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Profile {
    pub(crate) email: Option<String>,
    pub(crate) display_name: Option<String>,
    pub(crate) preferred_username: Option<String>,
}

impl Profile {
    /// This profile with the values of `newer`.
    pub(crate) fn updated_by(self, newer: &Self) -> Self {
        Self {
            email: newer.email.clone().or(self.email),
            display_name: newer.display_name.clone().or(self.display_name),
            preferred_username: newer.preferred_username.clone().or(self.preferred_username),
        }
    }
}

/// A subject with the data of its first request.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewUser {
    #[serde(rename = "kcSub")]
    pub(crate) subject: Subject,
    pub(crate) kind: Kind,
    #[serde(flatten)]
    pub(crate) profile: Profile,
}

impl NewUser {
    /// Converts an account of the provider; `None` if its id is not a valid subject.
    pub(crate) fn of_account(account: &Account) -> Option<Self> {
        let profile = Profile {
            email: fitting(account.email.clone()),
            display_name: fitting(account.display_name()),
            preferred_username: fitting(Some(account.username.clone())),
        };
        let kind = if account.is_service() { Kind::Service } else { Kind::User };
        Some(Self { subject: Subject::parse(&account.id)?, kind, profile })
    }
}

/// Drops display data that would be refused from a token.
fn fitting(text: Option<String>) -> Option<String> {
    not_empty(text).filter(|text| text.chars().count() <= MAX_DISPLAY && !text.contains('\0'))
}

impl FromBody for NewUser {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let subject = fields.subject("kcSub");
        let kind = fields.word("kind", &[("user", Kind::User), ("service", Kind::Service)]);
        // Display data is stored as the token contains it.
        let display = Text::prose(0, MAX_DISPLAY);
        let email = fields.optional_text("email", display);
        let display_name = fields.optional_text("displayName", display);
        let preferred_username = fields.optional_text("preferredUsername", display);
        let profile = Profile {
            email: not_empty(email?),
            display_name: not_empty(display_name?),
            preferred_username: not_empty(preferred_username?),
        };
        Some(Self { subject: subject?, kind: kind?, profile })
    }
}

fn not_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// An account's state at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AccountState {
    Enabled,
    Disabled,
    Gone,
}

impl AccountState {
    /// The state of the account that the provider returned for an id.
    pub(crate) fn of(account: Option<&Account>) -> Self {
        match account {
            Some(account) if account.enabled => Self::Enabled,
            Some(_) => Self::Disabled,
            None => Self::Gone,
        }
    }

    /// The state in a record's two columns.
    pub(crate) const fn stored(is_enabled: bool, is_gone: bool) -> Self {
        match (is_enabled, is_gone) {
            (true, _) => Self::Enabled,
            (false, false) => Self::Disabled,
            (false, true) => Self::Gone,
        }
    }

    pub(crate) fn is_enabled(self) -> bool {
        self == Self::Enabled
    }

    pub(crate) fn is_gone(self) -> bool {
        self == Self::Gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_leaves_something_out_takes_nothing_away() {
        let known = Profile {
            email: Some("a@b".to_owned()),
            display_name: Some("A".to_owned()),
            preferred_username: None,
        };
        let newer = Profile { display_name: Some("B".to_owned()), ..Profile::default() };
        let after = known.clone().updated_by(&newer);
        assert_eq!(after.email, known.email);
        assert_eq!(after.display_name.as_deref(), Some("B"));
    }
}
