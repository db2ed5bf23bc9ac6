//! Which jobs a queue's worker may start. A job computes briefly and then waits for its receiver, which costs little
//! more than a connection. It therefore holds a slot only while it computes, so that hanging receivers, however many,
//! hold up no other job. Keys that were slow last time count as waiting from the start, and may hold half of the room
//! for waiting; those that hung last time may hold a quarter, with one job at a time each. When the rest runs short,
//! jobs of unknown keys are cut off as soon as they hang: their next attempt gets its full time among the hanging ones.
//! Pure: time is a parameter.

use std::collections::HashMap;
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
pub(super) struct Places {
    most: usize,
    per_key: usize,
    running: HashMap<Id, Running>,
    /// Keys whose last job waited for its receiver.
    slow: HashMap<Uuid, Slowness>,
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
    key: Uuid,
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
        self.was.is_none() && self.cut.as_ref().is_some_and(|cut| !cut.is_cancelled())
    }
}

impl Places {
    pub(super) fn new(most: usize, per_key: usize) -> Self {
        Self { most, per_key, running: HashMap::new(), slow: HashMap::new() }
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Starts a job. `cut` ends the attempt early, if the job has another one.
    pub(super) fn start(&mut self, id: Id, key: Uuid, since: Instant, cut: Option<CancellationToken>) {
        let was = self.slow.get(&key).copied();
        self.running.insert(id, Running { key, since, was, cut });
    }

    /// Frees what a job held; true when another job may have waited for it.
    pub(super) fn end(&mut self, id: Id, now: Instant) -> bool {
        let was_full = self.room(now) == 0 || self.slow_are_held_back(now) || self.hanging_are_held_back();
        let Some(ended) = self.running.remove(&id) else { return was_full };
        let was = self.slow.get(&ended.key).copied();
        match ended.shows(now) {
            Some(slowness) => self.remember(ended.key, slowness),
            None => drop(self.slow.remove(&ended.key)),
        }
        let same = self.running.values().filter(|other| other.key == ended.key).count();
        was_full || was == Some(Slowness::Hangs) || same + 1 >= self.per_key
    }

    /// How many jobs may start.
    pub(super) fn room(&self, now: Instant) -> usize {
        let waiting = self.waiting(now);
        let working = self.running.len() - waiting;
        // Past the room for waiting, a waiting job holds a slot after all.
        self.most.saturating_sub(working + waiting.saturating_sub(self.room_for_waiting()))
    }

    /// The keys with running jobs and their numbers; slow keys are reported as full while there is no room for them.
    pub(super) fn busy(&mut self, now: Instant) -> (Vec<Uuid>, Vec<i64>) {
        let found: Vec<_> =
            self.running.values().filter_map(|job| Some((job.key, job.shows(now)?))).collect();
        for (key, slowness) in found {
            self.remember(key, self.slow.get(&key).map_or(slowness, |known| slowness.max(*known)));
        }
        let mut busy: HashMap<Uuid, i64> = HashMap::new();
        for job in self.running.values() {
            *busy.entry(job.key).or_default() += 1;
        }
        let full = i64::try_from(self.per_key).unwrap_or(i64::MAX);
        for (key, jobs) in &mut busy {
            if self.slow.get(key) == Some(&Slowness::Hangs) {
                *jobs = full;
            }
        }
        let (slow, hanging) = (self.slow_are_held_back(now), self.hanging_are_held_back());
        if slow || hanging {
            let held = self.slow.iter().filter(|(_, slowness)| slow || **slowness == Slowness::Hangs);
            busy.extend(held.map(|(key, _)| (*key, full)));
        }
        busy.into_iter().unzip()
    }

    /// How long until a working job waits, and so frees its slot.
    pub(super) fn next_room(&self, now: Instant) -> Option<Duration> {
        let working = self.running.values().filter(|job| !job.waits(now));
        working.map(|job| (job.since + WORKS_FOR).saturating_duration_since(now)).min()
    }

    /// Cuts off hanging jobs while less than a quarter of the room for waiting is left, the longest first; returns the
    /// time until the next one hangs, if room is short.
    pub(super) fn cut(&self, now: Instant) -> Option<Duration> {
        let short = self.waiting(now).checked_sub(self.room_for_waiting() * 3 / 4)?;
        let mut known: Vec<_> = self.running.values().filter(|job| job.may_be_cut()).collect();
        known.sort_unstable_by_key(|job| job.since);
        let hang = known.partition_point(|job| job.lasts(now) >= HANGS_AFTER);
        for job in known.iter().take(hang.min(short)) {
            if let Some(cut) = &job.cut {
                cut.cancel();
            }
        }
        known.get(hang).map(|job| HANGS_AFTER.saturating_sub(job.lasts(now)))
    }

    fn waiting(&self, now: Instant) -> usize {
        self.running.values().filter(|job| job.waits(now)).count()
    }

    fn room_for_waiting(&self) -> usize {
        self.most.saturating_mul(WAITING_PER_PLACE).min(MAX_WAITING)
    }

    /// Whether slow keys are held back: the other half of the room is for unknown keys.
    fn slow_are_held_back(&self, now: Instant) -> bool {
        self.waiting(now) >= self.room_for_waiting() / 2
    }

    fn hanging_are_held_back(&self) -> bool {
        let hanging = self.running.values().filter(|job| job.was == Some(Slowness::Hangs)).count();
        hanging >= self.room_for_waiting() / 4
    }

    fn remember(&mut self, key: Uuid, slowness: Slowness) {
        if self.slow.len() >= MAX_KEYS {
            self.slow.clear();
        }
        self.slow.insert(key, slowness);
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

    fn key(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    const MOMENT: Duration = Duration::from_millis(24);

    fn full((keys, jobs): (Vec<Uuid>, Vec<i64>), per_key: i64) -> usize {
        keys.iter().zip(jobs).filter(|(_, jobs)| *jobs == per_key).count()
    }

    #[tokio::test]
    async fn a_job_keeps_its_place_for_a_moment_and_then_waits_beside() {
        let (mut places, start, ids) = (Places::new(4, 4), Instant::now(), ids(4).await);
        for id in &ids {
            places.start(*id, key(1), start, None);
        }
        assert_eq!((places.room(start + MOMENT), places.next_room(start)), (0, Some(WORKS_FOR)));
        assert_eq!((places.room(start + WORKS_FOR), places.next_room(start + WORKS_FOR)), (4, None));
        assert_eq!(places.busy(start + WORKS_FOR), (vec![key(1)], vec![4]), "the key itself is full");
        assert!(places.end(ids[0], start + MOMENT), "somebody may have waited for the place");
        assert_eq!((places.running(), places.room(start + MOMENT)), (3, 1));
    }

    #[tokio::test]
    async fn jobs_of_a_key_that_was_slow_wait_from_the_start_until_one_is_quick() {
        let (mut places, start, ids) = (Places::new(1, 2), Instant::now(), ids(4).await);
        places.start(ids[0], key(1), start, None);
        places.end(ids[0], start + SLOW_AFTER);
        places.start(ids[1], key(1), start, None);
        assert_eq!(places.room(start), 1, "it takes no place");
        places.end(ids[1], start + MOMENT);
        places.start(ids[2], key(1), start, None);
        assert_eq!(places.room(start), 0, "it was quick");
        places.start(ids[3], key(2), start, None);
        assert!(places.end(ids[3], start));
    }

    #[tokio::test]
    async fn slow_keys_hold_half_of_the_room_for_waiting_and_unknown_ones_the_rest() {
        let (mut places, start, ids) = (Places::new(1, 2), Instant::now(), ids(129).await);
        let later = start + SLOW_AFTER;
        for (number, id) in (0_u128..).zip(&ids[..63]) {
            places.start(*id, key(number), start, None);
        }
        assert_eq!(full(places.busy(later), 2), 0, "there is room for one more");
        places.start(ids[63], key(63), start, None);
        assert_eq!(full(places.busy(later), 2), 64, "the slow ones are held back");
        assert!(places.end(ids[63], later), "one of them may go on");
        for (number, id) in (63_u128..).zip(&ids[63..128]) {
            places.start(*id, key(number), start, None);
        }
        assert_eq!(places.room(later), 1, "so many wait beside one place");
        places.start(ids[128], key(128), start, None);
        assert_eq!(places.room(later), 0, "the next one that waits holds it");
    }

    #[tokio::test]
    async fn a_key_that_hung_has_one_job_at_a_time_and_all_of_them_a_quarter_of_the_room() {
        let (mut places, start, ids) = (Places::new(1, 4), Instant::now(), ids(32).await);
        for number in 0..40 {
            places.remember(key(number), Slowness::Hangs);
        }
        places.start(ids[0], key(0), start, None);
        assert_eq!(
            places.busy(start),
            (vec![key(0)], vec![4]),
            "one is enough to see whether it hangs still"
        );
        assert_eq!(places.room(start), 1, "and takes no place");
        for (number, id) in (1_u128..).zip(&ids[1..]) {
            places.start(*id, key(number), start, None);
        }
        assert_eq!(full(places.busy(start), 4), 40, "there is room for no other one that hung");
        assert!(places.end(ids[0], start + MOMENT), "until one ends");
        assert_eq!(full(places.busy(start + MOMENT), 4), 31);
        assert!(!places.slow.contains_key(&key(0)), "this one hangs no more");
    }

    #[tokio::test]
    async fn jobs_of_unknown_keys_that_hang_are_cut_off_where_room_gets_short_and_there_is_another_attempt() {
        let (mut places, start, ids) = (Places::new(1, 1), Instant::now(), ids(100).await);
        let cuts: Vec<_> = ids.iter().map(|_| CancellationToken::new()).collect();
        let cut = |at: usize| cuts[at].is_cancelled();
        places.remember(key(2), Slowness::Hangs);
        for (at, id) in ids.iter().enumerate().take(98) {
            let since = start + Duration::from_millis(u64::try_from(at).expect("small"));
            let may = (at != 1).then(|| cuts[at].clone());
            places.start(*id, key(u128::try_from(at).expect("small")), since, may);
        }
        let hang = start + HANGS_AFTER + Duration::from_millis(4);
        assert_eq!(places.cut(start + WORKS_FOR), None, "it is a quarter that is left");
        assert_eq!(places.cut(hang), Some(Duration::from_millis(1)), "the next one hangs soon");
        assert!(cut(0) && cut(3) && !cut(1) && !cut(2) && !cut(4), "two too many, the longest first");
        places.end(ids[0], hang);
        places.end(ids[3], hang);
        assert_eq!((places.cut(hang), cut(4)), (Some(Duration::from_millis(1)), false), "there is room now");
        let (keys, jobs) = places.busy(hang);
        let running = keys.iter().position(|busy| *busy == key(4)).map(|at| jobs[at]);
        assert_eq!(running, Some(1), "what hangs is known to hang");
    }

    #[tokio::test]
    async fn a_bounded_number_of_slow_keys_is_remembered() {
        let mut places = Places::new(1, 1);
        for number in 0..=u128::try_from(MAX_KEYS).expect("small") {
            places.remember(key(number), Slowness::Waits);
        }
        assert_eq!(places.slow.len(), 1);
    }
}
