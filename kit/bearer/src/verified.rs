//! [`VerifiedTokens`]: a verifier with a cache of successful results, because a signature check costs more than the
//! rest of most requests. A cached token matches only when all of its bytes are equal. Refusals are never cached.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::quality::{FoldHasher, RandomState};
use futures_util::future::BoxFuture;

use crate::claims::LEEWAY_SECONDS;
use crate::headers::NO_TEXT;
use crate::{Claims, Refused, Verifier};

/// Bytes of a token that are hashed: the end of its signature, which an attacker cannot choose.
const HASHED: usize = 32;
/// The cache is also bounded in bytes: this many for each token of its capacity.
const USUAL_BYTES: usize = 1 << 10;

/// Verifies each token once and answers from the cache until the token expires or the provider withdraws a key.
#[derive(Debug)]
pub struct VerifiedTokens {
    verifier: Verifier,
    tokens: Mutex<Tokens>,
}

impl VerifiedTokens {
    /// An empty cache in front of `verifier`, of at most `most` tokens and a KiB of text for each; a token takes its
    /// own length and some 600 bytes.
    #[must_use]
    pub fn new(verifier: Verifier, most: usize) -> Self {
        Self { verifier, tokens: Mutex::new(Tokens::bounded(most)) }
    }

    /// The underlying verifier.
    #[must_use]
    pub const fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// The result of [`Verifier::verify`] for exactly this token, cached or new.
    ///
    /// # Errors
    /// Those of [`Verifier::verify`].
    pub async fn verify<T>(&self, token: &T) -> Result<Arc<Claims>, Refused>
    where
        T: AsRef<[u8]> + Sync + ?Sized,
    {
        let token = token.as_ref();
        // Read before the verification: a key withdrawn during it makes the result too old to cache.
        let generation = self.verifier.generation();
        match self.recall(generation, token) {
            Some(claims) => Ok(claims),
            None => self.verify_anew(generation, token).await,
        }
    }

    /// Out of line: a request with a cached token should need neither the space nor the code of this.
    #[cold]
    #[inline(never)]
    fn verify_anew<'a>(
        &'a self,
        generation: u64,
        token: &'a [u8],
    ) -> BoxFuture<'a, Result<Arc<Claims>, Refused>> {
        Box::pin(async move {
            let text = str::from_utf8(token).ok().filter(|text| text.is_ascii()).ok_or(NO_TEXT)?;
            let claims = Arc::new(self.verifier.verify(text).await?);
            self.lock().remember(generation, token, Arc::clone(&claims));
            Ok(claims)
        })
    }

    fn recall(&self, generation: u64, token: &[u8]) -> Option<Arc<Claims>> {
        let mut tokens = self.lock();
        let outdated = tokens.enter(generation);
        let claims = tokens.recall(token, self.verifier.now());
        // Release the lock first: freeing a hundred thousand claims must not block other requests.
        drop(tokens);
        drop(outdated);
        claims
    }

    fn lock(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hashes only the last bytes. The comparison covers all bytes, so the hash need only distinguish signed tokens; an
/// unsigned one collides with at most one cached token.
#[derive(Default)]
struct ByItsEnd(RandomState);

struct EndHasher(FoldHasher<'static>);

impl BuildHasher for ByItsEnd {
    type Hasher = EndHasher;

    fn build_hasher(&self) -> EndHasher {
        EndHasher(self.0.build_hasher())
    }
}

impl Hasher for EndHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes.get(bytes.len().saturating_sub(HASHED)..).unwrap_or_default());
    }

    fn finish(&self) -> u64 {
        self.0.finish()
    }
}

/// Two generations: a recalled token moves to the young one, and the old one is dropped as a whole.
struct Tokens {
    generation: u64,
    most_in_half: usize,
    young: Half,
    /// Total bytes of the young tokens.
    young_bytes: usize,
    old: Half,
}

type Half = HashMap<Box<[u8]>, Arc<Claims>, ByItsEnd>;

impl fmt::Debug for Tokens {
    /// Never prints a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (young, old) = (self.young.len(), self.old.len());
        f.debug_struct("Tokens").field("young", &young).field("old", &old).finish_non_exhaustive()
    }
}

impl Tokens {
    fn bounded(most: usize) -> Self {
        Self {
            generation: 0,
            most_in_half: most / 2,
            young: Half::default(),
            young_bytes: 0,
            old: Half::default(),
        }
    }

    /// Takes all tokens out if the key set has lost a key since the last call.
    fn enter(&mut self, generation: u64) -> Option<[Half; 2]> {
        (generation > self.generation).then(|| {
            self.generation = generation;
            self.young_bytes = 0;
            [std::mem::take(&mut self.young), std::mem::take(&mut self.old)]
        })
    }

