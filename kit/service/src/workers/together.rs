//! Settles several completed jobs at a time. While one statement is in flight, the jobs that end meanwhile gather for
//! the next: the busier the queue, the fewer commits per job, and a single job is settled at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::{Attempted, Queue};
use crate::panics::caught;

/// Most jobs that one statement settles.
const MOST: usize = 64;

type Done<Q> = Arc<Attempted<<Q as Queue>::Job, <Q as Queue>::Report>>;

struct Waiting<Q: Queue> {
    done: Done<Q>,
    /// Receives whether the job is settled; when dropped, the job must be settled on its own.
    told: oneshot::Sender<bool>,
}

/// The jobs of one queue that wait for settlement.
pub(super) struct Together<Q: Queue> {
    waiting: Mutex<VecDeque<Waiting<Q>>>,
    /// The holder settles all waiting jobs.
    turn: tokio::sync::Mutex<()>,
}

impl<Q: Queue> Together<Q> {
    pub(super) fn new() -> Self {
        Self { waiting: Mutex::default(), turn: tokio::sync::Mutex::new(()) }
    }

    /// Settles the job: returns whether its lease was valid and it is settled, or `None` when nothing is stored and it
    /// must be settled on its own.
    pub(super) async fn settle(&self, queue: &Q, done: Done<Q>) -> Option<bool> {
        let (told, mut answer) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(Waiting { done, told });
        loop {
            let _turn = self.turn.lock().await;
            match answer.try_recv() {
                Ok(stored) => return Some(stored),
                Err(TryRecvError::Closed) => return None,
                Err(TryRecvError::Empty) => self.settle_first(queue).await,
            }
        }
    }

    async fn settle_first(&self, queue: &Q) {
        let first: Vec<Waiting<Q>> = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let many = waiting.len().min(MOST);
            waiting.drain(..many).collect()
        };
        let done: Vec<Done<Q>> = first.iter().map(|one| Arc::clone(&one.done)).collect();
        match caught(queue.settle_done(&done)).await {
            Ok(Ok(Some(stored))) => {
                for one in first {
                    let is_stored = stored.contains(&one.done.job.lease.id);
                    if one.told.send(is_stored).is_err() {
                        tracing::debug!(id = %one.done.job.lease.id, is_stored, "settled after its lease");
                    }
                }
            }
            Ok(Ok(None)) => {}
            Ok(Err(error)) => tracing::debug!(%error, "settling completed jobs one by one"),
            Err(panic) => tracing::error!(panic, "the settlement of several jobs panicked"),
        }
    }
}
