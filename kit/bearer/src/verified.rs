//! [`VerifiedTokens`]: a verifier that remembers its good answers: a signature check costs more than the rest of most
//! requests. Only the SHA-256 of a token is kept, never the token. A refusal is never remembered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

use crate::claims::LEEWAY_SECONDS;
use crate::{Claims, Refused, Verifier};

type Fingerprint = [u8; SHA256_OUTPUT_LEN];

/// Verifies each token once and answers from memory until it expires or the provider withdraws a key.
#[derive(Debug)]
pub struct VerifiedTokens {
    verifier: Verifier,
    tokens: Mutex<Tokens>,
}

impl VerifiedTokens {
    /// An empty memory of at most so many tokens in front of `verifier`; each takes some 600 bytes.
    #[must_use]
    pub fn new(verifier: Verifier, most: usize) -> Self {
        Self { verifier, tokens: Mutex::new(Tokens::bounded(most)) }
    }

    /// The verifier behind it.
    #[must_use]
    pub const fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// What [`Verifier::verify`] says of this very token, now or when it was verified before.
    ///
    /// # Errors
    /// The same as [`Verifier::verify`]'s.
    pub async fn verify(&self, token: &str) -> Result<Arc<Claims>, Refused> {
        let fingerprint = fingerprint(token);
        // Read before the verification: a key that is withdrawn during it makes the result too old to be kept.
        let generation = self.verifier.generation();
        if let Some(claims) = self.recall(generation, &fingerprint) {
            return Ok(claims);
        }
        let claims = Arc::new(self.verifier.verify(token).await?);
        self.lock().remember(generation, fingerprint, Arc::clone(&claims));
        Ok(claims)
    }

    fn recall(&self, generation: u64, fingerprint: &Fingerprint) -> Option<Arc<Claims>> {
        let mut tokens = self.lock();
        let outdated = tokens.enter(generation);
        let claims = tokens.recall(fingerprint, self.verifier.now());
        // The lock first: freeing a hundred thousand claims must not hold up the others.
        drop(tokens);
        drop(outdated);
        claims
    }

    fn lock(&self) -> MutexGuard<'_, Tokens> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fingerprint(token: &str) -> Fingerprint {
    let mut bytes = [0; SHA256_OUTPUT_LEN];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

/// Two halves: what is asked for stays in the young one, and the old one is forgotten as a whole.
#[derive(Debug)]
struct Tokens {
    generation: u64,
    most_in_half: usize,
    young: Half,
    old: Half,
}

type Half = HashMap<Fingerprint, Arc<Claims>>;

impl Tokens {
    fn bounded(most: usize) -> Self {
        Self { generation: 0, most_in_half: most / 2, young: Half::new(), old: Half::new() }
    }

    /// Takes everything out when the key set has lost a key since the last look.
    fn enter(&mut self, generation: u64) -> Option<[Half; 2]> {
        (generation > self.generation).then(|| {
            self.generation = generation;
            [std::mem::take(&mut self.young), std::mem::take(&mut self.old)]
        })
    }

    fn recall(&mut self, fingerprint: &Fingerprint, now: i64) -> Option<Arc<Claims>> {
        let in_time = |claims: &Arc<Claims>| claims.expires_at.saturating_add(LEEWAY_SECONDS) > now;
        if let Some(claims) = self.young.get(fingerprint) {
            return Some(Arc::clone(claims)).filter(in_time);
        }
        let claims = self.old.remove(fingerprint).filter(in_time)?;
        self.insert(*fingerprint, Arc::clone(&claims));
        Some(claims)
    }

    fn remember(&mut self, generation: u64, fingerprint: Fingerprint, claims: Arc<Claims>) {
        if generation == self.generation {
            self.insert(fingerprint, claims);
        }
    }

    fn insert(&mut self, fingerprint: Fingerprint, claims: Arc<Claims>) {
        if self.young.len() >= self.most_in_half {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(fingerprint, claims);
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
        Arc::new(Claims { subject, authorized_party, expires_at, preferred_username, name, email })
    }

    fn holding(most: usize, numbers: impl Iterator<Item = usize>) -> Tokens {
        let mut tokens = Tokens::bounded(most);
        numbers.for_each(|number| tokens.remember(0, fingerprint(&number.to_string()), claims(NOW + 300)));
        tokens
    }

    #[test]
    fn the_very_token_is_known_and_one_that_differs_in_its_last_byte_is_not() {
        let mut tokens = Tokens::bounded(10);
        tokens.remember(0, fingerprint("head.claims.signature"), claims(NOW + 300));
        assert!(tokens.recall(&fingerprint("head.claims.signature"), NOW).is_some());
        for other in ["head.claims.signaturf", "head.claims.signature ", "head.claims.", ""] {
            assert!(tokens.recall(&fingerprint(other), NOW).is_none(), "{other:?}");
        }
    }

    #[test]
    fn a_token_is_known_to_the_last_second_of_the_leeway_and_not_after_it() {
        let mut tokens = Tokens::bounded(10);
        tokens.remember(0, fingerprint("t"), claims(NOW));
        assert!(tokens.recall(&fingerprint("t"), NOW + LEEWAY_SECONDS - 1).is_some());
        assert!(tokens.recall(&fingerprint("t"), NOW + LEEWAY_SECONDS).is_none());
    }

    #[test]
    fn the_memory_is_bounded_and_what_is_asked_for_stays_longest() {
        let mut tokens = holding(10, 0..5);
        for number in 5..1_000 {
            tokens.remember(0, fingerprint(&number.to_string()), claims(NOW + 300));
            assert!(tokens.recall(&fingerprint("0"), NOW).is_some(), "asked for all the time: {number}");
            assert!(tokens.young.len() + tokens.old.len() <= 10, "{number}");
        }
        assert!(tokens.recall(&fingerprint("1"), NOW).is_none(), "the oldest is forgotten");
        assert!(tokens.recall(&fingerprint("999"), NOW).is_some(), "the newest is known");
    }

    #[test]
    fn a_lost_key_empties_the_memory_and_an_answer_from_before_it_is_not_kept() {
        let mut tokens = holding(10, 0..8);
        assert!(tokens.enter(0).is_none());
        assert_eq!(tokens.enter(1).map(|halves| halves.iter().map(Half::len).sum()), Some(8));
        (0..8).for_each(|number| {
            assert!(tokens.recall(&fingerprint(&number.to_string()), NOW).is_none(), "{number}");
        });
        tokens.remember(0, fingerprint("verified with the lost key"), claims(NOW + 300));
        assert!(tokens.recall(&fingerprint("verified with the lost key"), NOW).is_none());
        assert!(tokens.enter(0).is_none(), "a slow look at the generation takes nothing away");
    }
}
