//! [`Place`]: where one service or module is. Its hosts, how busy and how well they are, how many requests may be there at
//! once, and each worker's idle connections to them. Counters are shared by the workers, connections are not.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Authority;
use super::pool::Shelf;

/// Failures in a row after which a host rests.
const FAILURES_BEFORE_REST: u32 = 5;
/// The first rest; each further one is twice as long.
const FIRST_REST: Duration = Duration::from_secs(10);
const LONGEST_REST: Duration = Duration::from_mins(1);

/// What an upstream speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Speaks {
    #[default]
    Http1,
    /// HTTP/1.1 with TLS.
    Https,
    /// HTTP/2 without TLS, from the first byte.
    H2c,
}

/// One service or module.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) hosts: Vec<Host>,
    turns: Turns,
    /// Moves with every choice, so that the two hosts compared are not always the same.
    dice: AtomicUsize,
}

/// One host of it.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) authority: Authority,
    pub(crate) speaks: Speaks,
    busy: AtomicUsize,
    failures: AtomicU32,
    rests: AtomicU32,
    /// Milliseconds since [`epoch`]; in the past when it does not rest.
    rests_until: AtomicU64,
    shelves: Vec<Shelf>,
}

impl Place {
    /// A place of these hosts (at least one) for this many workers.
    pub(crate) fn new(hosts: Vec<(Speaks, Authority)>, concurrency: usize, workers: usize) -> Self {
        let hosts = hosts.into_iter().map(|(speaks, authority)| Host::new(speaks, authority, workers));
        Self { hosts: hosts.collect(), turns: Turns::new(concurrency), dice: AtomicUsize::new(0) }
    }

    /// A turn that is free at this moment; the place itself where none is. The turn keeps the place: all workers count who
    /// holds it, and each count is a wait for the others.
    pub(crate) fn turn_at_once(self: Arc<Self>) -> Result<Turn, Arc<Self>> {
        if self.turns.try_take() { Ok(Turn { place: self, host: None }) } else { Err(self) }
    }

    /// A turn at this place, or `None` when as many wait already as may be in flight.
    pub(crate) async fn turn(self: Arc<Self>) -> Option<Turn> {
        self.turns.take().await.then(|| Turn { place: self, host: None })
    }

    /// The less busy one of two hosts, none of them `except` and none at rest, where there are others.
    pub(crate) fn choose(&self, except: Option<usize>) -> Option<usize> {
        if let ([_], None) = (self.hosts.as_slice(), except) {
            return Some(0);
        }
        self.choose_at(except, millis())
    }

    fn choose_at(&self, except: Option<usize>, now: u64) -> Option<usize> {
        let others = || (0..self.hosts.len()).filter(move |position| Some(*position) != except);
        let awake = |position: &usize| self.hosts.get(*position).is_some_and(|host| !host.rests(now));
        let mut fit: Vec<usize> = others().filter(awake).collect();
        if fit.is_empty() {
            fit = others().collect();
        }
        let roll = self.dice.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
        let one = *fit.get(roll % fit.len().max(1))?;
        let rest = fit.len().saturating_sub(1).max(1);
        let step = 1 + (roll >> 16) % rest;
        let other = *fit.get((roll % fit.len().max(1) + step) % fit.len().max(1))?;
        let busy = |position: usize| self.hosts.get(position).map_or(usize::MAX, Host::busy);
        Some(if busy(other) < busy(one) { other } else { one })
    }

    /// Notes how an attempt at a host went.
    pub(crate) fn note(&self, position: usize, well: bool) {
        let Some(host) = self.hosts.get(position) else { return };
        if well {
            host.well();
        } else {
            self.failed_at(position, host, millis());
        }
    }

    fn failed_at(&self, position: usize, host: &Host, now: u64) {
        let mut others = self.hosts.iter().enumerate().filter(|(other, _)| *other != position);
        let another = others.any(|(_, other)| !other.rests(now));
        host.failed(now, another);
    }
}

impl Host {
    /// Connections that all workers took from their shelves, and had to make.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let counts = self.shelves.iter().map(Shelf::counts);
        counts.fold((0, 0), |(reused, dialled), (r, d)| (reused + r, dialled + d))
    }

    fn new(speaks: Speaks, authority: Authority, workers: usize) -> Self {
        Self {
            authority,
            speaks,
            busy: AtomicUsize::new(0),
            failures: AtomicU32::new(0),
            rests: AtomicU32::new(0),
            rests_until: AtomicU64::new(0),
            shelves: (0..workers).map(|_| Shelf::default()).collect(),
        }
    }

    /// The idle connections of one worker.
    pub(crate) fn shelf(&self, worker: usize) -> Option<&Shelf> {
        self.shelves.get(worker)
    }

    fn busy(&self) -> usize {
        self.busy.load(Ordering::Relaxed)
    }

    fn rests(&self, now: u64) -> bool {
        self.rests_until.load(Ordering::Relaxed) > now
    }

    fn well(&self) {
        // Reading first keeps the cache line shared while all is well.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
        if self.rests.load(Ordering::Relaxed) != 0 {
            self.rests.store(0, Ordering::Relaxed);
        }
    }

    fn failed(&self, now: u64, another: bool) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        // The last one that is awake never rests: a host that fails is better than none.
        if failures < FAILURES_BEFORE_REST || !another {
            return;
        }
        self.failures.store(0, Ordering::Relaxed);
        let before = self.rests.fetch_add(1, Ordering::Relaxed);
        let rest = FIRST_REST.saturating_mul(1 << before.min(3)).min(LONGEST_REST);
        let until = now.saturating_add(u64::try_from(rest.as_millis()).unwrap_or(u64::MAX));
        self.rests_until.store(until, Ordering::Relaxed);
        tracing::warn!(host = %self.authority.host_header(), rest_s = rest.as_secs(), "an upstream host rests after failures in a row");
    }
}