    fn recall(&mut self, token: &[u8], now: i64) -> Option<Arc<Claims>> {
        let in_time = |claims: &Arc<Claims>| claims.expires_at.saturating_add(LEEWAY_SECONDS) > now;
        if let Some(claims) = self.young.get(token) {
            return Some(Arc::clone(claims)).filter(in_time);
        }
        let (token, claims) = self.old.remove_entry(token)?;
        if !in_time(&claims) {
            return None;
        }
        self.insert(token, Arc::clone(&claims));
        Some(claims)
    }

    fn remember(&mut self, generation: u64, token: &[u8], claims: Arc<Claims>) {
        if generation == self.generation {
            self.insert(Box::from(token), claims);
        }
    }

    fn insert(&mut self, token: Box<[u8]>, claims: Arc<Claims>) {
        let bytes = self.young_bytes.saturating_add(token.len());
        if self.young.len() >= self.most_in_half || bytes > self.most_in_half.saturating_mul(USUAL_BYTES) {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += token.len();
        self.young.insert(token, claims);
    }
}

#[cfg(test)]
mod tests {
    use contract::Subject;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn claims(expires_at: i64) -> Arc<Claims> {
        let subject = Subject::parse("alice").expect("a subject");
        let (authorized_party, preferred_username, name, email) = (None, None, None, None);
        let subject_hash = crate::claims::subject_hash(&subject);
        Arc::new(Claims {
            subject,
            subject_hash,
            authorized_party,
            expires_at,
            preferred_username,
            name,
            email,
        })
    }

    fn holding(most: usize, numbers: impl Iterator<Item = usize>) -> Tokens {
        let mut tokens = Tokens::bounded(most);
        numbers.for_each(|number| tokens.remember(0, number.to_string().as_bytes(), claims(NOW + 300)));
        tokens
    }

    #[test]
    fn the_very_token_is_known_and_one_that_differs_in_a_byte_is_not() {
        let mut tokens = Tokens::bounded(10);
        tokens.remember(0, b"head.claims.signature", claims(NOW + 300));
        assert!(tokens.recall(b"head.claims.signature", NOW).is_some());
        for other in
            ["head.claims.signaturf", "read.claims.signature", "head.claims.signature ", "head.claims.", ""]
        {
            assert!(tokens.recall(other.as_bytes(), NOW).is_none(), "{other:?}");
        }
    }

    #[test]
    fn a_token_is_known_to_the_last_second_of_the_leeway_and_not_after_it() {
        let mut tokens = Tokens::bounded(10);
        tokens.remember(0, b"t", claims(NOW));
        assert!(tokens.recall(b"t", NOW + LEEWAY_SECONDS - 1).is_some());
        assert!(tokens.recall(b"t", NOW + LEEWAY_SECONDS).is_none());
    }

    #[test]
    fn the_memory_is_bounded_and_what_is_asked_for_stays_longest() {
        let mut tokens = holding(10, 0..5);
        for number in 5..1_000 {
            tokens.remember(0, number.to_string().as_bytes(), claims(NOW + 300));
            assert!(tokens.recall(b"0", NOW).is_some(), "asked for all the time: {number}");
            assert!(tokens.young.len() + tokens.old.len() <= 10, "{number}");
        }
        assert!(tokens.recall(b"1", NOW).is_none(), "the oldest is forgotten");
        assert!(tokens.recall(b"999", NOW).is_some(), "the newest is known");
    }

    #[test]
    fn long_tokens_are_bounded_by_their_text() {
        let mut tokens = Tokens::bounded(10);
        let text = |number: usize| format!("{number}{}", "x".repeat(USUAL_BYTES * 2));
        for number in 0..100 {
            tokens.remember(0, text(number).as_bytes(), claims(NOW + 300));
            let bytes: usize = tokens.young.keys().chain(tokens.old.keys()).map(|token| token.len()).sum();
            assert!(bytes <= 10 * USUAL_BYTES, "{number}: {bytes}");
            assert!(tokens.recall(text(number).as_bytes(), NOW).is_some(), "{number}");
        }
    }

    #[test]
    fn a_lost_key_empties_the_memory_and_an_answer_from_before_it_is_not_kept() {
        let mut tokens = holding(10, 0..8);
        assert!(tokens.enter(0).is_none());
        assert_eq!(tokens.enter(1).map(|halves| halves.iter().map(Half::len).sum()), Some(8));
        (0..8).for_each(|number| {
            assert!(tokens.recall(number.to_string().as_bytes(), NOW).is_none(), "{number}");
        });
        tokens.remember(0, b"verified with the lost key", claims(NOW + 300));
        assert!(tokens.recall(b"verified with the lost key", NOW).is_none());
        assert!(tokens.enter(0).is_none(), "a slow look at the generation takes nothing away");
    }
}
