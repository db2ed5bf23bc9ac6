//! Checks that a posted form comes from the account's own pages: it contains a sealed value that was created recently for
//! this browser's session. The browser must also say that the form came from this origin
//! ([`is_same_origin`](crate::form::is_same_origin)); either would suffice.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::keys::rules::{KeyError, KeyRing, Purpose};

/// How long an account page may stay open before its forms are refused.
const OPEN_SECONDS: i64 = 30 * 60;

#[derive(Serialize, Deserialize)]
struct Proof {
    session: Uuid,
    issued_at: i64,
}

/// Creates the value for the forms of a page that is shown now.
pub(super) fn seal(keys: &KeyRing, session: Uuid, now: i64) -> Result<String, KeyError> {
    keys.seal(Purpose::AccountForm, &serde_json::to_value(Proof { session, issued_at: now })?)
}

/// Whether the value was created for this session and is not too old.
pub(super) fn is_own(keys: &KeyRing, value: &str, session: Uuid, now: i64) -> bool {
    let proof: Option<Proof> = keys.open(Purpose::AccountForm, value);
    proof.is_some_and(|proof| proof.session == session && now.saturating_sub(proof.issued_at) < OPEN_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::rules::tests::ring_of_one;

    #[test]
    fn a_value_is_of_one_session_for_half_an_hour() {
        let (keys, session) = (ring_of_one(), Uuid::from_u128(1));
        let value = seal(&keys, session, 0).expect("sealed");
        assert!(is_own(&keys, &value, session, OPEN_SECONDS - 1));
        assert!(!is_own(&keys, &value, session, OPEN_SECONDS));
        assert!(!is_own(&keys, &value, Uuid::from_u128(2), 0));
        let claims = serde_json::json!({ "session": session, "issued_at": 0 });
        let other = keys.seal(Purpose::LogoutCode, &claims).expect("sealed");
        assert!(!is_own(&keys, &other, session, 0) && !is_own(&keys, "", session, 0));
    }
}
