//! [`Upstream`]: one service or module. Tracks its hosts, their load and health, how many requests may be in flight and
//! how many of these per client, and each worker's idle connections. Workers share the counters, but not the
//! connections.

use crate::config::{Capacity, UpstreamProtocol};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::config::Authority;
use crate::http::share::{ClientKey, Shares, share_of};
use crate::upstream::idle_pool::IdlePool;

/// Failures in a row after which a host is ejected.
const FAILURES_BEFORE_REST: u32 = 5;
/// The first ejection; each further one lasts twice as long.
const FIRST_REST: Duration = Duration::from_secs(10);
const LONGEST_REST: Duration = Duration::from_mins(1);

/// [`Asker::Upload`] gets this fraction of the others' permits: a sign-in sends neither a long body nor a slow one.
const UPLOADS_PART: usize = 8;

/// On whose behalf a request is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asker {
    /// A client's own request.
    Client(ClientKey),
    /// A request of a client without a subject whose body is still arriving. These have few permits of their own, so
    /// that complete requests find a permit however many addresses send slowly.
    Upload(ClientKey),
    /// A question of the gateway about a client's request. Questions have permits of their own, which no client's
    /// request takes.
    Question(ClientKey),
    /// The gateway's own request for the catalog.
    Gateway,
}

impl Asker {
    const fn client(self) -> Option<ClientKey> {
        match self {
            Self::Client(client) | Self::Upload(client) | Self::Question(client) => Some(client),
            Self::Gateway => None,
        }
    }
}

/// One service or module.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) hosts: Vec<Host>,
    requests: Lane,
    uploads: Lane,
    questions: Lane,
    streams: Arc<Streams>,
    /// Advances with every choice, so that different pairs of hosts are compared.
    dice: AtomicUsize,
}

/// One host of an upstream.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) authority: Authority,
    pub(crate) speaks: UpstreamProtocol,
    busy: AtomicUsize,
    failures: AtomicU32,
    rests: AtomicU32,
    /// As counted by [`millis`]; in the past if the host is not ejected.
    rests_until: AtomicU64,
    idle_pools: Vec<IdlePool>,
}

impl Upstream {
    /// An upstream of these hosts (at least one) for this many workers.
    pub(crate) fn new(
        hosts: Vec<(UpstreamProtocol, Authority)>,
        capacity: Capacity,
        streams: Arc<Streams>,
        workers: usize,
    ) -> Self {
        let hosts = hosts.into_iter().map(|(speaks, authority)| Host::new(speaks, authority, workers));
        let few = Capacity { requests: capacity.requests.div_ceil(UPLOADS_PART), ..capacity };
        let (requests, uploads, questions) = (Lane::new(capacity), Lane::new(few), Lane::new(capacity));
        Self { hosts: hosts.collect(), requests, uploads, questions, streams, dice: AtomicUsize::new(0) }
    }

    /// Registers a request whose permit is still to be taken; `None` when the client has its whole share of this
    /// upstream, waiting requests included. Takes the `Arc` by value, because all workers contend for its reference
    /// count.
    pub(crate) fn enter(self: Arc<Self>, asker: Asker) -> Option<UpstreamPermit> {
        let fits = asker.client().is_none_or(|client| self.lane(asker).shares.enter(client));
        fits.then(|| UpstreamPermit {
            upstream: self,
            asker,
            host: None,
            holds: Holds::Share,
            reserved: None,
        })
    }

    const fn lane(&self, asker: Asker) -> &Lane {
        match asker {
            Asker::Client(_) => &self.requests,
            Asker::Upload(_) => &self.uploads,
            Asker::Question(_) | Asker::Gateway => &self.questions,
        }
    }

    /// Chooses the less busy of two hosts, other than `except` and not ejected if there is a choice.
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

