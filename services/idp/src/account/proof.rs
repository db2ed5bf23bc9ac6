//! Checks that a posted form comes from the account's own pages: the browser says that the form came from this origin,
//! and the form contains a sealed value that was created recently for this browser's session. Either would suffice;
//! both are required.

use http::HeaderMap;
use http::header::ORIGIN;
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

/// Whether the browser says that the form came from a page of `origin`. A request with neither header is refused: every
/// current browser sends one of them.
pub(super) fn is_same_origin(headers: &HeaderMap, origin: &str) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    match (text("sec-fetch-site"), text(ORIGIN.as_str())) {
        (Some(site), _) if site != "same-origin" => false,
        (_, Some(sent)) => sent == origin,
        (site, None) => site.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

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

    #[test]
    fn a_form_comes_from_the_same_origin_or_is_refused() {
        let origin = "https://localhost:8443";
        for (site, sent, expect) in [
            (Some("same-origin"), Some(origin), true),
            (Some("same-origin"), None, true),
            (None, Some(origin), true),
            (None, None, false),
            (Some("same-site"), Some(origin), false),
            (Some("cross-site"), None, false),
            (Some("none"), None, false),
            (Some("same-origin"), Some("https://evil.test"), false),
            (None, Some("null"), false),
            (None, Some("https://localhost"), false),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [("sec-fetch-site", site), ("origin", sent)] {
                if let Some(value) = value {
                    headers.insert(name, HeaderValue::from_static(value));
                }
            }
            assert_eq!(is_same_origin(&headers, origin), expect, "{site:?} {sent:?}");
        }
    }
}
