//! The scopes of a token. Pure. `profile` and `email` are always granted, like Keycloak's default scopes.

use serde::{Deserialize, Serialize};

/// Scopes that may be requested; those other than `openid` change nothing.
pub(crate) const KNOWN: [&str; 7] = ["openid", "email", "profile", "roles", "web-origins", "acr", "basic"];

/// Whether an ID token was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Scope {
    pub(crate) openid: bool,
}

impl Scope {
    /// Parses requested scopes; `None` if one is unknown.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut asked = text.split(' ').filter(|word| !word.is_empty());
        let known = asked.clone().all(|word| KNOWN.contains(&word));
        known.then(|| Self { openid: asked.any(|word| word == "openid") })
    }

    /// `scope` of the token and of the response.
    pub(crate) const fn as_str(self) -> &'static str {
        if self.openid { "openid email profile" } else { "email profile" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_scopes_are_taken_and_unknown_ones_refused() {
        assert_eq!(Scope::parse("openid").map(Scope::as_str), Some("openid email profile"));
        assert_eq!(Scope::parse("profile  openid").map(Scope::as_str), Some("openid email profile"));
        assert_eq!(Scope::parse("").map(Scope::as_str), Some("email profile"));
        for unknown in ["offline_access", "openid x", "OpenID", "openid\tprofile"] {
            assert_eq!(Scope::parse(unknown), None, "{unknown}");
        }
        for given in ["openid email profile", "email profile"] {
            assert_eq!(Scope::parse(given).map(Scope::as_str), Some(given), "it reads what it writes");
        }
    }
}