    /// Records the result of an attempt at a host.
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
    /// Connections that all workers reused, and connections they dialled.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let counts = self.idle_pools.iter().map(IdlePool::counts);
        counts.fold((0, 0), |(reused, dialled), (r, d)| (reused + r, dialled + d))
    }

    fn new(speaks: UpstreamProtocol, authority: Authority, workers: usize) -> Self {
        Self {
            authority,
            speaks,
            busy: AtomicUsize::new(0),
            failures: AtomicU32::new(0),
            rests: AtomicU32::new(0),
            rests_until: AtomicU64::new(0),
            idle_pools: (0..workers).map(|_| IdlePool::default()).collect(),
        }
    }

    /// The idle connections of one worker.
    pub(crate) fn idle(&self, worker: usize) -> Option<&IdlePool> {
        self.idle_pools.get(worker)
    }

    fn busy(&self) -> usize {
        self.busy.load(Ordering::Relaxed)
    }

    fn rests(&self, now: u64) -> bool {
        self.rests_until.load(Ordering::Relaxed) > now
    }

    fn well(&self) {
        // Loading first keeps the cache line shared while the host is healthy.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
        if self.rests.load(Ordering::Relaxed) != 0 {
            self.rests.store(0, Ordering::Relaxed);
        }
    }

    fn failed(&self, now: u64, another: bool) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        // The last host is never ejected: a failing host is better than none.
        if failures < FAILURES_BEFORE_REST || !another {
            return;
        }
        self.failures.store(0, Ordering::Relaxed);
        let before = self.rests.fetch_add(1, Ordering::Relaxed);
        let rest = FIRST_REST.saturating_mul(1 << before.min(3)).min(LONGEST_REST);
        let until = now.saturating_add(u64::try_from(rest.as_millis()).unwrap_or(u64::MAX));
        self.rests_until.store(until, Ordering::Relaxed);
        tracing::warn!(host = %self.authority.host_header(), ejected_s = rest.as_secs(), "ejected an upstream host after consecutive failures");
    }
}

/// One request's right to use an upstream, held until it is dropped.
#[derive(Debug)]
pub(crate) struct UpstreamPermit {
    pub(crate) upstream: Arc<Upstream>,
    asker: Asker,
    host: Option<usize>,
    holds: Holds,
    /// A stream permit, for a request that may become a tunnel.
    reserved: Option<StreamPermit>,
}

/// What a permit is counted against.
#[derive(Debug)]
enum Holds {
    /// Its client's share: it waits for a permit.
    Share,
    /// Its client's share and a permit.
    Upstream,
    /// Neither any more: it counts as a stream.
    Stream(#[expect(dead_code, reason = "it counts until it is dropped")] StreamPermit),
}

impl UpstreamPermit {
    /// Takes a permit if one is free now.
    pub(crate) fn try_take(&mut self) -> bool {
        let taken = self.upstream.lane(self.asker).limit.try_take();
        if taken {
            self.holds = Holds::Upstream;
        }
        taken
    }

    /// Waits for a permit; `false` when as many requests wait already as may be in flight.
    pub(crate) async fn take(&mut self) -> bool {
        let taken = self.upstream.lane(self.asker).limit.take().await;
        if taken {
            self.holds = Holds::Upstream;
        }
        taken
    }

    /// Reserves a stream permit, for a request that asks for another protocol.
    pub(crate) fn reserve_stream(&mut self) -> Result<(), Full> {
        self.reserved = Some(Arc::clone(&self.upstream.streams).enter(self.asker.client())?);
        Ok(())
    }

    /// Releases the permit and continues as a stream if there is a stream permit; otherwise keeps the permit.
    pub(crate) fn go_on_as_stream(&mut self) {
        if self.is_stream() {
            return;
        }
        let reserved = self.reserved.take();
        let client = self.asker.client();
        let permit = reserved.or_else(|| Arc::clone(&self.upstream.streams).enter(client).ok());
        if let Some(permit) = permit {
            self.give_back();
            self.holds = Holds::Stream(permit);
        }
    }

    /// Whether it counts as a stream.
    pub(crate) const fn is_stream(&self) -> bool {
        matches!(self.holds, Holds::Stream(_))
    }

    /// Counts the request at this host.
    pub(crate) fn at(&mut self, host: usize) {
        self.leave();
        self.host = Some(host).filter(|host| *host < self.upstream.hosts.len());
        self.count(|busy| busy.fetch_add(1, Ordering::Relaxed));
    }

    /// The host at which the request is counted.
    pub(crate) fn host(&self) -> Option<&Host> {
        self.upstream.hosts.get(self.host?)
    }

    fn leave(&mut self) {
        self.count(|busy| busy.fetch_sub(1, Ordering::Relaxed));
        self.host = None;
    }

    /// Load is counted only where there is a choice of hosts.
    fn count(&self, count: impl FnOnce(&AtomicUsize) -> usize) {
        if let Some(host) = self.host().filter(|_| self.upstream.hosts.len() > 1) {
            count(&host.busy);
        }
    }

