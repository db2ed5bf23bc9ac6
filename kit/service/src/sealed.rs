//! Secrets in the database: sealed with AES-256-GCM, each for its one place (company, row, field), by keys that the database
//! does not hold. A sealed text is `s1.<key id>.<base64url of nonce, ciphertext and tag>`.
//!
//! Rotation: the operator puts a new key before the old ones, the service seals anew what [`SealingKeys::is_outdated`] says,
//! and the operator takes the old keys away.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use contract::settings::{Kind, split_list};
use contract::{Reader, Variable};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use sqlx::{AssertSqlSafe, PgPool};
use zeroize::Zeroizing;

use crate::Core;
use crate::workers::{Next, Pace};

/// The keys.
pub const KEYS: Variable = Variable::new(
    "PLATFORM_SEALING_KEYS",
    Kind::Secret,
    None,
    "Keys that seal secrets in the database, each 32 bytes in base64, comma-separated: the first seals, all open; up makes one and keeps it under secrets/",
);

/// The variables of every service that seals secrets.
pub const VARIABLES: &[Variable] = &[KEYS];

/// Length of an AES-256 key.
const KEY_BYTES: usize = 32;
/// More keys than rotations that are under way at a time.
const MAX_KEYS: usize = 8;
/// Largest secret in bytes: a private key with its chain fits.
pub const MAX_SECRET: usize = 64 << 10;
/// Names the form of the text and what is authenticated with it.
const FORM: &str = "s1";
/// Separates ids of keys from any other digest of theirs.
const KEY_ID: &[u8] = b"platform sealing key id";

/// Delays between retries of the search while the database is unavailable: first and longest.
const LOOK_RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// A column of sealed texts, as bytes. Its names are constants of the service that owns it.
#[derive(Clone, Copy, Debug)]
pub struct SealedColumn {
    /// The table, with its schema.
    pub table: &'static str,
    /// The column's name.
    pub column: &'static str,
    /// An SQL condition that selects the rows still in use.
    pub needed: &'static str,
}

/// Rows that were sealed with a key which is not configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unopened {
    /// `schema.table.column`.
    pub column: String,
    /// The key that is missing.
    pub key_id: String,
    /// The number of rows.
    pub rows: i64,
}

impl fmt::Display for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { column, key_id, rows } = self;
        write!(f, "{column}: no sealing key opens {rows} rows, which key {key_id} sealed")
    }
}

/// Why a secret could not be sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// There is no key at all.
    #[error("no sealing key is configured")]
    NoKey,
    /// The secret is larger than [`MAX_SECRET`].
    #[error("the secret is larger than {MAX_SECRET} bytes")]
    TooLarge,
    /// The system's random source failed.
    #[error("the system's random source does not answer")]
    Random,
    /// The text is not a sealed secret.
    #[error("the text is not a sealed secret")]
    Malformed,
    /// The key that sealed it is not configured any more, or not here.
    #[error("the secret was sealed with a key that is not configured")]
    UnknownKey,
    /// The text was changed, or sealed for another place.
    #[error("the sealed secret was changed or belongs elsewhere")]
    Refused,
}

/// A secret. `Debug` does not show it; its memory is cleared when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// The secret itself.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The keys of one service; the first seals.
pub struct SealingKeys(Vec<Key>);

struct Key {
    id: String,
    cipher: LessSafeKey,
}

impl SealingKeys {
    /// Reads [`KEYS`], which a service that seals requires.
    pub fn read(reader: &mut Reader<'_>) -> Self {
        let text = Zeroizing::new(reader.required(&KEYS));
        Self::parsed(reader, &KEYS, &text)
    }

    /// Reads a variable of the service's own with the same form; without it, [`KEYS`].
    pub fn read_own(reader: &mut Reader<'_>, own: &Variable) -> Self {
        match reader.optional(own).map(Zeroizing::new) {
            Some(text) => Self::parsed(reader, own, &text),
            None => Self::read(reader),
        }
    }

    fn parsed(reader: &mut Reader<'_>, variable: &Variable, text: &str) -> Self {
        if text.is_empty() {
            return Self(Vec::new());
        }
        Self::parse(text).unwrap_or_else(|problem| {
            reader.refuse(variable.name, problem);
            Self(Vec::new())
        })
    }

