//! Which jobs a queue's worker may start. A job computes briefly and then waits for its receiver, which costs little
//! more than a connection. It therefore holds a slot only while it computes, so that hanging receivers, however many,
//! hold up no other job.
//!
//! The room for waiting is shared by companies. The share of each is half of the room that is left: a company that is
//! alone may hold a third of the room, two may hold a quarter each, and there is always room for one more. A company
//! that holds its share starts nothing until a job of it ends. Keys that were slow last time count as waiting from the
//! start, and may fill two thirds of their company's share; those that hung last time may fill a third, with one job at
//! a time each. When the rest of the share, or the whole room, runs short, jobs of unknown keys are cut off as soon as
//! they hang, first those of the company that holds most: their next attempt gets its full time among the hanging ones.
//!
//! Pure: time is a parameter.

use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use tokio::task::Id;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How long a job holds its slot: by then its request has used its CPU time. Sixteen slots start six hundred jobs a
/// second whose receivers hang.
pub(super) const WORKS_FOR: Duration = Duration::from_millis(25);
/// A job that waits longer than this marks its key as slow.
const SLOW_AFTER: Duration = Duration::from_millis(500);
/// A job that waits longer than this is hanging.
pub(super) const HANGS_AFTER: Duration = Duration::from_secs(2);
/// Waiting jobs per slot: as many receivers can hang for a whole lease.
const WAITING_PER_PLACE: usize = 128;
/// Most waiting jobs, however many slots there are: each holds a socket.
const MAX_WAITING: usize = 4_096;
/// Most keys remembered as slow; past this all are forgotten and detected again.
const MAX_KEYS: usize = 20_000;

/// The running jobs of one queue.
pub(super) struct Slots {
    most: usize,
    per_key: usize,
    running: HashMap<Id, Running>,
    /// Keys whose last job waited for its receiver.
    slow: HashMap<Uuid, SlowKey>,
    /// Whether the last claim had to leave out keys for lack of room.
    is_short: bool,
}

/// Whose job it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) key: Uuid,
    /// The company that the key belongs to.
    pub(super) company: Uuid,
}

/// What a claim must leave out.
pub(super) struct Busy {
    /// Keys with running jobs, and slow keys for which there is no room.
    pub(super) keys: Vec<Uuid>,
    /// The number of jobs of each of these keys; as many as a key may have if it must not start another.
    pub(super) running: Vec<i64>,
    /// Companies that hold their share.
    pub(super) full: Vec<Uuid>,
}

#[derive(Clone, Copy)]
struct SlowKey {
    company: Uuid,
    slowness: Slowness,
}

/// How long the last job of a key waited. A key that is not slow is quick or unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Slowness {
    /// Waited briefly.
    Waits,
    /// Waited longer than other jobs should have to wait for it.
    Hangs,
}

struct Running {
    owner: Owner,
    since: Instant,
    /// The key's slowness when the job started.
    was: Option<Slowness>,
    /// Ends the attempt early; `None` when the job has no further attempt.
    cut: Option<CancellationToken>,
}

impl Running {
    fn waits(&self, now: Instant) -> bool {
        self.was.is_some() || self.lasts(now) >= WORKS_FOR
    }

    fn lasts(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// The slowness that this job shows for its key.
    fn shows(&self, now: Instant) -> Option<Slowness> {
        match self.lasts(now) {
            lasts if lasts >= HANGS_AFTER => Some(Slowness::Hangs),
            lasts if lasts >= SLOW_AFTER => Some(Slowness::Waits),
            _ => None,
        }
    }

    fn may_be_cut(&self) -> bool {
        self.was.is_none() && self.cut.is_some() && !self.is_cut()
    }

    fn is_cut(&self) -> bool {
        self.cut.as_ref().is_some_and(CancellationToken::is_cancelled)
    }
}

/// How the room for waiting is shared at a moment.
struct Shares {
    room: usize,
    /// The part of the room that no job holds.
    left: usize,
    companies: HashMap<Uuid, Held>,
}

/// What a company's jobs hold of the room.
#[derive(Clone, Copy, Default)]
struct Held {
    waiting: usize,
    /// Those of keys that hung before.
    hanging: usize,
}

impl Shares {
    fn of<'a>(jobs: impl Iterator<Item = &'a Running>, room: usize, now: Instant) -> Self {
        let mut companies: HashMap<Uuid, Held> = HashMap::new();
        for job in jobs.filter(|job| job.waits(now)) {
            let held = companies.entry(job.owner.company).or_default();
            held.waiting += 1;
            held.hanging += usize::from(job.was == Some(Slowness::Hangs));
        }
        let waiting = companies.values().map(|held| held.waiting).sum();
        Self { room, left: room.saturating_sub(waiting), companies }
    }

