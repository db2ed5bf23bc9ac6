//! [`Shelf`]: one worker's idle connections to one host: taken most recent first, put back after the end of an answer whose
//! request was sent in full, dropped when something happened to them or they grew old. Only its worker uses it, so its lock
//! is never waited for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::h1::call::Link;
use super::h2c::connection::Multiplexed;

/// Idle connections kept to one host; more than that are closed when they come back.
const MOST_IDLE: usize = 256;

/// Connections that wait for work.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    idle: Mutex<Vec<Idle>>,
    /// The one connection of a host that speaks HTTP/2.
    shared: Mutex<Option<Shared>>,
    reused: AtomicU64,
    dialled: AtomicU64,
}

#[derive(Debug)]
struct Idle {
    link: Box<Link>,
    since: Instant,
}

#[derive(Debug)]
struct Shared {
    connection: Multiplexed,
    used: Instant,
}

impl Shelf {
    /// A connection that is open and unused, if there is one.
    pub(crate) fn take(&self, longest_idle: Duration) -> Option<Box<Link>> {
        let mut idle = lock(&self.idle);
        while let Some(Idle { mut link, since }) = idle.pop() {
            if since.elapsed() < longest_idle && link.is_quiet() {
                self.reused.fetch_add(1, Ordering::Relaxed);
                return Some(link);
            }
        }
        None
    }

    pub(crate) fn put_back(&self, link: Box<Link>) {
        let mut idle = lock(&self.idle);
        if idle.len() < MOST_IDLE {
            idle.push(Idle { link, since: Instant::now() });
        }
    }

    /// Closes what is old, or was closed by the other side.
    pub(crate) fn sweep(&self, longest_idle: Duration) {
        lock(&self.idle).retain_mut(|idle| idle.since.elapsed() < longest_idle && idle.link.is_quiet());
        let mut shared = lock(&self.shared);
        let is_old = |shared: &Shared| shared.used.elapsed() >= longest_idle && shared.connection.is_idle();
        *shared = shared.take().filter(|shared| shared.connection.is_open() && !is_old(shared));
    }

    /// The open HTTP/2 connection.
    pub(crate) fn shared(&self) -> Option<Multiplexed> {
        let mut shared = lock(&self.shared);
        let shared = shared.as_mut().filter(|shared| shared.connection.is_open())?;
        shared.used = Instant::now();
        self.reused.fetch_add(1, Ordering::Relaxed);
        Some(shared.connection.clone())
    }

    /// Counts a connection that was made because none was open.
    pub(crate) fn dialled(&self) {
        self.dialled.fetch_add(1, Ordering::Relaxed);
    }

    /// How many connections were taken from here, and how many had to be made.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.reused.load(Ordering::Relaxed), self.dialled.load(Ordering::Relaxed))
    }

    pub(crate) fn share(&self, connection: Multiplexed) {
        *lock(&self.shared) = Some(Shared { connection, used: Instant::now() });
    }
}

fn lock<T>(of_one_worker: &Mutex<T>) -> MutexGuard<'_, T> {
    of_one_worker.lock().unwrap_or_else(PoisonError::into_inner)
}