    /// Keys in base64, comma-separated.
    ///
    /// # Errors
    /// What is wrong with the text, without any of it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let listed = split_list(text);
        if !(1..=MAX_KEYS).contains(&listed.len()) {
            return Err(format!("must hold 1 to {MAX_KEYS} keys"));
        }
        let mut keys: Vec<Key> = Vec::with_capacity(listed.len());
        for (index, text) in listed.into_iter().map(Zeroizing::new).enumerate() {
            let position = index.saturating_add(1);
            let key = Key::parse(&text)
                .ok_or_else(|| format!("key {position} is not {KEY_BYTES} bytes in base64"))?;
            if keys.iter().any(|other| other.id == key.id) {
                return Err(format!("key {position} is there twice"));
            }
            keys.push(key);
        }
        Ok(Self(keys))
    }

    /// Seals a secret with the first key and a random nonce. The associated data says where it belongs (company, row, field):
    /// the text opens with the same data only, so it cannot be moved to another row.
    ///
    /// # Errors
    /// No key, too large a secret, or no random numbers.
    pub fn seal(&self, secret: &[u8], associated: &[&str]) -> Result<String, SealError> {
        let key = self.0.first().ok_or(SealError::NoKey)?;
        if secret.len() > MAX_SECRET {
            return Err(SealError::TooLarge);
        }
        // Random nonces of 96 bits stay unique for 2^32 seals of one key (NIST SP 800-38D, section 8.3).
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| SealError::Random)?;
        // With room for the tag, so that the secret is not left behind where a buffer grew out of its place.
        let mut sealed = Vec::with_capacity(secret.len().saturating_add(AES_256_GCM.tag_len()));
        sealed.extend_from_slice(secret);
        let authenticated = Aad::from(authenticated(&key.id, associated));
        key.cipher
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), authenticated, &mut sealed)
            .map_err(|_| SealError::TooLarge)?;
        let whole = [nonce.as_slice(), &sealed].concat();
        Ok(format!("{FORM}.{}.{}", key.id, URL_SAFE_NO_PAD.encode(whole)))
    }

    /// Opens what any of the keys sealed with the same associated data.
    ///
    /// # Errors
    /// Not a sealed secret, an unknown key, or a text that was changed or moved.
    pub fn open(&self, sealed: &str, associated: &[&str]) -> Result<Secret, SealError> {
        let (id, body) = split(sealed)?;
        let key = self.0.iter().find(|key| key.id == id).ok_or(SealError::UnknownKey)?;
        let whole = URL_SAFE_NO_PAD.decode(body).map_err(|_| SealError::Malformed)?;
        let (nonce, sealed) = whole.split_first_chunk().ok_or(SealError::Malformed)?;
        let mut opened = Zeroizing::new(sealed.to_vec());
        let authenticated = Aad::from(authenticated(id, associated));
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = key
            .cipher
            .open_in_place(nonce, authenticated, &mut opened)
            .map_err(|_| SealError::Refused)?
            .len();
        opened.truncate(length);
        Ok(Secret(opened))
    }

    /// Whether another key than the first sealed this, so that it should be sealed anew.
    #[must_use]
    pub fn is_outdated(&self, sealed: &str) -> bool {
        let first = self.0.first().map(|key| key.id.as_str());
        split(sealed).is_ok_and(|(id, _)| Some(id) != first)
    }
}

impl SealingKeys {
    /// The needed rows of a column that none of the keys opens, by the key that sealed them.
    ///
    /// # Errors
    /// The database cannot answer.
    pub async fn unopened(&self, pool: &PgPool, column: &SealedColumn) -> sqlx::Result<Vec<Unopened>> {
        let SealedColumn { table, column, needed } = column;
        // Constants of the service's crate, so this text holds no input.
        let sql = format!(
            "SELECT split_part(sealed, '.', 2), count(*)
               FROM (SELECT encode({column}, 'escape') AS sealed FROM {table} WHERE {needed}) AS texts
              WHERE sealed LIKE $1 || '.%' AND split_part(sealed, '.', 2) <> ALL ($2)
              GROUP BY 1 ORDER BY 1"
        );
        let known: Vec<&str> = self.0.iter().map(|key| key.id.as_str()).collect();
        let rows = sqlx::query_as::<_, (String, i64)>(AssertSqlSafe(sql)).bind(FORM).bind(known);
        let rows = rows.fetch_all(pool).await?;
        let name = format!("{table}.{column}");
        Ok(rows.into_iter().map(|(key_id, rows)| Unopened { column: name.clone(), key_id, rows }).collect())
    }
}

/// Searches once after the start, in the background, for needed rows that none of the keys opens, and logs an error for each
/// missing key: the operator removed a key too early, or the database came from another installation.
pub fn look_for_unopened(core: &Core, keys: &Arc<SealingKeys>, columns: &'static [SealedColumn]) {
    let (aside, keys) = (core.for_workers(), Arc::clone(keys));
    let (first, last) = LOOK_RETRY;
    core.workers.every("sealed_look", Pace::until_done(first, last), move || {
        let (core, keys) = (aside.clone(), Arc::clone(&keys));
        async move {
            for column in columns {
                for unopened in keys.unopened(&core.pool, column).await? {
                    let Unopened { column, key_id, rows } = &unopened;
                    tracing::error!(
                        column,
                        key_id,
                        rows,
                        present = ?keys,
                        "{unopened}: put that key back behind the first of the sealing keys"
                    );
                }
            }
            Ok::<_, sqlx::Error>(Next::Done)
        }
    });
}