    const fn share(&self) -> usize {
        self.left / 2
    }

    fn held(&self, company: Uuid) -> Held {
        self.companies.get(&company).copied().unwrap_or_default()
    }

    /// Whether no key of the company may start a job. A company without waiting jobs always may.
    fn is_full(&self, held: Held) -> bool {
        held.waiting >= self.share().max(1)
    }

    fn slow_are_full(&self, held: Held) -> bool {
        held.waiting >= self.share() * 2 / 3
    }

    fn hanging_are_full(&self, held: Held) -> bool {
        held.hanging >= self.share() / 3
    }

    /// Whether a slow key may not start a job.
    fn hold_back(&self, key: &SlowKey) -> bool {
        let held = self.held(key.company);
        self.slow_are_full(held) || (key.slowness == Slowness::Hangs && self.hanging_are_full(held))
    }

    /// Whether the keys of any company are held back: of one that holds something, or of all.
    fn hold_any_back(&self) -> bool {
        let full = |held: Held| self.slow_are_full(held) || self.hanging_are_full(held);
        full(Held::default()) || self.companies.values().any(|held| full(*held))
    }

    /// Whether hanging jobs of a company with so many waiting jobs are cut off: less than a quarter of its share, or of
    /// the whole room, is left.
    fn are_short(&self, waiting: usize) -> bool {
        waiting > self.share() * 3 / 4 || self.left < self.room / 4
    }
}