    fn give_back(&self) {
        let lane = self.upstream.lane(self.asker);
        match self.holds {
            Holds::Upstream => lane.limit.give_back(),
            Holds::Share => {}
            Holds::Stream(_) => return,
        }
        if let Some(client) = self.asker.client() {
            lane.shares.leave(client);
        }
    }
}

impl Drop for UpstreamPermit {
    fn drop(&mut self) {
        self.leave();
        self.give_back();
    }
}

/// Permits, and each client's share of them.
#[derive(Debug)]
struct Lane {
    limit: ConcurrencyLimit,
    shares: Shares,
}

impl Lane {
    fn new(capacity: Capacity) -> Self {
        let most = share_of(capacity.requests, capacity.share);
        Self { limit: ConcurrencyLimit::new(capacity.requests), shares: Shares::new(most) }
    }
}

/// Why there is no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The client has its whole share.
    Share,
    /// All permits are taken.
    All,
}

/// The tunnels and long answers of all upstreams, counted separately from short requests.
#[derive(Debug)]
pub(crate) struct Streams(Lane);

impl Streams {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self(Lane::new(capacity))
    }

    fn enter(self: Arc<Self>, client: Option<ClientKey>) -> Result<StreamPermit, Full> {
        if !client.is_none_or(|client| self.0.shares.enter(client)) {
            return Err(Full::Share);
        }
        if !self.0.limit.try_take() {
            if let Some(client) = client {
                self.0.shares.leave(client);
            }
            return Err(Full::All);
        }
        Ok(StreamPermit { streams: self, client })
    }
}

/// One stream's permit, released when it is dropped.
#[derive(Debug)]
struct StreamPermit {
    streams: Arc<Streams>,
    client: Option<ClientKey>,
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let Lane { limit, shares } = &self.streams.0;
        limit.give_back();
        if let Some(client) = self.client {
            shares.leave(client);
        }
    }
}

/// A semaphore whose queue is as long as its limit. Lock-free while nothing waits.
#[derive(Debug)]
struct ConcurrencyLimit {
    most: usize,
    taken: AtomicUsize,
    waiting: AtomicUsize,
    freed: Notify,
}

impl ConcurrencyLimit {
    fn new(most: usize) -> Self {
        Self { most, taken: AtomicUsize::new(0), waiting: AtomicUsize::new(0), freed: Notify::new() }
    }

