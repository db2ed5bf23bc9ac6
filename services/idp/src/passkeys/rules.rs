//! The options of the ceremonies and the checks of their answers. Pure, apart from random challenges.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use service::ApiError;
use uuid::Uuid;
use webauthn_rs::prelude::{
    AuthenticationResult, DiscoverableAuthentication, DiscoverableKey, Passkey, PasskeyRegistration,
    PublicKeyCredential, RegisterPublicKeyCredential, Url, Webauthn, WebauthnBuilder,
};

/// Passkeys of one user.
pub(crate) const MAX_PASSKEYS: usize = 10;
/// Bytes of a credential id (Web Authentication, section 5.1.3: at most 1023).
const ID_BYTES: std::ops::RangeInclusive<usize> = 1..=1_023;
/// Longest name of a passkey, in characters.
pub(crate) const MAX_NAME: usize = 64;

/// The provider as authenticators identify it: by host and origin.
#[derive(Clone, Debug)]
pub(crate) struct RelyingParty(Arc<Webauthn>);

/// The state of a ceremony that awaits the authenticator's answer, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Challenge(String);

impl Challenge {
    fn of(state: &impl Serialize) -> Result<Self, ApiError> {
        serde_json::to_string(state).map(Self).map_err(ApiError::internal)
    }

    /// Its text; no two challenges are equal.
    pub(crate) const fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    fn state<'a, S: Deserialize<'a>>(&'a self) -> Option<S> {
        serde_json::from_str(&self.0).ok()
    }
}

/// A challenge, and the options that the browser hands to the authenticator.
pub(crate) struct Ceremony {
    pub(crate) challenge: Challenge,
    /// JSON, with binary values in base64url.
    pub(crate) options: String,
}

impl RelyingParty {
    /// `None` if the issuer's host is an IP address: browsers offer no passkeys there.
    pub(crate) fn of(issuer: &str, name: &str) -> Option<Self> {
        let origin = Url::parse(issuer).ok()?;
        let host = origin.domain()?;
        let webauthn = WebauthnBuilder::new(host, &origin).ok()?.rp_name(name).build().ok()?;
        Some(Self(Arc::new(webauthn)))
    }

    /// Asks for any passkey of this provider, with its user verified.
    pub(crate) fn ask(&self) -> Result<Ceremony, ApiError> {
        let (options, state) = self.0.start_discoverable_authentication().map_err(ApiError::internal)?;
        let options = serde_json::to_string(&options.public_key).map_err(ApiError::internal)?;
        Ok(Ceremony { challenge: Challenge::of(&state)?, options })
    }

    /// The passkey that an assertion names and the user that it is said to be of; `None` when it cannot be read.
    pub(crate) fn read(&self, assertion: &str) -> Option<(PublicKeyCredential, Uuid)> {
        let assertion: PublicKeyCredential = serde_json::from_str(assertion).ok()?;
        let (user, _) = self.0.identify_discoverable_authentication(&assertion).ok()?;
        Some((assertion, user))
    }

    /// The stored passkey after this use of it; `None` when the assertion does not answer the challenge.
    pub(crate) fn check(
        &self,
        assertion: &PublicKeyCredential,
        challenge: &Challenge,
        stored: Value,
    ) -> Result<Option<Value>, ApiError> {
        let mut passkey: Passkey = serde_json::from_value(stored).map_err(ApiError::internal)?;
        let Some(state) = challenge.state::<DiscoverableAuthentication>() else { return Ok(None) };
        let checked =
            self.0.finish_discoverable_authentication_v2(assertion, state, DiscoverableKey::from(&passkey));
        let Some(result) = checked.ok().filter(AuthenticationResult::user_verified) else { return Ok(None) };
        if passkey.update_credential(&result).is_none() {
            return Ok(None);
        }
        serde_json::to_value(passkey).map(Some).map_err(ApiError::internal)
    }

    /// Asks for a new passkey of a user, on an authenticator that has none of the credentials `known`.
    pub(crate) fn ask_new(&self, user: Uuid, name: &str, known: Vec<Vec<u8>>) -> Result<Ceremony, ApiError> {
        let started = self.0.start_passkey_registration(user, name, name, Some(known));
        let (options, state) = started.map_err(ApiError::internal)?;
        let mut options = serde_json::to_value(&options.public_key).map_err(ApiError::internal)?;
        // The login asks for a passkey before it knows the user, so the authenticator must store the user's id.
        if let Some(selection) = options.get_mut("authenticatorSelection").and_then(Value::as_object_mut) {
            selection.insert("residentKey".to_owned(), json!("required"));
            selection.insert("requireResidentKey".to_owned(), json!(true));
        }
        Ok(Ceremony { challenge: Challenge::of(&state)?, options: options.to_string() })
    }

    /// The id and the stored form of the passkey that an authenticator made; `None` when its answer is not right.
    pub(crate) fn check_new(
        &self,
        credential: &str,
        challenge: &Challenge,
    ) -> Result<Option<(Vec<u8>, Value)>, ApiError> {
        let read = serde_json::from_str::<RegisterPublicKeyCredential>(credential).ok();
        let Some((credential, state)) = read.zip(challenge.state::<PasskeyRegistration>()) else {
            return Ok(None);
        };
        let Ok(passkey) = self.0.finish_passkey_registration(&credential, &state) else { return Ok(None) };
        if !ID_BYTES.contains(&passkey.cred_id().len()) {
            return Ok(None);
        }
        let stored = serde_json::to_value(&passkey).map_err(ApiError::internal)?;
        Ok(Some((passkey.cred_id().clone(), stored)))
    }
}

/// Trims a name; `None` if it is empty, too long or contains control characters.
pub(crate) fn name(text: &str) -> Option<&str> {
    let text = text.trim();
    let fits = !text.is_empty() && text.chars().count() <= MAX_NAME && !text.chars().any(char::is_control);
    fits.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relying_party_has_a_name_for_a_host() {
        assert!(RelyingParty::of("https://localhost:8443/realms/platform", "Platform").is_some());
        assert!(RelyingParty::of("https://login.example.com/realms/platform", "Platform").is_some());
        assert!(RelyingParty::of("https://127.0.0.1:8443/realms/platform", "Platform").is_none());
        assert!(RelyingParty::of("https://[::1]:8443/realms/platform", "Platform").is_none());
    }

    #[test]
    fn a_name_has_1_to_64_characters_that_can_be_shown() {
        assert_eq!(name(" My phone "), Some("My phone"));
        assert!(name(&"ä".repeat(MAX_NAME)).is_some() && name(&"ä".repeat(MAX_NAME + 1)).is_none());
        assert!(name("  ").is_none() && name("a\nb").is_none());
    }

    #[test]
    fn what_cannot_be_read_is_no_answer() {
        let party = RelyingParty::of("https://localhost:8443/realms/platform", "Platform").expect("a name");
        let ceremony = party.ask_new(Uuid::from_u128(1), "alice", Vec::new()).expect("a challenge");
        let options: Value = serde_json::from_str(&ceremony.options).expect("JSON");
        assert_eq!(options["authenticatorSelection"]["residentKey"], "required");
        assert_eq!(options["authenticatorSelection"]["userVerification"], "required");
        assert_eq!(options["rp"]["id"], "localhost");
        for text in ["", "{}", "[]", "null", "{\"id\":1}"] {
            assert!(party.read(text).is_none(), "{text}");
            assert!(party.check_new(text, &ceremony.challenge).expect("an answer").is_none(), "{text}");
        }
    }
}