impl Slots {
    pub(super) fn new(most: usize, per_key: usize) -> Self {
        Self { most, per_key, running: HashMap::new(), slow: HashMap::new(), is_short: false }
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Starts a job. `cut` ends the attempt early, if the job has another one.
    pub(super) fn start(&mut self, id: Id, owner: Owner, since: Instant, cut: Option<CancellationToken>) {
        let was = self.slow.get(&owner.key).map(|key| key.slowness);
        self.running.insert(id, Running { owner, since, was, cut });
    }

    /// Frees what a job held; true when another job may have waited for it.
    pub(super) fn end(&mut self, id: Id, now: Instant) -> bool {
        let was_full = self.room(now) == 0;
        let Some(ended) = self.running.remove(&id) else { return was_full };
        let key = ended.owner.key;
        let was = self.slow.get(&key).map(|key| key.slowness);
        match ended.shows(now) {
            Some(slowness) => self.remember(ended.owner, slowness),
            None => drop(self.slow.remove(&key)),
        }
        let same = self.running.values().filter(|other| other.owner.key == key).count();
        let made_room = self.is_short && ended.waits(now);
        was_full || made_room || was == Some(Slowness::Hangs) || same + 1 >= self.per_key
    }

    /// How many jobs may start.
    pub(super) fn room(&self, now: Instant) -> usize {
        let waiting = self.waiting(now);
        let working = self.running.len() - waiting;
        // Past the room for waiting, a waiting job holds a slot after all.
        self.most.saturating_sub(working + waiting.saturating_sub(self.room_for_waiting()))
    }

    /// What the next claim must leave out.
    pub(super) fn busy(&mut self, now: Instant) -> Busy {
        let found: Vec<_> =
            self.running.values().filter_map(|job| Some((job.owner, job.shows(now)?))).collect();
        for (owner, slowness) in found {
            let known = self.slow.get(&owner.key).map(|key| key.slowness);
            self.remember(owner, known.map_or(slowness, |known| slowness.max(known)));
        }
        let shares = Shares::of(self.running.values(), self.room_for_waiting(), now);
        let most = i64::try_from(self.per_key).unwrap_or(i64::MAX);
        let mut busy: HashMap<Uuid, i64> = HashMap::new();
        for Owner { key, company } in self.running.values().map(|job| job.owner) {
            let hangs = self.slow.get(&key).is_some_and(|key| key.slowness == Slowness::Hangs);
            let is_full = hangs || shares.is_full(shares.held(company));
            let jobs = busy.entry(key).or_default();
            *jobs = if is_full { most } else { *jobs + 1 };
        }
        self.is_short = shares.hold_any_back();
        if self.is_short {
            let held = self.slow.iter().filter(|(_, key)| shares.hold_back(key));
            busy.extend(held.map(|(key, _)| (*key, most)));
        }
        let full = shares.companies.iter().filter(|(_, held)| shares.is_full(**held));
        let full = full.map(|(company, _)| *company).collect();
        let (keys, running) = busy.into_iter().unzip();
        Busy { keys, running, full }
    }

    /// How long until a working job waits, and so frees its slot.
    pub(super) fn next_room(&self, now: Instant) -> Option<Duration> {
        let working = self.running.values().filter(|job| !job.waits(now));
        working.map(|job| (job.since + WORKS_FOR).saturating_duration_since(now)).min()
    }

    /// Cuts off hanging jobs while room is short, those of the company that holds most first, and of these the longest;
    /// returns the time until the next one hangs, if room is still short.
    pub(super) fn cut(&self, now: Instant) -> Option<Duration> {
        // What is cut off holds no room any more, although its outcome is still to be stored.
        let held = self.running.values().filter(|job| !job.is_cut());
        let mut shares = Shares::of(held, self.room_for_waiting(), now);
        let mut most: BinaryHeap<_> =
            shares.companies.iter().map(|(company, held)| (held.waiting, *company)).collect();
        let mut unknown =
            most.peek().filter(|(waiting, _)| shares.are_short(*waiting)).map(|_| self.unknown())?;
        let mut next: Option<Duration> = None;
        while let Some((waiting, company)) = most.pop().filter(|(waiting, _)| shares.are_short(*waiting)) {
            let Some(job) = unknown.get_mut(&company).and_then(Vec::pop) else { continue };
            let hangs_in = HANGS_AFTER.saturating_sub(job.lasts(now));
            if !hangs_in.is_zero() {
                next = Some(next.map_or(hangs_in, |next| next.min(hangs_in)));
                continue;
            }
            if let Some(cut) = &job.cut {
                cut.cancel();
            }
            shares.left += 1;
            most.push((waiting - 1, company));
        }
        next
    }

    /// The jobs of each company that may be cut off, the oldest last.
    fn unknown(&self) -> HashMap<Uuid, Vec<&Running>> {
        let mut unknown: HashMap<Uuid, Vec<&Running>> = HashMap::new();
        for job in self.running.values().filter(|job| job.may_be_cut()) {
            unknown.entry(job.owner.company).or_default().push(job);
        }
        for jobs in unknown.values_mut() {
            jobs.sort_unstable_by_key(|job| std::cmp::Reverse(job.since));
        }
        unknown
    }

    fn waiting(&self, now: Instant) -> usize {
        self.running.values().filter(|job| job.waits(now)).count()
    }

    fn room_for_waiting(&self) -> usize {
        self.most.saturating_mul(WAITING_PER_PLACE).min(MAX_WAITING)
    }

    fn remember(&mut self, owner: Owner, slowness: Slowness) {
        if self.slow.len() >= MAX_KEYS {
            self.slow.clear();
        }
        self.slow.insert(owner.key, SlowKey { company: owner.company, slowness });
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    /// Task ids, which only tasks can create.
    async fn ids(count: usize) -> Vec<Id> {
        let mut tasks = JoinSet::new();
        let ids = (0..count).map(|_| tasks.spawn(std::future::ready(())).id()).collect();
        tasks.join_all().await;
        ids
    }

    fn key(number: usize) -> Uuid {
        Uuid::from_u128(u128::try_from(number).expect("small"))
    }

    const ONE: Uuid = Uuid::from_u128(1 << 64);
    const TWO: Uuid = Uuid::from_u128(2 << 64);
    const MOMENT: Duration = Duration::from_millis(24);

    fn of(company: Uuid, number: usize) -> Owner {
        Owner { key: key(number), company }
    }

    fn of_one(number: usize) -> Owner {
        of(ONE, number)
    }

    /// Starts a job of a key of its own for each of these ids.
    fn start_each(slots: &mut Slots, company: Uuid, ids: &[Id], since: Instant) {
        for id in ids {
            let number = slots.running();
            slots.start(*id, of(company, number), since, None);
        }
    }

    fn full(busy: &Busy, per_key: i64) -> usize {
        busy.keys.iter().zip(&busy.running).filter(|(_, jobs)| **jobs == per_key).count()
    }

    #[tokio::test]
    async fn a_job_keeps_its_place_for_a_moment_and_then_waits_beside() {
        let (mut slots, start, ids) = (Slots::new(4, 4), Instant::now(), ids(4).await);
        for id in &ids {
            slots.start(*id, of_one(1), start, None);
        }
        assert_eq!((slots.room(start + MOMENT), slots.next_room(start)), (0, Some(WORKS_FOR)));
        assert_eq!((slots.room(start + WORKS_FOR), slots.next_room(start + WORKS_FOR)), (4, None));
        let busy = slots.busy(start + WORKS_FOR);
        assert_eq!((busy.keys, busy.running), (vec![key(1)], vec![4]), "the key itself is full");
        assert!(busy.full.is_empty(), "its company is not");
        assert!(slots.end(ids[0], start + MOMENT), "a job may have been waiting for the slot");
        assert_eq!((slots.running(), slots.room(start + MOMENT)), (3, 1));
    }

    #[tokio::test]
    async fn jobs_of_a_key_that_was_slow_wait_from_the_start_until_one_is_quick() {
        let (mut slots, start, ids) = (Slots::new(1, 2), Instant::now(), ids(4).await);
        slots.start(ids[0], of_one(1), start, None);
        slots.end(ids[0], start + SLOW_AFTER);
        slots.start(ids[1], of_one(1), start, None);
        assert_eq!(slots.room(start), 1, "it takes no slot");
        slots.end(ids[1], start + MOMENT);
        slots.start(ids[2], of_one(1), start, None);
        assert_eq!(slots.room(start), 0, "it was quick");
        slots.start(ids[3], of_one(2), start, None);
        assert!(slots.end(ids[3], start));
    }

    #[tokio::test]
    async fn past_the_room_for_waiting_a_job_that_waits_holds_a_place() {
        let (mut slots, start, ids) = (Slots::new(1, 1), Instant::now(), ids(129).await);
        start_each(&mut slots, ONE, &ids[..128], start);
        assert_eq!(slots.room(start + WORKS_FOR), 1, "so many wait beside one slot");
        start_each(&mut slots, ONE, &ids[128..], start);
        assert_eq!(slots.room(start + WORKS_FOR), 0);
    }

    #[tokio::test]
    async fn the_share_of_a_company_is_half_of_the_room_that_is_left() {
        let (mut slots, start, ids) = (Slots::new(1, 2), Instant::now(), ids(75).await);
        let later = start + WORKS_FOR;
        let full = |slots: &mut Slots| {
            let mut full = slots.busy(later).full;
            full.sort_unstable();
            full
        };
        start_each(&mut slots, ONE, &ids[..42], start);
        assert!(full(&mut slots).is_empty(), "86 of 128 are left");
        start_each(&mut slots, ONE, &ids[42..43], start);
        assert_eq!(full(&mut slots), [ONE], "alone, a company holds a third");
        start_each(&mut slots, TWO, &ids[43..70], start);
        assert_eq!(full(&mut slots), [ONE], "another one has room");
        start_each(&mut slots, TWO, &ids[70..71], start);
        assert_eq!(full(&mut slots), [ONE, TWO], "up to its own share");
        for id in &ids[..11] {
            assert!(slots.end(*id, later), "what ends makes room");
        }
        assert!(full(&mut slots).is_empty());
        start_each(&mut slots, TWO, &ids[71..75], start);
        assert_eq!(full(&mut slots), [ONE, TWO], "two hold a quarter each");
    }

    #[tokio::test]
    async fn the_keys_of_a_company_that_holds_its_share_are_full_whether_they_run_or_were_slow() {
        let (mut slots, start, ids) = (Slots::new(1, 4), Instant::now(), ids(44).await);
        slots.remember(of_one(100), Slowness::Waits);
        slots.remember(of_one(101), Slowness::Hangs);
        slots.remember(of(TWO, 102), Slowness::Waits);
        slots.remember(of(TWO, 103), Slowness::Hangs);
        start_each(&mut slots, ONE, &ids[..43], start);
        slots.start(ids[43], of(TWO, 43), start, None);
        let busy = slots.busy(start + WORKS_FOR);
        let told: HashMap<Uuid, i64> = busy.keys.into_iter().zip(busy.running).collect();
        assert!((0..43).all(|number| told[&key(number)] == 4));
        assert_eq!((told[&key(100)], told[&key(101)]), (4, 4));
        assert_eq!((told[&key(43)], told.len()), (1, 46), "the keys of the other company are free");
    }

    #[tokio::test]
    async fn quick_jobs_take_nothing_of_a_share() {
        let (mut slots, start, ids) = (Slots::new(1_024, 4), Instant::now(), ids(1_024).await);
        start_each(&mut slots, ONE, &ids, start);
        assert!(slots.busy(start + MOMENT).full.is_empty());
        assert_eq!(slots.cut(start + MOMENT), None);
    }

    #[tokio::test]
    async fn a_company_without_waiting_jobs_may_start_one_however_little_room_is_left() {
        let (mut slots, start, ids) = (Slots::new(1, 1), Instant::now(), ids(128).await);
        for (number, id) in ids.iter().enumerate() {
            slots.start(*id, Owner { key: key(number), company: key(number) }, start, None);
        }
        let full = slots.busy(start + WORKS_FOR).full;
        assert_eq!(full.len(), 128, "those that have one");
        assert!(!full.contains(&ONE));
    }

    #[tokio::test]
    async fn slow_keys_hold_two_thirds_of_their_companys_share() {
        let (mut slots, start, ids) = (Slots::new(2, 2), Instant::now(), ids(65).await);
        let later = start + SLOW_AFTER;
        slots.remember(of(TWO, 100), Slowness::Waits);
        start_each(&mut slots, ONE, &ids[..63], start);
        assert_eq!(full(&slots.busy(later), 2), 0, "there is room for one more");
        start_each(&mut slots, ONE, &ids[63..64], start);
        let busy = slots.busy(later);
        assert_eq!((full(&busy, 2), busy.full.len()), (64, 0), "its slow keys are held back");
        assert!(!busy.keys.contains(&key(100)), "and no other company's");
        slots.start(ids[64], of(TWO, 101), later, None);
        assert!(!slots.end(ids[64], later + MOMENT), "a quick one makes no room");
        assert!(slots.end(ids[63], later), "one of them may go on");
        assert_eq!(full(&slots.busy(later), 2), 0);
    }

    #[tokio::test]
    async fn a_key_that_hung_has_one_job_at_a_time_and_all_of_a_company_a_third_of_its_share() {
        let (mut slots, start, ids) = (Slots::new(1, 4), Instant::now(), ids(18).await);
        for number in 0..40 {
            slots.remember(of_one(number), Slowness::Hangs);
        }
        slots.remember(of(TWO, 100), Slowness::Hangs);
        start_each(&mut slots, ONE, &ids[..1], start);
        let busy = slots.busy(start);
        assert_eq!((busy.keys, busy.running), (vec![key(0)], vec![4]), "one shows whether it hangs still");
        assert_eq!(slots.room(start), 1, "and takes no slot");
        start_each(&mut slots, ONE, &ids[1..17], start);
        assert_eq!(full(&slots.busy(start), 4), 17, "there is room for one more");
        start_each(&mut slots, ONE, &ids[17..], start);
        let busy = slots.busy(start);
        assert_eq!(full(&busy, 4), 40, "there is room for no other one that hung");
        assert!(!busy.keys.contains(&key(100)), "except those of another company");
        assert!(slots.end(ids[0], start + MOMENT), "until one ends");
        assert_eq!(full(&slots.busy(start + MOMENT), 4), 17);
        assert!(!slots.slow.contains_key(&key(0)), "this one hangs no more");
    }

    /// Starts a job of a key of its own for each of these ids, one a millisecond. All may be cut off.
    fn start_to_cut(slots: &mut Slots, company: Uuid, ids: &[Id], start: Instant) -> Vec<CancellationToken> {
        let mut cuts = Vec::new();
        for (id, since) in ids.iter().zip(0..) {
            let (cut, number) = (CancellationToken::new(), slots.running());
            slots.start(*id, of(company, number), start + Duration::from_millis(since), Some(cut.clone()));
            cuts.push(cut);
        }
        cuts
    }

    fn are_cut(cuts: &[CancellationToken]) -> Vec<usize> {
        (0..cuts.len()).filter(|at| cuts[*at].is_cancelled()).collect()
    }

    #[tokio::test]
    async fn jobs_of_unknown_keys_that_hang_are_cut_off_where_a_share_gets_short_and_there_is_another_attempt()
     {
        let (mut slots, start, ids) = (Slots::new(1, 3), Instant::now(), ids(37).await);
        slots.remember(of_one(0), Slowness::Hangs);
        start_each(&mut slots, ONE, &ids[..2], start);
        let cuts = start_to_cut(&mut slots, ONE, &ids[2..34], start);
        let hang = start + HANGS_AFTER + Duration::from_millis(1);
        assert_eq!(slots.cut(hang), None, "it is a quarter of the share that is left");
        let later = start_to_cut(&mut slots, ONE, &ids[34..], start + Duration::from_millis(40));
        assert_eq!(slots.cut(start + HANGS_AFTER - MOMENT), Some(MOMENT), "none hangs yet");
        let soon = Some(Duration::from_millis(1));
        assert_eq!((slots.cut(hang), are_cut(&cuts)), (soon, vec![0, 1]), "the longest first");
        assert_eq!(
            (slots.cut(hang), are_cut(&cuts)),
            (soon, vec![0, 1]),
            "they hold no room, though they end later"
        );
        let next = hang + Duration::from_millis(2);
        assert_eq!((slots.cut(next), are_cut(&cuts), are_cut(&later)), (None, vec![0, 1, 2], vec![]));
        let busy = slots.busy(next);
        let running = busy.keys.iter().position(|busy| *busy == key(4)).map(|at| busy.running[at]);
        assert_eq!(running, Some(3), "what hangs is known to hang");
    }

    #[tokio::test]
    async fn the_jobs_of_the_company_that_holds_most_are_cut_off() {
        let (mut slots, start, ids) = (Slots::new(1, 1), Instant::now(), ids(45).await);
        let few = start_to_cut(&mut slots, TWO, &ids[..5], start);
        let many = start_to_cut(&mut slots, ONE, &ids[5..], start + Duration::from_secs(1));
        assert_eq!(slots.cut(start + 2 * HANGS_AFTER), None);
        assert_eq!((are_cut(&few), are_cut(&many)), (vec![], (0..7).collect()));
    }

    #[tokio::test]
    async fn where_many_companies_leave_less_than_a_quarter_of_the_room_the_largest_makes_room() {
        let (mut slots, start, ids) = (Slots::new(1, 1), Instant::now(), ids(97).await);
        let largest = start_to_cut(&mut slots, ONE, &ids[..7], start + Duration::from_secs(1));
        let mut others = Vec::new();
        for (number, ids) in ids[7..].chunks(5).enumerate() {
            others.extend(start_to_cut(&mut slots, key(number), ids, start));
        }
        assert_eq!(slots.cut(start + 2 * HANGS_AFTER), None);
        assert_eq!((are_cut(&largest), are_cut(&others)), (vec![0], vec![]));
    }

    #[tokio::test]
    async fn a_bounded_number_of_slow_keys_is_remembered() {
        let mut slots = Slots::new(1, 1);
        for number in 0..=MAX_KEYS {
            slots.remember(of_one(number), Slowness::Waits);
        }
        assert_eq!(slots.slow.len(), 1);
    }
}
