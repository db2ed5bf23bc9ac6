//! [`Shelf`]: one worker's idle connections to one host: taken most recent first, put back after the end of an answer whose
//! request was sent in full, dropped when something happened to them or they grew old. Only its worker uses it, so its lock
//! is never waited for.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::client::conn::http2::SendRequest;
use tokio::time::Instant;

use super::h1::call::Link;
use super::upload::Upload;

/// Idle connections kept to one host; more than that are closed when they come back.
const MOST_IDLE: usize = 256;

/// Connections that wait for work.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    idle: Mutex<Vec<Idle>>,
    /// The one connection of a host that speaks HTTP/2.
    shared: Mutex<Option<SendRequest<Upload>>>,
}

#[derive(Debug)]
struct Idle {
    link: Box<Link>,
    since: Instant,
}

impl Shelf {
    /// A connection that is open and unused, if there is one.
    pub(crate) fn take(&self, longest_idle: Duration) -> Option<Box<Link>> {
        let mut idle = lock(&self.idle);
        while let Some(Idle { link, since }) = idle.pop() {
            if since.elapsed() < longest_idle && link.is_quiet() {
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
        lock(&self.idle).retain(|idle| idle.since.elapsed() < longest_idle && idle.link.is_quiet());
        let mut shared = lock(&self.shared);
        if shared.as_ref().is_some_and(SendRequest::is_closed) {
            *shared = None;
        }
    }

    /// The open HTTP/2 connection.
    pub(crate) fn shared(&self) -> Option<SendRequest<Upload>> {
        lock(&self.shared).as_ref().filter(|sender| !sender.is_closed()).cloned()
    }

    pub(crate) fn share(&self, sender: SendRequest<Upload>) {
        *lock(&self.shared) = Some(sender);
    }
}

fn lock<T>(of_one_worker: &Mutex<T>) -> MutexGuard<'_, T> {
    of_one_worker.lock().unwrap_or_else(PoisonError::into_inner)
}
