//! The queue for password hashing. Hashing occupies a core for a while, so at most half of the cores hash at a time and
//! further attempts wait in lines: one for each account on a known device, and one for each address. There are three
//! ranks of lines: known devices, addresses without recent failures, and the others. The ranks are served in turn and
//! each has its own capacity, so that a flood of wrong passwords neither fills the capacity of others nor is served
//! before them. Bounded; it knows no passwords.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use uuid::Uuid;

/// Most attempts waiting in one line; further ones are refused.
const WAITING_IN_LINE: usize = 8;
/// Most attempts waiting in all lines of one rank: some seconds of work of one core. Half of the capacity is reserved
/// for known devices and addresses without recent failures.
const WAITING_IN_RANK: [usize; 3] = [64, 192, 256];
/// The rank that is served first in each turn; every rank occurs.
const TURNS: [usize; 4] = [KNOWN, CLEAN, KNOWN, OTHER];
const KNOWN: usize = 0;
const CLEAN: usize = 1;
const OTHER: usize = 2;

/// The line in which an attempt waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// The provider's own work, and operators' requests.
    Inside,
    /// A known device of this account.
    Device(Uuid),
    /// An address, for IPv6 its site.
    Address { address: Option<IpAddr>, has_failed: bool },
}

impl Line {
    const fn rank(self) -> usize {
        match self {
            Self::Inside | Self::Device(_) => KNOWN,
            Self::Address { has_failed: false, .. } => CLEAN,
            Self::Address { has_failed: true, .. } => OTHER,
        }
    }
}

/// The line or its rank is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The queue. Clones share it.
#[derive(Clone)]
pub(crate) struct Queue(Arc<Mutex<State>>);

struct State {
    free: usize,
    ranks: [Rank; 3],
    turn: usize,
}

#[derive(Default)]
struct Rank {
    waiting: usize,
    /// The first line is served next.
    lines: VecDeque<(Line, VecDeque<oneshot::Sender<()>>)>,
}

/// A permit to hash; dropping it lets the next attempt begin.
pub(crate) struct HashPermit(Queue);

/// A waiting attempt. If it is cancelled, its permit passes to the next one.
struct Waiting {
    queue: Queue,
    called: oneshot::Receiver<()>,
    is_done: bool,
}

impl Queue {
    /// Creates a queue that admits `at_once` hashes at a time.
    pub(crate) fn new(at_once: usize) -> Self {
        Self(Arc::new(Mutex::new(State { free: at_once.max(1), ranks: Default::default(), turn: 0 })))
    }

    /// Waits for a permit.
    pub(crate) async fn permit(&self, line: Line) -> Result<HashPermit, Full> {
        let Some(called) = self.lock().enter(line)? else { return Ok(HashPermit(self.clone())) };
        let mut waiting = Waiting { queue: self.clone(), called, is_done: false };
        // The sender is dropped only after it has sent.
        let _called = (&mut waiting.called).await;
        waiting.is_done = true;
        Ok(HashPermit(self.clone()))
    }

    /// A panic while the lock is held leaves the lines valid, so a poisoned lock is used as it is.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes a free permit, or else joins the line.
    fn enter(&mut self, line: Line) -> Result<Option<oneshot::Receiver<()>>, Full> {
        if self.free > 0 {
            self.free -= 1;
            return Ok(None);
        }
        let Some(rank) = self.ranks.get_mut(line.rank()) else { return Err(Full) };
        let most = WAITING_IN_RANK.get(line.rank()).copied().unwrap_or_default();
        if rank.waiting >= most {
            rank.forget_given_up();
        }
        if rank.waiting >= most {
            return Err(Full);
        }
        rank.enter(line).map(Some)
    }

    /// Passes a returned permit to the next waiting attempt.
    fn leave(&mut self) {
        let first = TURNS.get(self.turn).copied().unwrap_or_default();
        self.turn = (self.turn + 1) % TURNS.len();
        for rank in [first, KNOWN, CLEAN, OTHER] {
            while let Some(waiting) = self.ranks.get_mut(rank).and_then(Rank::next) {
                if waiting.send(()).is_ok() {
                    return;
                }
            }
        }
        self.free += 1;
    }
}

impl Rank {
    fn enter(&mut self, line: Line) -> Result<oneshot::Receiver<()>, Full> {
        let (call, called) = oneshot::channel();
        match self.lines.iter_mut().find(|(known, _)| *known == line) {
            None => self.lines.push_back((line, VecDeque::from([call]))),
            Some((_, waiting)) => {
                let before = waiting.len();
                waiting.retain(|call| !call.is_closed());
                self.waiting -= before - waiting.len();
                if waiting.len() >= WAITING_IN_LINE {
                    return Err(Full);
                }
                waiting.push_back(call);
            }
        }
        self.waiting += 1;
        Ok(called)
    }

