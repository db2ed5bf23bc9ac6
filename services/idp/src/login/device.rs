//! The cookie of a device that has signed in before. It grants nothing: it only keeps strangers' failures from delaying
//! the owner's logins on this device ([`guard`](super::guard)). It is signed, names one account, and outlives logouts
//! and restarts.

use http::HeaderMap;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::cookies;
use crate::keys::rules::{KeyError, KeyRing, Purpose};

/// Name of the cookie.
pub(crate) const COOKIE: &str = "PLATFORM_DEVICE";
/// How long a device is remembered after its last login.
pub(crate) const KNOWN_SECONDS: i64 = 180 * 24 * 60 * 60;

/// A device on which an account has signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Device {
    id: Uuid,
    account: Uuid,
    login_at: i64,
}

impl Device {
    /// The device's id, if its cookie is from an earlier login to this account.
    pub(crate) fn of(keys: &KeyRing, headers: &HeaderMap, account: Uuid, now: i64) -> Option<Uuid> {
        let device: Self = keys.open(Purpose::Device, cookies::sealed(headers, COOKIE)?)?;
        let known = device.account == account && now.saturating_sub(device.login_at) < KNOWN_SECONDS;
        known.then_some(device.id)
    }

    /// The cookie's value after a login, with the id of a known device or a new one.
    pub(crate) fn cookie(
        keys: &KeyRing,
        headers: &HeaderMap,
        account: Uuid,
        now: i64,
    ) -> Result<String, KeyError> {
        let id = Self::of(keys, headers, account, now).unwrap_or_else(Uuid::new_v4);
        keys.seal(Purpose::Device, &serde_json::to_value(Self { id, account, login_at: now })?)
    }
}

#[cfg(test)]
mod tests {
    use http::header::{COOKIE as HEADER, HeaderValue};

    use super::*;
    use crate::keys::rules::tests::ring_of_one;

    fn sent(value: &str) -> HeaderMap {
        let line = HeaderValue::try_from(format!("{COOKIE}={value}")).expect("ascii");
        HeaderMap::from_iter([(HEADER, line)])
    }

    #[test]
    fn a_device_is_known_to_its_own_account_for_a_time() {
        let (keys, alice, bob) = (ring_of_one(), Uuid::from_u128(1), Uuid::from_u128(2));
        let first = sent(&Device::cookie(&keys, &HeaderMap::new(), alice, 0).expect("sealed"));
        let id = Device::of(&keys, &first, alice, KNOWN_SECONDS - 1).expect("known");
        assert_eq!(Device::of(&keys, &first, alice, KNOWN_SECONDS), None, "too long ago");
        assert_eq!(Device::of(&keys, &first, bob, 0), None, "another account");
        let renewed = sent(&Device::cookie(&keys, &first, alice, 5).expect("sealed"));
        assert_eq!(Device::of(&keys, &renewed, alice, KNOWN_SECONDS), Some(id), "the same device");
    }

    #[test]
    fn only_this_provider_makes_devices() {
        let (keys, alice) = (ring_of_one(), Uuid::from_u128(1));
        let device = Device { id: alice, account: alice, login_at: 0 };
        let claims = serde_json::to_value(device).expect("JSON");
        for token in [
            keys.seal(Purpose::LogoutCode, &claims).expect("sealed"),
            keys.sign(&claims).expect("signed"),
            "a.b.c".to_owned(),
            String::new(),
        ] {
            assert_eq!(Device::of(&keys, &sent(&token), alice, 0), None, "{token}");
        }
    }
}
