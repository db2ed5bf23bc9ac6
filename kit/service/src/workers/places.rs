//! Which jobs a queue's worker may start. A job works for a moment and then waits for its receiver, which costs a connection
//! and little else: so it keeps its place for that moment only, and receivers that hang, however many, hold up no other
//! job. Keys that were slow before wait from the start, and may hold half of the room for waiting. Pure: time is a parameter.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::task::Id;
use tokio::time::Instant;
use uuid::Uuid;

/// How long a job keeps its place.
pub(super) const WORKS_FOR: Duration = Duration::from_millis(500);
/// Jobs that wait, beside each place: as many receivers can hang for a lease.
const WAITING_PER_PLACE: usize = 32;
/// Slow keys that are remembered; past this all are forgotten, and found again.
const MAX_SLOW_KEYS: usize = 10_000;

/// The running jobs of one queue.
pub(super) struct Places {
    most: usize,
    per_key: usize,
    running: HashMap<Id, Running>,
    /// Keys whose last job waited for its receiver.
    slow: HashSet<Uuid>,
}

struct Running {
    key: Uuid,
    since: Instant,
    /// Its key was slow when it started.
    was_slow: bool,
}

impl Running {
    fn waits(&self, now: Instant) -> bool {
        self.was_slow || self.has_waited(now)
    }

    fn has_waited(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= WORKS_FOR
    }
}

impl Places {
    pub(super) fn new(most: usize, per_key: usize) -> Self {
        Self { most, per_key, running: HashMap::new(), slow: HashSet::new() }
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    pub(super) fn start(&mut self, id: Id, key: Uuid, since: Instant) {
        self.running.insert(id, Running { key, since, was_slow: self.slow.contains(&key) });
    }

    /// Frees what a job held; true when another job may have waited for it.
    pub(super) fn end(&mut self, id: Id, now: Instant) -> bool {
        let was_full = self.room(now) == 0 || self.slow_are_held_back(now);
        let Some(ended) = self.running.remove(&id) else { return was_full };
        if ended.has_waited(now) {
            self.remember(ended.key);
        } else {
            self.slow.remove(&ended.key);
        }
        let same = self.running.values().filter(|other| other.key == ended.key).count();
        was_full || same + 1 >= self.per_key
    }

    /// How many jobs may be started.
    pub(super) fn room(&self, now: Instant) -> usize {
        let waiting = self.waiting(now);
        let working = self.running.len() - waiting;
        // Past the room for waiting, a job that waits holds a place after all.
        self.most.saturating_sub(working + waiting.saturating_sub(self.room_for_waiting()))
    }

    /// The keys that have running jobs with their numbers, and slow ones as full while there is no room for them.
    pub(super) fn busy(&mut self, now: Instant) -> (Vec<Uuid>, Vec<i64>) {
        let found: Vec<Uuid> =
            self.running.values().filter(|job| job.has_waited(now)).map(|job| job.key).collect();
        for key in found {
            self.remember(key);
        }
        let mut busy: HashMap<Uuid, i64> = HashMap::new();
        for job in self.running.values() {
            *busy.entry(job.key).or_default() += 1;
        }
        if self.slow_are_held_back(now) {
            let full = i64::try_from(self.per_key).unwrap_or(i64::MAX);
            busy.extend(self.slow.iter().map(|key| (*key, full)));
        }
        busy.into_iter().unzip()
    }

    /// How long until a working job waits, and so leaves its place.
    pub(super) fn next_room(&self, now: Instant) -> Option<Duration> {
        let working = self.running.values().filter(|job| !job.waits(now));
        working.map(|job| (job.since + WORKS_FOR).saturating_duration_since(now)).min()
    }

    fn waiting(&self, now: Instant) -> usize {
        self.running.values().filter(|job| job.waits(now)).count()
    }

    const fn room_for_waiting(&self) -> usize {
        self.most.saturating_mul(WAITING_PER_PLACE)
    }

    /// The other half is for keys that nothing is known of yet.
    fn slow_are_held_back(&self, now: Instant) -> bool {
        self.waiting(now) >= self.room_for_waiting() / 2
    }

    fn remember(&mut self, key: Uuid) {
        if self.slow.len() >= MAX_SLOW_KEYS {
            self.slow.clear();
        }
        self.slow.insert(key);
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    /// Ids of tasks, which nothing else makes.
    async fn ids(count: usize) -> Vec<Id> {
        let mut tasks = JoinSet::new();
        let ids = (0..count).map(|_| tasks.spawn(std::future::ready(())).id()).collect();
        tasks.join_all().await;
        ids
    }

    fn key(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    const MOMENT: Duration = Duration::from_millis(499);

    #[tokio::test]
    async fn a_job_keeps_its_place_for_a_moment_and_then_waits_beside() {
        let (mut places, start, ids) = (Places::new(4, 4), Instant::now(), ids(4).await);
        for id in &ids {
            places.start(*id, key(1), start);
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
        places.start(ids[0], key(1), start);
        places.end(ids[0], start + WORKS_FOR);
        places.start(ids[1], key(1), start);
        assert_eq!(places.room(start), 1, "it takes no place");
        places.end(ids[1], start + MOMENT);
        places.start(ids[2], key(1), start);
        assert_eq!(places.room(start), 0, "it was quick");
        places.start(ids[3], key(2), start);
        assert!(places.end(ids[3], start));
    }

    #[tokio::test]
    async fn slow_keys_hold_half_of_the_room_for_waiting_and_unknown_ones_the_rest() {
        let (mut places, start, ids) = (Places::new(1, 2), Instant::now(), ids(33).await);
        let later = start + WORKS_FOR;
        for (number, id) in (0_u128..).zip(&ids[..15]) {
            places.start(*id, key(number), start);
        }
        let full = |(keys, jobs): (Vec<Uuid>, Vec<i64>)| {
            keys.iter().zip(jobs).filter(|(_, jobs)| *jobs == 2).count()
        };
        assert_eq!(full(places.busy(later)), 0, "there is room for the sixteenth");
        places.start(ids[15], key(15), start);
        assert_eq!(full(places.busy(later)), 16, "the slow ones are held back");
        assert!(places.end(ids[15], later), "one of them may go on");
        for (number, id) in (15_u128..).zip(&ids[15..32]) {
            places.start(*id, key(number), start);
        }
        assert_eq!(places.room(later), 1, "thirty-two wait beside one place");
        places.start(ids[32], key(32), start);
        assert_eq!(places.room(later), 0, "the next one that waits holds it");
    }

    #[tokio::test]
    async fn a_bounded_number_of_slow_keys_is_remembered() {
        let mut places = Places::new(1, 1);
        for number in 0..=u128::try_from(MAX_SLOW_KEYS).expect("small") {
            places.remember(key(number));
        }
        assert_eq!(places.slow.len(), 1);
    }
}
