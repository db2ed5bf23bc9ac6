//! Time-based one-time codes (RFC 6238: HMAC-SHA-1, 30 seconds, 6 digits, as every app supports) and recovery codes.
//! Pure.

use data_encoding::BASE32_NOPAD;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::keys::rules::KeyError;

/// Bytes of a secret: as many as the hash has (RFC 4226, section 4).
const SECRET_BYTES: usize = 20;
const STEP_SECONDS: i64 = 30;
/// Steps before and after the current one whose codes are accepted, to tolerate inexact clocks.
const TOLERATED_STEPS: i64 = 1;
const DIGITS: usize = 6;
/// Number of recovery codes in a set.
pub(crate) const RECOVERY_CODES: usize = 10;
/// 60 random bits each: twelve letters of Base32.
const RECOVERY_LETTERS: usize = 12;

/// Generates a secret.
pub(crate) fn new_secret() -> Result<[u8; SECRET_BYTES], KeyError> {
    let mut secret = [0; SECRET_BYTES];
    SystemRandom::new().fill(&mut secret).map_err(|_| KeyError::Randomness)?;
    Ok(secret)
}

/// The secret as text, for typing into an app.
pub(crate) fn key_text(secret: &[u8]) -> String {
    BASE32_NOPAD.encode(secret)
}

/// Parses the text of a secret.
pub(crate) fn secret_of(text: &str) -> Option<Vec<u8>> {
    BASE32_NOPAD.decode(text.as_bytes()).ok().filter(|secret| secret.len() == SECRET_BYTES)
}

/// The content of the QR code for an app (Key URI Format).
pub(crate) fn key_uri(product: &str, username: &str, secret: &[u8]) -> String {
    let pairs = [
        ("secret", key_text(secret)),
        ("issuer", product.to_owned()),
        ("algorithm", "SHA1".to_owned()),
        ("digits", DIGITS.to_string()),
        ("period", STEP_SECONDS.to_string()),
    ];
    let query = serde_urlencoded::to_string(pairs).unwrap_or_default().replace('+', "%20");
    let label = service::client::encode_segment(&format!("{product}:{username}"));
    format!("otpauth://totp/{label}?{query}")
}

/// Parses a typed code: six digits, ignoring blanks.
pub(crate) fn code(text: &str) -> Option<u32> {
    let digits: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    let plain = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}

/// The step of this code, among those around now and after the last used one.
pub(crate) fn step_of(secret: &[u8], code: u32, now: i64, last_used: i64) -> Option<i64> {
    let present = now.div_euclid(STEP_SECONDS);
    let steps = present - TOLERATED_STEPS..=present + TOLERATED_STEPS;
    steps.into_iter().find(|step| *step > last_used && code_at(secret, *step) == code)
}

/// The code of a step (RFC 4226, section 5.3).
fn code_at(secret: &[u8], step: i64) -> u32 {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let tag = hmac::sign(&key, &step.to_be_bytes());
    let offset = tag.as_ref().last().map_or(0, |last| usize::from(last & 0xf));
    let truncated =
        tag.as_ref().iter().skip(offset).take(4).fold(0, |sum, byte| (sum << 8) | u32::from(*byte));
    (truncated & 0x7fff_ffff) % 1_000_000
}

/// Generates recovery codes in the form that [`recovery_code`] returns.
pub(crate) fn new_recovery_codes() -> Result<Vec<String>, KeyError> {
    let new = || {
        let mut code = key_text(&new_secret()?);
        code.truncate(RECOVERY_LETTERS);
        Ok(code)
    };
    (0..RECOVERY_CODES).map(|_| new()).collect()
}

/// Formats a recovery code: `ABCD-EFGH-IJKL`.
pub(crate) fn shown(code: &str) -> String {
    let letters: Vec<char> = code.chars().collect();
    letters.chunks(4).map(|chunk| chunk.iter().collect()).collect::<Vec<String>>().join("-")
}

/// Parses a typed recovery code, ignoring case, blanks and dashes.
pub(crate) fn recovery_code(text: &str) -> Option<String> {
    let letters = text.chars().filter(|letter| !letter.is_whitespace() && *letter != '-');
    let code = letters.collect::<String>().to_ascii_uppercase();
    let plain = |byte: u8| byte.is_ascii_uppercase() || (b'2'..=b'7').contains(&byte);
    (code.len() == RECOVERY_LETTERS && code.bytes().all(plain)).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of RFC 6238, appendix B.
    const SECRET: &[u8] = b"12345678901234567890";

    #[test]
    fn codes_are_those_of_the_rfc() {
        for (seconds, code) in
            [(59, 287_082), (1_111_111_109, 81_804), (1_111_111_111, 50_471), (1_234_567_890, 5_924)]
        {
            assert_eq!(code_at(SECRET, seconds / 30), code, "{seconds}");
        }
    }

    #[test]
    fn a_code_is_good_once_and_one_step_about_its_own() {
        let (step, code) = (1_000, code_at(SECRET, 1_000));
        for (seconds, good) in
            [(999 * 30 - 1, false), (999 * 30, true), (1_001 * 30 + 29, true), (1_002 * 30, false)]
        {
            assert_eq!(step_of(SECRET, code, seconds, 0), good.then_some(step), "{seconds}");
        }
        assert_eq!(step_of(SECRET, code, 30_000, step - 1), Some(step));
        assert_eq!(step_of(SECRET, code, 30_000, step), None, "used");
        assert_eq!(step_of(SECRET, code_at(SECRET, step - 1), 30_000, step), None, "older than a used one");
    }

    #[test]
    fn codes_are_read_as_people_type_them() {
        assert_eq!((code(" 123 456 "), code("000001")), (Some(123_456), Some(1)));
        for bad in ["", "12345", "1234567", "12345a", "+12345", "１２３４５６"] {
            assert_eq!(code(bad), None, "{bad}");
        }
        let codes = new_recovery_codes().expect("random");
        assert_eq!(codes.len(), RECOVERY_CODES);
        for code in &codes {
            assert_eq!(
                recovery_code(&format!(" {} ", shown(code).to_lowercase())).as_deref(),
                Some(code.as_str())
            );
        }
        for bad in ["", "ABCD-EFGH-IJK", "ABCD-EFGH-IJKLM", "ABCD-EFGH-IJK1", "ÄBCD-EFGH-IJK"] {
            assert_eq!(recovery_code(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_app_is_told_by_an_address() {
        let uri = key_uri("A Platform", "alice", SECRET);
        assert_eq!(
            uri,
            "otpauth://totp/A%20Platform%3Aalice?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=A%20Platform\
             &algorithm=SHA1&digits=6&period=30"
        );
        assert_eq!(secret_of(&key_text(SECRET)).as_deref(), Some(SECRET));
        assert_eq!(secret_of("GEZDGNBV"), None);
    }
}
