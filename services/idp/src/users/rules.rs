//! Users and their names. Pure.

use time::OffsetDateTime;
use uuid::Uuid;

/// Longest username, in bytes.
const MAX_USERNAME_BYTES: usize = 64;

/// A person's account, or a client's service account.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts of an account that do not depend on each other")]
pub(crate) struct User {
    /// `sub`.
    pub(crate) id: Uuid,
    pub(crate) username: String,
    pub(crate) enabled: bool,
    pub(crate) email: Option<String>,
    pub(crate) first_name: Option<String>,
    pub(crate) last_name: Option<String>,
    /// The client whose service account it is.
    pub(crate) service_client: Option<String>,
    pub(crate) created_at: OffsetDateTime,
    /// Whether an operator set the current password.
    pub(crate) must_change_password: bool,
    /// Whether one-time codes are set up.
    pub(crate) has_totp: bool,
    pub(crate) has_passkey: bool,
}

impl User {
    /// First and last name, if there is any.
    pub(crate) fn full_name(&self) -> Option<String> {
        let parts: Vec<&str> =
            [&self.first_name, &self.last_name].into_iter().flatten().map(String::as_str).collect();
        (!parts.is_empty()).then(|| parts.join(" "))
    }
}

/// A generated name and e-mail address for a development user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) first_name: String,
    pub(crate) last_name: Option<String>,
    pub(crate) email: String,
}

impl Profile {
    /// `mary.ann-lee` becomes Mary Ann Lee.
    pub(crate) fn of(username: &str) -> Self {
        let mut words = username.split(['.', '-', '_']).filter(|word| !word.is_empty()).map(capitalised);
        let first_name = words.next().unwrap_or_else(|| username.to_owned());
        let rest = words.collect::<Vec<_>>().join(" ");
        Self {
            first_name,
            last_name: (!rest.is_empty()).then_some(rest),
            email: format!("{username}@example.test"),
        }
    }
}

/// Whether the text is a valid username: lower-case letters, digits, `.`, `_` and `-`, starting with a letter or digit,
/// and not like a service account's.
pub(crate) fn is_username(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    (1..=MAX_USERNAME_BYTES).contains(&text.len())
        && text.bytes().all(plain)
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && !text.starts_with("service-account-")
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_made_up_from_the_name() {
        let alice = Profile::of("alice");
        assert_eq!(alice.first_name, "Alice");
        assert_eq!(alice.last_name, None);
        assert_eq!(alice.email, "alice@example.test");
        let mary = Profile::of("mary.ann-lee");
        assert_eq!((mary.first_name.as_str(), mary.last_name.as_deref()), ("Mary", Some("Ann Lee")));
    }

    #[test]
    fn usernames_are_plain_and_no_service_accounts() {
        for good in ["a", "alice", "mary.ann", "u-1_2", "0"] {
            assert!(is_username(good), "{good}");
        }
        let long = "a".repeat(65);
        for bad in ["", "Alice", "a b", ".a", "-a", "a@b", "ä", "service-account-x", long.as_str()] {
            assert!(!is_username(bad), "{bad}");
        }
    }
}