    /// Takes the first attempt of the first line, and moves the line to the end.
    fn next(&mut self) -> Option<oneshot::Sender<()>> {
        loop {
            let (line, mut waiting) = self.lines.pop_front()?;
            let first = waiting.pop_front();
            if !waiting.is_empty() {
                self.lines.push_back((line, waiting));
            }
            if let Some(first) = first {
                self.waiting -= 1;
                return Some(first);
            }
        }
    }

    fn forget_given_up(&mut self) {
        for (_, waiting) in &mut self.lines {
            waiting.retain(|call| !call.is_closed());
        }
        self.lines.retain(|(_, waiting)| !waiting.is_empty());
        self.waiting = self.lines.iter().map(|(_, waiting)| waiting.len()).sum();
    }
}

impl Drop for HashPermit {
    fn drop(&mut self) {
        self.0.lock().leave();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        self.called.close();
        if self.called.try_recv().is_ok() {
            self.queue.lock().leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const DEVICE: Line = Line::Device(Uuid::nil());

    fn address(last: u8, has_failed: bool) -> Line {
        Line::Address { address: Some(IpAddr::from([192, 0, 2, last])), has_failed }
    }

    /// Joins lines of a queue whose only permit is taken; each call of the returned futures is seen at once.
    async fn served(lines: &[Line]) -> Vec<Line> {
        let queue = Queue::new(1);
        let first = queue.permit(Line::Inside).await.expect("free");
        let mut waiting = Vec::new();
        for line in lines {
            let mut turn = Box::pin(queue.permit(*line));
            assert!((&mut turn).now_or_never().is_none(), "the permit is taken");
            waiting.push((*line, turn));
        }
        drop(first);
        let mut order = Vec::new();
        while !waiting.is_empty() {
            let mut called = None;
            for (index, (_, turn)) in waiting.iter_mut().enumerate() {
                if let Some(turn) = turn.now_or_never() {
                    assert!(called.is_none(), "one at once");
                    called = Some((index, turn.expect("a permit")));
                }
            }
            let (index, turn) = called.expect("somebody is called");
            order.push(waiting.remove(index).0);
            drop(turn);
        }
        order
    }

    #[tokio::test]
    async fn lines_of_one_rank_take_turns_and_so_do_ranks() {
        let (a, b, c) = (address(1, true), address(2, true), address(3, false));
        assert_eq!(served(&[a, a, a, b]).await, [a, b, a, a]);
        assert_eq!(served(&[a, a, c, DEVICE]).await, [DEVICE, c, a, a]);
        assert_eq!(served(&[DEVICE, DEVICE, DEVICE, a, c, c]).await, [DEVICE, c, DEVICE, a, DEVICE, c]);
    }

    #[tokio::test]
    async fn a_line_and_a_rank_are_bounded_and_leave_the_others_their_places() {
        let queue = Queue::new(1);
        let _running = queue.permit(Line::Inside).await.expect("free");
        let mut waiting = Vec::new();
        let mut enter = |line: Line| {
            let mut turn = Box::pin(queue.permit(line));
            let entered = (&mut turn).now_or_never();
            waiting.push(turn);
            entered.is_none()
        };
        for _ in 0..WAITING_IN_LINE {
            assert!(enter(address(0, true)));
        }
        assert!(!enter(address(0, true)), "one past the line's places");
        for number in 1..=u8::try_from(WAITING_IN_RANK[OTHER] - WAITING_IN_LINE).expect("small") {
            assert!(enter(address(number, true)));
        }
        assert!(!enter(address(200, true)), "one past the rank's places");
        assert!(enter(address(200, false)) && enter(DEVICE), "the others have theirs");
    }

    #[tokio::test]
    async fn who_gives_up_frees_the_place_and_the_turn() {
        let queue = Queue::new(1);
        let running = queue.permit(Line::Inside).await.expect("free");
        let mut given_up = Vec::new();
        for _ in 0..WAITING_IN_LINE {
            let mut turn = Box::pin(queue.permit(DEVICE));
            assert!((&mut turn).now_or_never().is_none());
            given_up.push(turn);
        }
        drop(given_up);
        let mut first = Box::pin(queue.permit(DEVICE));
        assert!((&mut first).now_or_never().is_none(), "a place is free again");
        drop(running);
        drop(first);
        assert!(
            queue.permit(DEVICE).now_or_never().is_some(),
            "an unclaimed permit goes to the next attempt"
        );
        assert_eq!(queue.lock().free, 1);
    }
}
