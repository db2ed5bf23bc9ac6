//! Password hashing: argon2id off the runtime's workers, a bounded number at once. It knows no users; a caller that
//! found none asks for the same work all the same, so that the time of an answer does not tell whether a name exists.

use std::sync::Arc;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zeroize::Zeroizing;

/// OWASP's second profile of argon2id: 19 MiB, two passes, one lane; about 25 ms of one core.
const MEMORY_KIB: u32 = 19 * 1_024;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// Hashes that run at once: each takes a core and its memory.
const AT_ONCE: usize = 4;
/// Logins that may wait for their turn, a second or two of work; more are told to come back.
const WAITING: usize = 64;

/// Why a password was not checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HashingError {
    #[error("too many passwords are being checked")]
    Busy,
    #[error("the hashing parameters do not fit: {0}")]
    Parameters(argon2::Error),
    #[error("a password could not be hashed: {0}")]
    Hashing(argon2::password_hash::Error),
    #[error("the hashing task ended early: {0}")]
    Ended(#[from] tokio::task::JoinError),
}

/// Checks and makes password hashes.
#[derive(Clone)]
pub(crate) struct Passwords {
    argon2: Argon2<'static>,
    queue: Arc<Semaphore>,
    running: Arc<Semaphore>,
    /// Hash of a password that nobody has.
    dummy: Arc<str>,
}

impl Passwords {
    /// # Errors
    /// The parameters do not fit, or no randomness could be had.
    pub(crate) fn new() -> Result<Self, HashingError> {
        let params = Params::new(MEMORY_KIB, PASSES, LANES, None).map_err(HashingError::Parameters)?;
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let dummy = hash(&argon2, uuid::Uuid::new_v4().as_bytes())?;
        Ok(Self {
            argon2,
            queue: Arc::new(Semaphore::new(WAITING)),
            running: Arc::new(Semaphore::new(AT_ONCE)),
            dummy: dummy.into(),
        })
    }

    /// Whether `password` is the one behind `stored`. Without a stored hash the answer is no, after the same work.
    pub(crate) async fn matches(&self, password: &str, stored: Option<String>) -> Result<bool, HashingError> {
        let permit = self.turn().await?;
        let (known, hash) = match stored {
            Some(hash) => (true, hash),
            None => (false, self.dummy.as_ref().to_owned()),
        };
        let (argon2, password) = (self.argon2.clone(), Zeroizing::new(password.to_owned()));
        let fits = tokio::task::spawn_blocking(move || {
            // Held here, so that a request that was given up keeps its place until its work is done.
            let _permit = permit;
            verify(&argon2, password.as_bytes(), &hash)
        });
        Ok(fits.await?? && known)
    }

    /// The hash to be stored for a new password.
    pub(crate) async fn hash(&self, password: &str) -> Result<String, HashingError> {
        let permit = self.turn().await?;
        let (argon2, password) = (self.argon2.clone(), Zeroizing::new(password.to_owned()));
        let hashing = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            hash(&argon2, password.as_bytes())
        });
        hashing.await?
    }

    async fn turn(&self) -> Result<OwnedSemaphorePermit, HashingError> {
        let _place = self.queue.try_acquire().map_err(|_| HashingError::Busy)?;
        // Neither semaphore is ever closed, so the only failure stands for "no".
        Arc::clone(&self.running).acquire_owned().await.map_err(|_| HashingError::Busy)
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
        let stored = passwords.hash("correct").await.expect("hashed");
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert!(passwords.matches("correct", Some(stored.clone())).await.expect("checked"));
        assert!(!passwords.matches("wrong", Some(stored)).await.expect("checked"));
        assert!(!passwords.matches("correct", None).await.expect("checked"), "nobody has no password");
        assert!(
            passwords.matches("x", Some("no hash".to_owned())).await.is_err(),
            "a broken row is not a wrong password"
        );
    }

    #[tokio::test]
    async fn the_queue_is_bounded() {
        let passwords = Passwords::new().expect("parameters fit");
        let _all = passwords.queue.try_acquire_many(u32::try_from(WAITING).expect("small")).expect("free");
        assert!(matches!(passwords.matches("x", None).await, Err(HashingError::Busy)));
    }
}
