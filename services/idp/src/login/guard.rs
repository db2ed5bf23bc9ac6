//! Slows the guessing of one account's password, as Keycloak's brute-force detection does: after 30 failures in a row
//! the account is closed for a minute, and longer with every further 30. Kept in memory, by account, and bounded. Who
//! tries is told the same as for a wrong password, so a closed account looks like a wrong or an unknown name.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

/// Failures that close an account, and again every so many.
const FAILURES: u32 = 30;
/// For how long an account is closed, times how often the number was reached.
const WAIT_SECONDS: i64 = 60;
const LONGEST_WAIT_SECONDS: i64 = 15 * 60;
/// Failures are forgotten when the last is this old.
const MEMORY_SECONDS: i64 = 12 * 60 * 60;
/// Accounts that are kept in mind. Only accounts that exist are, so a stranger cannot fill it with invented names.
const MAX_ACCOUNTS: usize = 10_000;

/// The failures of every account. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Guard(Arc<Mutex<HashMap<Uuid, Failures>>>);

#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    count: u32,
    last: i64,
    closed_until: i64,
}

impl Guard {
    /// Whether a password may be tried now. The attempt counts as failed until [`Self::succeeded`] says otherwise, so
    /// that attempts at the same moment, and those given up half way, are counted too.
    pub(crate) fn admits(&self, account: Uuid, now: i64) -> bool {
        let mut accounts = self.lock();
        let mut failures = accounts.get(&account).copied().unwrap_or_default();
        if now < failures.closed_until {
            return false;
        }
        if failures.is_forgotten(now) {
            failures = Failures::default();
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        if failures.count.is_multiple_of(FAILURES) {
            failures.closed_until = now.saturating_add(wait(failures.count / FAILURES));
        }
        make_room(&mut accounts, account, now);
        accounts.insert(account, failures);
        true
    }

    /// The attempt's password was right: everything is forgotten.
    pub(crate) fn succeeded(&self, account: Uuid) {
        self.lock().remove(&account);
    }

    /// The map is whole whatever a holder did.
    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Failures>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failures {
    const fn is_forgotten(&self, now: i64) -> bool {
        now.saturating_sub(self.last) >= MEMORY_SECONDS
    }
}

fn wait(times: u32) -> i64 {
    i64::from(times).saturating_mul(WAIT_SECONDS).min(LONGEST_WAIT_SECONDS)
}

/// When it is full, what is forgotten goes; if nothing is, whoever failed least, so that a closed account stays closed.
fn make_room(accounts: &mut HashMap<Uuid, Failures>, account: Uuid, now: i64) {
    if accounts.len() < MAX_ACCOUNTS || accounts.contains_key(&account) {
        return;
    }
    accounts.retain(|_, failures| !failures.is_forgotten(now));
    if accounts.len() < MAX_ACCOUNTS {
        return;
    }
    let least = accounts.iter().min_by_key(|(_, failures)| (failures.count, failures.last));
    if let Some(id) = least.map(|(id, _)| *id) {
        accounts.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(guard: &Guard, account: Uuid, times: u32, now: i64) {
        for attempt in 0..times {
            assert!(guard.admits(account, now), "attempt {attempt} at {now}");
        }
    }

    #[test]
    fn an_account_closes_after_thirty_failures_and_for_longer_each_time() {
        let (guard, alice, bob) = (Guard::default(), Uuid::from_u128(1), Uuid::from_u128(2));
        let mut now = 0;
        for round in 1..=20 {
            fail(&guard, alice, FAILURES, now);
            let closed_for = (60 * round).min(900);
            assert!(!guard.admits(alice, now) && !guard.admits(alice, now + closed_for - 1), "round {round}");
            assert!(guard.admits(bob, now), "only this account");
            guard.succeeded(bob);
            now += closed_for;
        }
    }

    #[test]
    fn a_success_and_time_forget_the_failures() {
        let (guard, alice) = (Guard::default(), Uuid::from_u128(1));
        fail(&guard, alice, FAILURES - 1, 0);
        guard.succeeded(alice);
        fail(&guard, alice, FAILURES - 1, 1);
        fail(&guard, alice, FAILURES - 1, 1 + MEMORY_SECONDS);
        fail(&guard, alice, 1, 2 + MEMORY_SECONDS);
        assert!(!guard.admits(alice, 2 + MEMORY_SECONDS));
    }

    #[test]
    fn memory_is_bounded_and_a_closed_account_stays_closed() {
        let (guard, alice) = (Guard::default(), Uuid::from_u128(u128::MAX));
        fail(&guard, alice, FAILURES, 0);
        for number in 0..MAX_ACCOUNTS + 50 {
            assert!(guard.admits(Uuid::from_u128(u128::try_from(number).expect("small")), 1));
        }
        assert_eq!(guard.lock().len(), MAX_ACCOUNTS);
        assert!(!guard.admits(alice, 2));
    }
}