impl fmt::Debug for SealingKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.id)).finish()
    }
}

impl Key {
    /// Both alphabets of base64, padded or not.
    fn parse(text: &str) -> Option<Self> {
        let text = Zeroizing::new(text.trim_end_matches('=').replace('-', "+").replace('_', "/"));
        let bytes = Zeroizing::new(STANDARD_NO_PAD.decode(text.as_bytes()).ok()?);
        if bytes.len() != KEY_BYTES {
            return None;
        }
        let cipher = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &bytes).ok()?);
        let digest = digest::digest(&digest::SHA256, &[KEY_ID, bytes.as_slice()].concat());
        // 48 bits: enough to tell a few keys apart, and nothing is learned of a key that has 256.
        let id = URL_SAFE_NO_PAD.encode(digest.as_ref().get(..6)?);
        Some(Self { id, cipher })
    }
}

/// Key id and body of a sealed text that is not too long to be one.
fn split(sealed: &str) -> Result<(&str, &str), SealError> {
    // Base64 takes four characters for three bytes; the rest is form, id, nonce and tag.
    let longest = MAX_SECRET.saturating_mul(4).div_ceil(3).saturating_add(64);
    let parts = sealed.strip_prefix(FORM).and_then(|rest| rest.strip_prefix('.')?.split_once('.'));
    parts.filter(|_| sealed.len() <= longest).ok_or(SealError::Malformed)
}

