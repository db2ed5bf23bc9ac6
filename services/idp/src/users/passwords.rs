//! Password hashing: argon2id off the runtime's workers, on at most half of the cores, in the order of
//! [`queue`](super::queue). It knows no users: a caller that found none requests the same work, so that the response
//! time does not reveal whether a name exists.

use std::sync::Arc;
use std::time::Duration;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use serde::{Deserialize, Serialize};
use service::layers::REQUEST_TIMEOUT;
use zeroize::Zeroizing;

use super::queue::{Full, HashPermit, Line, Queue};
use crate::keys::rules::sha256;

/// OWASP's second profile of argon2id: 19 MiB, two passes, one lane; about 25 ms of one core.
const MEMORY_KIB: u32 = 19 * 1_024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// One second less than a request may take.
const LONGEST_WAIT: Duration = REQUEST_TIMEOUT.saturating_sub(Duration::from_secs(1));

/// Why a password was not checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HashingError {
    #[error("too many passwords are being checked")]
    Busy,
    #[error("the hashing parameters are invalid: {0}")]
    Parameters(argon2::Error),
    #[error("hashing a password failed: {0}")]
    Hashing(argon2::password_hash::Error),
    #[error("the hashing task ended early: {0}")]
    Ended(#[from] tokio::task::JoinError),
}

/// Identifies a password or a second factor without revealing it: a digest of the stored hash, whose salt is random, or
/// of the secret, which is random itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CredentialDigest([u64; 2]);

impl CredentialDigest {
    pub(crate) fn of(stored: impl AsRef<[u8]>) -> Self {
        let digest = sha256(stored.as_ref());
        let half =
            |from: usize| digest.iter().skip(from).take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
        Self([half(0), half(8)])
    }
}

/// Creates and checks password hashes.
#[derive(Clone)]
pub(crate) struct Passwords {
    argon2: Argon2<'static>,
    queue: Queue,
    /// Hash of a random password, for users without one.
    dummy: Arc<str>,
}

impl Passwords {
    /// # Errors
    /// The parameters are invalid, or the system's random source failed.
    pub(crate) fn new() -> Result<Self, HashingError> {
        let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(HashingError::Parameters)?;
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let dummy = hash(&argon2, uuid::Uuid::new_v4().as_bytes())?;
        Ok(Self {
            argon2,
            queue: Queue::new(std::thread::available_parallelism().map_or(1, |cores| cores.get() / 2)),
            dummy: dummy.into(),
        })
    }

    /// Whether `password` matches `stored`. Without a stored hash it does not, after the same work.
    pub(crate) async fn matches(
        &self,
        line: Line,
        password: &str,
        stored: Option<String>,
    ) -> Result<bool, HashingError> {
        let permit = self.permit(line).await?;
        let (known, hash) = match stored {
            Some(hash) => (true, hash),
            None => (false, self.dummy.as_ref().to_owned()),
        };
        let (argon2, password) = (self.argon2.clone(), Zeroizing::new(password.to_owned()));
        let fits = tokio::task::spawn_blocking(move || {
            // Held here, so that a cancelled request keeps its permit until its work is done.
            let _permit = permit;
            verify(&argon2, password.as_bytes(), &hash)
        });
        Ok(fits.await?? && known)
    }

    /// The hash to store for a new password.
    pub(crate) async fn hash(&self, line: Line, password: &str) -> Result<String, HashingError> {
        let permit = self.permit(line).await?;
        let (argon2, password) = (self.argon2.clone(), Zeroizing::new(password.to_owned()));
        let hashing = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            hash(&argon2, password.as_bytes())
        });
        hashing.await?
    }

    /// Waits for a permit, but not until the request's timeout, so that the client is told to try again.
    async fn permit(&self, line: Line) -> Result<HashPermit, HashingError> {
        let permit = tokio::time::timeout(LONGEST_WAIT, self.queue.permit(line)).await;
        permit.map_err(|_| HashingError::Busy)?.map_err(|Full| HashingError::Busy)
    }
}

fn hash(argon2: &Argon2<'_>, password: &[u8]) -> Result<String, HashingError> {
    let hash: PasswordHash = argon2.hash_password(password).map_err(HashingError::Hashing)?;
    Ok(hash.to_string())
}

fn verify(argon2: &Argon2<'_>, password: &[u8], hash: &str) -> Result<bool, HashingError> {
    match argon2.verify_password(password, hash) {
        Ok(()) => Ok(true),
        Err(argon2::password_hash::Error::PasswordInvalid) => Ok(false),
        Err(error) => Err(HashingError::Hashing(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_matches_its_own_hash_only() {
        let passwords = Passwords::new().expect("parameters fit");
        let stored = passwords.hash(Line::Inside, "correct").await.expect("hashed");
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert!(passwords.matches(Line::Inside, "correct", Some(stored.clone())).await.expect("checked"));
        assert!(!passwords.matches(Line::Inside, "wrong", Some(stored)).await.expect("checked"));
        assert!(
            !passwords.matches(Line::Inside, "correct", None).await.expect("checked"),
            "nobody has no password"
        );
        assert!(
            passwords.matches(Line::Inside, "x", Some("no hash".to_owned())).await.is_err(),
            "a broken row is not a wrong password"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_in_vain_is_told_to_come_back() {
        let passwords = Passwords::new().expect("parameters fit");
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() / 2).max(1);
        let mut running = Vec::new();
        for _ in 0..cores {
            running.push(passwords.queue.permit(Line::Inside).await.expect("free"));
        }
        assert!(matches!(passwords.matches(Line::Inside, "x", None).await, Err(HashingError::Busy)));
    }
}
