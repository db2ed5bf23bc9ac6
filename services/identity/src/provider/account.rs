//! An account and a deletion, as the provider represents them.

use serde::Deserialize;

/// Prefix of the login names of service accounts.
pub(crate) const SERVICE_PREFIX: &str = "service-account-";

/// An account of the provider. A response without `id` or `enabled` is an error.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    /// The subject of its tokens.
    pub id: String,
    /// Whether it may log in.
    pub enabled: bool,
    /// Its login name.
    #[serde(default)]
    pub username: String,
    /// Display data.
    pub email: Option<String>,
    /// Display data.
    pub first_name: Option<String>,
    /// Display data.
    pub last_name: Option<String>,
    /// When it was created, in milliseconds since 1970 by the provider's clock.
    pub created_timestamp: Option<i64>,
    /// Whether an operator created it. Only the built-in provider says so: it has no self-registration.
    #[serde(default)]
    pub made_by_operator: bool,
}

impl Account {
    /// First and last name in one line, if there is any.
    #[must_use]
    pub fn display_name(&self) -> Option<String> {
        let names = [self.first_name.as_deref(), self.last_name.as_deref()];
        let names: Vec<&str> =
            names.into_iter().flatten().map(str::trim).filter(|name| !name.is_empty()).collect();
        (!names.is_empty()).then(|| names.join(" "))
    }

    /// Whether the account existed at `unix_millis`, or only an operator can have created it.
    #[must_use]
    pub fn existed_at(&self, unix_millis: i64) -> bool {
        self.made_by_operator || self.created_timestamp.is_some_and(|made| made <= unix_millis)
    }

    /// Whether it is a service account.
    #[must_use]
    pub fn is_service(&self) -> bool {
        self.username.starts_with(SERVICE_PREFIX)
    }
}

/// One admin event of type `DELETE` on a user.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Deletion {
    resource_path: Option<String>,
}

impl Deletion {
    /// The deleted account's id: `users/<id>`.
    pub(super) fn account_id(&self) -> Option<&str> {
        let id = self.resource_path.as_deref()?.strip_prefix("users/")?;
        (!id.is_empty() && !id.contains('/')).then_some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_names_an_account_or_nothing() {
        let deletion = |path: &str| Deletion { resource_path: Some(path.to_owned()) };
        assert_eq!(deletion("users/42").account_id(), Some("42"));
        for other in ["users/", "users/42/role-mappings/realm", "groups/42", ""] {
            assert_eq!(deletion(other).account_id(), None, "{other}");
        }
    }
}