    async fn take(&self) -> bool {
        if self.try_take() {
            return true;
        }
        let Some(_waiting) = Queue::among(&self.waiting, self.most) else { return false };
        loop {
            let mut freed = pin!(self.freed.notified());
            // Enrolled before the second look, so that a permit given back in between is not missed.
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

/// A position in the queue for a permit; dropping it leaves the queue.
struct Queue<'a>(&'a AtomicUsize);

impl<'a> Queue<'a> {
    fn among(waiting: &'a AtomicUsize, most: usize) -> Option<Self> {
        let before = waiting.fetch_add(1, Ordering::SeqCst);
        let one = Self(waiting);
        (before < most).then_some(one)
    }
}

impl Drop for Queue<'_> {
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

    const CLIENT: Asker = Asker::Gateway;

    fn capacity(requests: usize) -> Capacity {
        Capacity { requests, share: 25 }
    }

    fn upstream(hosts: usize, concurrency: usize) -> Arc<Upstream> {
        let host = |port: usize| {
            (UpstreamProtocol::Http1, Authority::new("h".to_owned(), u16::try_from(port).expect("a port")))
        };
        let streams = Arc::new(Streams::new(capacity(2)));
        Arc::new(Upstream::new((1..=hosts).map(host).collect(), capacity(concurrency), streams, 1))
    }

    async fn permit(upstream: &Arc<Upstream>, asker: Asker) -> Option<UpstreamPermit> {
        let mut permit = Arc::clone(upstream).enter(asker)?;
        permit.take().await.then_some(permit)
    }

    fn client(number: u64) -> Asker {
        Asker::Client(ClientKey::subject(number))
    }

    #[tokio::test]
    async fn so_many_have_a_turn_as_many_wait_and_one_more_is_turned_away() {
        let upstream = upstream(1, 2);
        let first = permit(&upstream, CLIENT).await.expect("a permit");
        let _second = permit(&upstream, CLIENT).await.expect("a permit");
        let (mut third, mut fourth) =
            (Box::pin(permit(&upstream, CLIENT)), Box::pin(permit(&upstream, CLIENT)));
        assert!(!is_ready(third.as_mut()).await && !is_ready(fourth.as_mut()).await, "they wait");
        assert!(permit(&upstream, CLIENT).await.is_none(), "the queue is full");
        drop(first);
        let _third = third.await.expect("the permit that was given back");
        assert!(!is_ready(fourth.as_mut()).await);
        drop(fourth);
        let mut fifth = Box::pin(permit(&upstream, CLIENT));
        assert!(!is_ready(fifth.as_mut()).await, "there is room in the queue again");
    }

    #[tokio::test]
    async fn a_client_has_its_share_of_places_and_queue_and_the_rest_is_for_others() {
        let upstream = upstream(1, 9);
        let mut held = Vec::new();
        for _ in 0..8 {
            held.push(permit(&upstream, client(1)).await.expect("within its share"));
        }
        assert!(Arc::clone(&upstream).enter(client(1)).is_none(), "one past it");
        held.push(permit(&upstream, client(2)).await.expect("another has its own"));
        let mut waiting = Box::pin(permit(&upstream, client(3)));
        assert!(!is_ready(waiting.as_mut()).await, "all permits are taken");
        let question = Asker::Question(ClientKey::subject(1));
        let _asked = permit(&upstream, question).await.expect("questions have permits of their own");
        let waiters: Vec<_> = (0..7).filter_map(|_| Arc::clone(&upstream).enter(client(3))).collect();
        assert_eq!(waiters.len(), 7);
        assert!(Arc::clone(&upstream).enter(client(3)).is_none(), "those that wait count");
        drop(waiting);
        let _eighth = Arc::clone(&upstream).enter(client(3)).expect("one that gave up is not counted");
        drop(held.pop());
        drop(held.pop());
        permit(&upstream, client(1)).await.expect("released permits can be taken again");
    }

    #[tokio::test]
    async fn a_stream_leaves_its_place_and_its_share_to_others_and_streams_are_counted() {
        let upstream = upstream(1, 1);
        let mut first = permit(&upstream, client(1)).await.expect("a permit");
        let mut next = Arc::clone(&upstream).enter(client(2)).expect("a share");
        assert!(!next.try_take(), "the only permit is taken");
        first.go_on_as_stream();
        assert!(first.is_stream() && next.try_take());
        next.reserve_stream().expect("the second of two");
        let mut third = Arc::clone(&upstream).enter(client(3)).expect("a share");
        assert_eq!(third.reserve_stream(), Err(Full::All), "one past it");
        next.go_on_as_stream();
        assert!(third.try_take());
        third.go_on_as_stream();
        assert!(!third.is_stream(), "it keeps its permit");
        drop((first, next));
        third.go_on_as_stream();
        assert!(third.is_stream());
    }

    #[test]
    fn a_client_has_no_more_than_its_share_of_the_streams() {
        let streams = Arc::new(Streams::new(capacity(9)));
        let enter = |number| Arc::clone(&streams).enter(Some(ClientKey::subject(number)));
        let held: Vec<_> = (0..8).map(|_| enter(1).expect("within its share")).collect();
        assert_eq!(enter(1).err(), Some(Full::Share));
        let other = enter(2).expect("the ninth");
        assert_eq!(enter(2).err(), Some(Full::All));
        drop((held, other));
        assert!((0..8).all(|_| enter(1).is_ok()), "each was given back");
    }

    #[tokio::test]
    async fn the_less_busy_of_two_is_chosen() {
        let upstream = upstream(2, 10);
        let mut permit = permit(&upstream, CLIENT).await.expect("a permit");
        permit.at(0);
        assert!((0..20).all(|_| upstream.choose(None) == Some(1)));
        assert_eq!(upstream.choose(Some(1)), Some(0), "not the host that just failed");
        drop(permit);
        let both: std::collections::HashSet<_> = (0..40).filter_map(|_| upstream.choose(None)).collect();
        assert_eq!(both.len(), 2, "an idle upstream uses both");
    }

    #[test]
    fn a_host_rests_after_five_failures_in_a_row_and_the_last_one_never_does() {
        const REST_MS: u64 = 10_000;
        let upstream = upstream(2, 10);
        let fail =
            |host: usize, now| upstream.failed_at(host, upstream.hosts.get(host).expect("a host"), now);
        let chosen = |now, host| (0..40).any(|_| upstream.choose_at(None, now) == Some(host));
        (0..4).for_each(|_| fail(0, 1));
        upstream.note(0, true);
        (0..4).for_each(|_| fail(0, 1));
        assert!(chosen(1, 0), "never five in a row");
        fail(0, 1);
        assert!(!chosen(1, 0) && chosen(1, 1), "at rest");
        (0..50).for_each(|_| fail(1, 1));
        assert!(chosen(1, 1), "the last one stays");
        assert!(!chosen(REST_MS, 0) && chosen(REST_MS + 1, 0), "ejected until the exact millisecond");
        (0..5).for_each(|_| fail(0, REST_MS + 1));
        assert!(!chosen(3 * REST_MS, 0), "the second ejection lasts twice as long");
        assert!(chosen(3 * REST_MS + 1, 0));
    }
}
