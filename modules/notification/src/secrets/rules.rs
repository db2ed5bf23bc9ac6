//! Signing secrets (Standard Webhooks): their form, sealing and rotation.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use contract::Timestamp;
use contract::id::CompanyId;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Serialize, Serializer};
use service::ApiError;
use service::sealed::{SealError, SealingKeys, Secret};
use zeroize::Zeroizing;

use crate::channels::rules::ChannelId;

/// Length of a secret in bytes; the Standard Webhooks specification requires 24 to 64.
pub const SECRET_BYTES: usize = 32;
/// How long the previous secret still signs after a rotation, so that receivers can switch.
pub const OVERLAP: Duration = Duration::from_hours(24);
/// The prefix of a secret's text.
const PREFIX: &str = "whsec_";
/// The column's name in the data that is authenticated with a sealed secret.
const FIELD: &str = "signing-secret";

/// A secret as its administrators see it. `Debug` does not show it.
#[derive(Clone)]
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    /// Encodes a secret's bytes.
    #[must_use]
    pub fn of(secret: &[u8]) -> Self {
        Self(Zeroizing::new(format!("{PREFIX}{}", STANDARD.encode(secret))))
    }
}

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText")
    }
}

/// The response of both operations.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SigningSecret {
    /// `whsec_…`.
    pub secret: SecretText,
    /// Until when deliveries are also signed with the previous secret.
    pub previous_secret_expires_at: Option<Timestamp>,
}

/// Seals and opens secrets, each bound to its channel. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sealer(Arc<SealingKeys>);

impl Sealer {
    /// Creates a sealer with these keys.
    #[must_use]
    pub const fn new(keys: Arc<SealingKeys>) -> Self {
        Self(keys)
    }

    /// Generates and seals a new secret.
    ///
    /// # Errors
    /// 500 when there are no random numbers.
    pub fn seal_new(&self, company: CompanyId, channel: ChannelId) -> Result<Vec<u8>, ApiError> {
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        SystemRandom::new().fill(secret.as_mut_slice()).map_err(|_| ApiError::internal(SealError::Random))?;
        let (company, channel) = (company.to_string(), channel.to_string());
        let sealed =
            self.0.seal(secret.as_slice(), &[&company, &channel, FIELD]).map_err(ApiError::internal)?;
        Ok(sealed.into_bytes())
    }

    /// Opens a secret that was sealed for the channel.
    ///
    /// # Errors
    /// The secret was sealed with another key or for another channel.
    pub fn open(&self, company: CompanyId, channel: ChannelId, sealed: &[u8]) -> Result<Secret, SealError> {
        let text = std::str::from_utf8(sealed).map_err(|_| SealError::Malformed)?;
        self.0.open(text, &[&company.to_string(), &channel.to_string(), FIELD])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_written_as_the_standard_writes_it_and_never_shown() {
        let bytes: Vec<u8> = (0..32).collect();
        let text = SecretText::of(&bytes);
        let written = serde_json::to_string(&text).expect("a text");
        assert_eq!(written, "\"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"");
        assert_eq!(format!("{text:?}"), "SecretText");
    }
}