/// One request's right to be at a place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) place: Arc<Place>,
    host: Option<usize>,
}

impl Turn {
    /// Counts the request at this host.
    pub(crate) fn at(&mut self, host: usize) {
        self.leave();
        self.host = Some(host).filter(|host| *host < self.place.hosts.len());
        self.count(|busy| busy.fetch_add(1, Ordering::Relaxed));
    }

    /// The host it is at.
    pub(crate) fn host(&self) -> Option<&Host> {
        self.place.hosts.get(self.host?)
    }

    fn leave(&mut self) {
        self.count(|busy| busy.fetch_sub(1, Ordering::Relaxed));
        self.host = None;
    }

    /// How busy a host is, is asked only where there is another.
    fn count(&self, count: impl FnOnce(&AtomicUsize) -> usize) {
        if let Some(host) = self.host().filter(|_| self.place.hosts.len() > 1) {
            count(&host.busy);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.leave();
        self.place.turns.give_back();
    }
}

/// So many at once, and as many waiting. No lock while nobody waits.
#[derive(Debug)]
struct Turns {
    most: usize,
    taken: AtomicUsize,
    waiting: AtomicUsize,
    freed: Notify,
}

impl Turns {
    fn new(most: usize) -> Self {
        Self { most, taken: AtomicUsize::new(0), waiting: AtomicUsize::new(0), freed: Notify::new() }
    }

    async fn take(&self) -> bool {
        if self.try_take() {
            return true;
        }
        let Some(_waiting) = Waiting::among(&self.waiting, self.most) else { return false };
        loop {
            let mut freed = pin!(self.freed.notified());
            // Enrolled before the second look, so that a turn given back in between is not missed.
            freed.as_mut().enable();
            if self.try_take() {
                return true;
            }
            poll_fn(|context| freed.as_mut().poll(context)).await;
        }
    }

    fn try_take(&self) -> bool {
        let more = |taken: usize| (taken < self.most).then_some(taken + 1);
        self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }

    fn give_back(&self) {
        self.taken.fetch_sub(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.freed.notify_one();
        }
    }
}

/// One of those who wait for a turn; leaving the queue, by a turn or by giving up, is its drop.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn among(waiting: &'a AtomicUsize, most: usize) -> Option<Self> {
        let before = waiting.fetch_add(1, Ordering::SeqCst);
        let one = Self(waiting);
        (before < most).then_some(one)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Milliseconds since the first call; never 0.
fn millis() -> u64 {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    let epoch = EPOCH.get_or_init(Instant::now);
    u64::try_from(epoch.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::Poll;

    use super::*;

    /// Polls once.
    async fn is_ready<F: Future>(mut future: Pin<&mut F>) -> bool {
        poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
    }

    fn place(hosts: usize, concurrency: usize) -> Arc<Place> {
        let host = |port: usize| {
            (Speaks::Http1, Authority::new("h".to_owned(), u16::try_from(port).expect("a port")))
        };
        Arc::new(Place::new((1..=hosts).map(host).collect(), concurrency, 1))
    }

    #[tokio::test]
    async fn so_many_have_a_turn_as_many_wait_and_one_more_is_turned_away() {
        let place = place(1, 2);
        let first = Arc::clone(&place).turn().await.expect("a turn");
        let _second = Arc::clone(&place).turn().await.expect("a turn");
        let (mut third, mut fourth) =
            (Box::pin(Arc::clone(&place).turn()), Box::pin(Arc::clone(&place).turn()));
        assert!(!is_ready(third.as_mut()).await && !is_ready(fourth.as_mut()).await, "they wait");
        assert!(Arc::clone(&place).turn().await.is_none(), "nobody else may");
        drop(first);
        let _third = third.await.expect("the turn that was given back");
        assert!(!is_ready(fourth.as_mut()).await);
        drop(fourth);
        let mut fifth = Box::pin(Arc::clone(&place).turn());
        assert!(!is_ready(fifth.as_mut()).await, "there is room in the queue again");
    }

    #[tokio::test]
    async fn the_less_busy_of_two_is_chosen() {
        let place = place(2, 10);
        let mut turn = Arc::clone(&place).turn().await.expect("a turn");
        turn.at(0);
        assert!((0..20).all(|_| place.choose(None) == Some(1)));
        assert_eq!(place.choose(Some(1)), Some(0), "not the one that failed just now");
        drop(turn);
        let both: std::collections::HashSet<_> = (0..40).filter_map(|_| place.choose(None)).collect();
        assert_eq!(both.len(), 2, "an idle place uses both");
    }

    #[test]
    fn a_host_rests_after_five_failures_in_a_row_and_the_last_one_never_does() {
        const REST_MS: u64 = 10_000;
        let place = place(2, 10);
        let fail = |host: usize, now| place.failed_at(host, place.hosts.get(host).expect("a host"), now);
        let chosen = |now, host| (0..40).any(|_| place.choose_at(None, now) == Some(host));
        (0..4).for_each(|_| fail(0, 1));
        place.note(0, true);
        (0..4).for_each(|_| fail(0, 1));
        assert!(chosen(1, 0), "never five in a row");
        fail(0, 1);
        assert!(!chosen(1, 0) && chosen(1, 1), "at rest");
        (0..50).for_each(|_| fail(1, 1));
        assert!(chosen(1, 1), "the last one stays");
        assert!(!chosen(REST_MS, 0) && chosen(REST_MS + 1, 0), "rested to the millisecond");
        (0..5).for_each(|_| fail(0, REST_MS + 1));
        assert!(!chosen(3 * REST_MS, 0), "the second rest is twice as long");
        assert!(chosen(3 * REST_MS + 1, 0));
    }
}
