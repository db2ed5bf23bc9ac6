//! SCRAM-SHA-256 verifiers (RFC 5802, RFC 7677) in PostgreSQL's storage format. A role is created with its verifier, so
//! that no statement holds the password: statements get logged, by configuration or because they failed.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{hmac, pbkdf2};

/// PostgreSQL's default `scram_iterations`.
const ITERATIONS: u32 = 4_096;
/// The length of PostgreSQL's own salts.
const SALT_BYTES: usize = 16;

/// Why a verifier could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
    /// The password cannot be used to log in: it is empty or holds characters that `SASLprep` (RFC 4013) prohibits.
    #[error("the password is empty or holds characters that no login may use")]
    Password,
    /// No salt could be generated.
    #[error("the system's random source does not answer")]
    Random,
}

/// Makes the verifier of a password, with a fresh salt.
///
/// # Errors
/// The password is unusable, or there is no random source.
pub fn verifier(password: &str) -> Result<String, ScramError> {
    let mut salt = [0; SALT_BYTES];
    SystemRandom::new().fill(&mut salt).map_err(|_| ScramError::Random)?;
    with_salt(password, &salt)
}

fn with_salt(password: &str, salt: &[u8]) -> Result<String, ScramError> {
    // Clients prepare the typed password the same way.
    let prepared = stringprep::saslprep(password).map_err(|_| ScramError::Password)?;
    if prepared.is_empty() || prepared.contains('\0') {
        return Err(ScramError::Password);
    }
    let mut salted = [0; SHA256_OUTPUT_LEN];
    let iterations = NonZeroU32::new(ITERATIONS).unwrap_or(NonZeroU32::MIN);
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, prepared.as_bytes(), &mut salted);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &salted);
    let stored = digest(&SHA256, hmac::sign(&key, b"Client Key").as_ref());
    let server = hmac::sign(&key, b"Server Key");
    let [salt, stored, server] = [salt, stored.as_ref(), server.as_ref()].map(|bytes| STANDARD.encode(bytes));
    Ok(format!("SCRAM-SHA-256${ITERATIONS}:{salt}${stored}:{server}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7677, section 3: its exchange for the password "pencil" has these keys.
    #[test]
    fn the_verifier_is_the_one_of_the_standards_example() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let verifier = with_salt("pencil", &salt).expect("a password");
        assert_eq!(
            verifier,
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        );
    }

    #[test]
    fn a_verifier_has_its_own_salt_and_a_password_that_nobody_can_type_has_none() {
        assert_ne!(verifier("secret"), verifier("secret"));
        for bad in ["", "a\0b", "a\u{7}b"] {
            assert_eq!(verifier(bad), Err(ScramError::Password), "{bad:?}");
        }
        assert!(verifier("it's {key} \\ $1 $bootstrap$ ä ﬁ").is_ok());
    }
}