/// What is authenticated beside the secret. Each part goes with its length, so that no two lists have the same bytes.
fn authenticated(id: &str, associated: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in [FORM, id].iter().chain(associated) {
        bytes.extend_from_slice(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use contract::Settings;

    use super::*;

    const OLD: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const NEW: &str = "_____wQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    const SECRET: &[u8] = b"xoxb-very-secret";
    const PLACE: &[&str] = &["company-1", "channel-7", "secret"];

    fn keys(text: &str) -> SealingKeys {
        SealingKeys::parse(text).expect("keys")
    }

    #[test]
    fn what_was_sealed_opens_in_its_place_and_two_seals_differ() {
        let keys = keys(OLD);
        for secret in [SECRET, b"", &vec![0xff; MAX_SECRET]] {
            let (first, second) =
                (keys.seal(secret, PLACE).expect("sealed"), keys.seal(secret, PLACE).expect("sealed"));
            assert_ne!(first, second, "each seal has a nonce of its own");
            assert_eq!(keys.open(&first, PLACE).expect("opened").expose(), secret);
            assert_eq!(keys.open(&second, PLACE).expect("opened").expose(), secret);
        }
        assert_eq!(keys.seal(&vec![0; MAX_SECRET + 1], PLACE), Err(SealError::TooLarge));
    }

    #[test]
    fn a_text_that_was_moved_does_not_open() {
        let keys = keys(OLD);
        let sealed = keys.seal(SECRET, PLACE).expect("sealed");
        for other in [
            &["company-2", "channel-7", "secret"][..],
            &["company-1", "channel-8", "secret"],
            &["company-1", "channel-7", "previous"],
            &["company-1", "channel-7"],
            &["company-1", "channel-7", "secret", ""],
            &["company-1channel-7", "", "secret"],
            &["company-1", "channel-7s", "ecret"],
            &[],
        ] {
            assert_eq!(keys.open(&sealed, other), Err(SealError::Refused), "{other:?}");
        }
        assert!(keys.open(&sealed, PLACE).is_ok(), "control: its own place");
    }

    #[test]
    fn any_flipped_bit_and_any_cut_is_an_error() {
        let keys = keys(OLD);
        let sealed = keys.seal(SECRET, PLACE).expect("sealed");
        let (head, body) = sealed.rsplit_once('.').expect("parts");
        let bytes = URL_SAFE_NO_PAD.decode(body).expect("base64");
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let text = format!("{head}.{}", URL_SAFE_NO_PAD.encode(flipped));
            assert_eq!(keys.open(&text, PLACE), Err(SealError::Refused), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert!(keys.open(&sealed[..length], PLACE).is_err(), "cut at {length}");
        }
        for wrong in [
            format!("{sealed}A"),
            format!("{sealed}="),
            sealed.replacen("s1.", "s2.", 1),
            sealed.replacen("s1.", "s1..", 1),
            format!("s1.x.{}", "A".repeat(MAX_SECRET * 2)),
        ] {
            assert!(keys.open(&wrong, PLACE).is_err(), "{wrong:.20}");
        }
        assert!(keys.open(&sealed, PLACE).is_ok(), "control: untouched");
    }

    #[test]
    fn rotation_opens_with_every_key_and_says_what_to_seal_anew() {
        let (old, both, new) = (keys(OLD), keys(&format!("{NEW}, {OLD}")), keys(NEW));
        let sealed = old.seal(SECRET, PLACE).expect("sealed");
        assert_eq!((old.is_outdated(&sealed), both.is_outdated(&sealed)), (false, true));
        let opened = both.open(&sealed, PLACE).expect("the old key still opens");
        let anew = both.seal(opened.expose(), PLACE).expect("sealed anew");
        assert!(!both.is_outdated(&anew));
        assert_eq!(new.open(&anew, PLACE).expect("opened without the old key").expose(), SECRET);
        assert_eq!(new.open(&sealed, PLACE), Err(SealError::UnknownKey));
        assert_eq!(old.open(&anew, PLACE), Err(SealError::UnknownKey));
    }

    #[test]
    fn a_text_under_another_keys_id_does_not_open() {
        let both = keys(&format!("{NEW},{OLD}"));
        let sealed = keys(OLD).seal(SECRET, PLACE).expect("sealed");
        let (old, new) = (keys(OLD).0[0].id.clone(), keys(NEW).0[0].id.clone());
        assert_eq!(both.open(&sealed.replacen(&old, &new, 1), PLACE), Err(SealError::Refused));
        assert!(both.open(&sealed, PLACE).is_ok(), "control: its own id");
    }

    #[test]
    fn keys_that_are_no_keys_are_refused_without_being_told() {
        let read = |text: &str| {
            let settings = Settings::default().with(KEYS.name, text);
            let mut reader = settings.reader();
            let keys = SealingKeys::read(&mut reader);
            reader.finish(keys).map_err(|problems| problems.to_string())
        };
        assert_eq!(read(OLD).expect("one key").0.len(), 1);
        let many = |count: usize| {
            let keys = "ABCDEFGHI".chars().take(count).map(|letter| letter.to_string().repeat(42) + "A");
            keys.collect::<Vec<_>>().join(",")
        };
        assert_eq!(read(&many(MAX_KEYS)).expect("as many as there may be").0.len(), MAX_KEYS);
        let short = &OLD[4..];
        for (bad, why) in [
            (short.to_owned(), "key 1 is not 32 bytes"),
            (format!("{OLD}AAAA"), "key 1 is not 32 bytes"),
            (format!("{OLD},not/base64!"), "key 2 is not 32 bytes"),
            (format!("{OLD},{}", OLD.trim_end_matches('=')), "key 2 is there twice"),
            (many(MAX_KEYS + 1), "1 to 8 keys"),
            (" , ".to_owned(), "1 to 8 keys"),
            (String::new(), "is required"),
        ] {
            let problem = read(&bad).expect_err("refused");
            assert!(problem.starts_with("PLATFORM_SEALING_KEYS: ") && problem.contains(why), "{problem}");
            assert!(bad.is_empty() || bad == " , " || !problem.contains(bad.as_str()), "{problem}");
            assert!(!problem.contains("not/base64!"), "{problem}");
        }
    }

    #[test]
    fn a_services_own_keys_take_the_place_of_the_shared_ones() {
        const OWN: Variable = Variable::new("PLATFORM_DOCS_KEY", Kind::Secret, None, "of one service");
        let read = |settings: &Settings| {
            let mut reader = settings.reader();
            let keys = SealingKeys::read_own(&mut reader, &OWN);
            reader.finish(keys).map(|keys| format!("{keys:?}")).map_err(|problems| problems.to_string())
        };
        let shared = Settings::default().with(KEYS.name, OLD);
        assert_eq!(read(&shared), Ok(format!("{:?}", keys(OLD))));
        assert_eq!(read(&shared.with(OWN.name, NEW)), Ok(format!("{:?}", keys(NEW))));
        let problem = read(&Settings::default().with(OWN.name, "short")).expect_err("no key");
        assert!(problem.starts_with("PLATFORM_DOCS_KEY: key 1 is not 32 bytes"), "{problem}");
        assert!(read(&Settings::default()).expect_err("none").contains("PLATFORM_SEALING_KEYS: is required"));
    }

    #[test]
    fn neither_keys_nor_secrets_are_shown() {
        let keys = keys(OLD);
        let sealed = keys.seal(SECRET, PLACE).expect("sealed");
        let opened = keys.open(&sealed, PLACE).expect("opened");
        assert_eq!(format!("{opened:?}"), "Secret");
        let shown = format!("{keys:?}");
        assert!(shown.len() < 16 && !OLD.contains(&shown[2..10]), "{shown}");
    }
}
