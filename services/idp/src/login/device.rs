//! The cookie of a device that has signed in before. It grants nothing: it only keeps strangers' failures from delaying
//! the owner's logins on this device ([`guard`](super::guard)). It is signed, names one account and its password, and
//! outlives logouts and restarts. Another password makes strangers of all devices but the one on which it was chosen: who
//! knew the earlier one may have made as many cookies as they like. For the same reason a device is known at the second
//! step only after a login that showed the second factor.

use axum::response::Response;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::http::set_cookie;
use crate::cookies::{self, Keep};
use crate::keys::rules::{KeyError, KeyRing, Purpose};
use crate::state::App;
use crate::users::passwords::CredentialDigest;

/// Name of the cookie.
const COOKIE: &str = "PLATFORM_DEVICE";
/// How long a device is remembered after its last login.
const KNOWN_SECONDS: i64 = 180 * 24 * 60 * 60;

/// A device on which an account has signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Device {
    pub(crate) id: Uuid,
    account: Account,
    login_at: i64,
    /// Whether a login on it has shown the account's second factor.
    pub(crate) has_second_factor: bool,
}

/// An account with its current password, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) user: Uuid,
    pub(crate) password: Option<CredentialDigest>,
}

impl Device {
    /// The device, if its cookie is from an earlier login to this account with this password.
    pub(crate) fn of(keys: &KeyRing, headers: &HeaderMap, account: Account, now: i64) -> Option<Self> {
        let device: Self = keys.open(Purpose::Device, cookies::sealed(headers, COOKIE)?)?;
        let known = device.account == account && now.saturating_sub(device.login_at) < KNOWN_SECONDS;
        known.then_some(device)
    }

    /// The device after a login: a known one or a new one.
    pub(crate) fn after_login(
        keys: &KeyRing,
        headers: &HeaderMap,
        account: Account,
        has_second_factor: bool,
        now: i64,
    ) -> Self {
        let id = Self::of(keys, headers, account, now).map_or_else(Uuid::new_v4, |known| known.id);
        Self { id, account, login_at: now, has_second_factor }
    }

    /// The same device after its user has chosen another password on it.
    pub(crate) const fn with_password(self, password: CredentialDigest) -> Self {
        Self { account: Account { password: Some(password), ..self.account }, ..self }
    }

    /// The same device after its user has shown the second factor on it.
    pub(crate) const fn with_second_factor(self) -> Self {
        Self { has_second_factor: true, ..self }
    }

    /// Sets the cookie.
    pub(crate) fn remember(self, app: &App, response: &mut Response) -> Result<(), KeyError> {
        let value = self.cookie(&app.keys)?;
        set_cookie(app, response, COOKIE, Keep::For(&value, KNOWN_SECONDS));
        Ok(())
    }

    fn cookie(self, keys: &KeyRing) -> Result<String, KeyError> {
        keys.seal(Purpose::Device, &serde_json::to_value(self)?)
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

    fn account(user: u128, password: &str) -> Account {
        Account { user: Uuid::from_u128(user), password: Some(CredentialDigest::of(password)) }
    }

    #[test]
    fn a_device_is_known_to_its_own_account_for_a_time() {
        let (keys, alice, bob) = (ring_of_one(), account(1, "a"), account(2, "a"));
        let sent = |device: Device| sent(&device.cookie(&keys).expect("sealed"));
        let first = sent(Device::after_login(&keys, &HeaderMap::new(), alice, false, 0));
        let device = Device::of(&keys, &first, alice, KNOWN_SECONDS - 1).expect("known");
        assert_eq!(Device::of(&keys, &first, alice, KNOWN_SECONDS), None, "too long ago");
        assert_eq!(Device::of(&keys, &first, bob, 0), None, "another account");
        let renewed = sent(Device::after_login(&keys, &first, alice, true, 5));
        let known = Device::of(&keys, &renewed, alice, KNOWN_SECONDS).expect("known");
        assert_eq!((known.id, known.has_second_factor), (device.id, true), "the same device");
        let (other, none) = (account(1, "b"), Account { password: None, ..alice });
        assert_eq!(Device::of(&keys, &first, other, 0), None, "another password");
        assert_eq!(Device::of(&keys, &first, none, 0), None, "no password");
        let changed = sent(device.with_password(CredentialDigest::of("b")));
        assert_eq!(Device::of(&keys, &changed, other, 0).map(|known| known.id), Some(device.id));
        assert_eq!(Device::of(&keys, &changed, alice, 0), None, "the earlier password");
    }

    #[test]
    fn only_this_provider_makes_devices() {
        let (keys, alice) = (ring_of_one(), account(1, "a"));
        let device = Device { id: alice.user, account: alice, login_at: 0, has_second_factor: false };
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
