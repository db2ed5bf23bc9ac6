//! Idle connections to upstreams, by address: checked out most recent first, given back after the end of an answer whose
//! request was sent in full, dropped when closed or old. Each connection is driven by a task of its own, so that a FIN on
//! an idle one is noticed. Also the limit of requests in flight to one address.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::client::conn::http1::SendRequest;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use super::Authority;
use super::upload::{Progress, Upload};

/// Idle connections kept to one address; more than that are closed when they come back.
const MAX_IDLE: usize = 256;

/// Every upstream address this edge has spoken to.
#[derive(Debug)]
pub(crate) struct Pool {
    hosts: Mutex<HashMap<Authority, Arc<Host>>>,
    concurrency: usize,
    longest_idle: Duration,
}

/// One address.
#[derive(Debug)]
pub(crate) struct Host {
    idle: Mutex<Vec<Idle>>,
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
    concurrency: usize,
    longest_idle: Duration,
}

#[derive(Debug)]
struct Idle {
    sender: SendRequest<Upload>,
    since: Instant,
}

impl Pool {
    pub(crate) fn new(concurrency: usize, longest_idle: Duration) -> Self {
        Self { hosts: Mutex::default(), concurrency, longest_idle }
    }

    pub(crate) fn host(&self, authority: &Authority) -> Arc<Host> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = hosts.get(authority) {
            return Arc::clone(host);
        }
        let host = Arc::new(Host {
            idle: Mutex::default(),
            slots: Arc::new(Semaphore::new(self.concurrency)),
            waiting: AtomicUsize::new(0),
            concurrency: self.concurrency,
            longest_idle: self.longest_idle,
        });
        hosts.insert(authority.clone(), Arc::clone(&host));
        host
    }

    /// Closes connections that have been idle for too long; called from time to time.
    pub(crate) fn sweep(&self) {
        let hosts: Vec<_> =
            self.hosts.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for host in hosts {
            host.keep_fresh();
        }
    }
}

impl Host {
    /// A turn at this upstream, or `None` when as many wait already as may be in flight.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned() {
            return Some(permit);
        }
        let waiting = Waiting::among(&self.waiting, self.concurrency)?;
        let permit = Arc::clone(&self.slots).acquire_owned().await.ok();
        drop(waiting);
        permit
    }

    /// A connection that is open and ready, if there is one.
    pub(crate) async fn checkout(&self) -> Option<SendRequest<Upload>> {
        while let Some(mut idle) = self.pop() {
            let fresh = idle.since.elapsed() < self.longest_idle && !idle.sender.is_closed();
            if fresh && idle.sender.ready().await.is_ok() {
                return Some(idle.sender);
            }
        }
        None
    }

    fn pop(&self) -> Option<Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn push(&self, sender: SendRequest<Upload>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE && !sender.is_closed() {
            idle.push(Idle { sender, since: Instant::now() });
        }
    }

    fn keep_fresh(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|idle| idle.since.elapsed() < self.longest_idle && !idle.sender.is_closed());
    }
}

/// One of those who wait for a turn; leaving the queue, by a turn or by giving up, is its drop.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn among(waiting: &'a AtomicUsize, most: usize) -> Option<Self> {
        let before = waiting.fetch_add(1, Ordering::AcqRel);
        let one = Self(waiting);
        (before < most).then_some(one)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A connection in use: dropped, it is closed; given back, it serves again.
pub(crate) struct Lease {
    pub(crate) host: Arc<Host>,
    pub(crate) sender: SendRequest<Upload>,
    pub(crate) upload: Option<watch::Receiver<Progress>>,
    pub(crate) _turn: OwnedSemaphorePermit,
}

impl Lease {
    pub(crate) fn give_back(self) {
        // An answer that came before the request was sent in full leaves the connection in the middle of a message.
        let sent = self.upload.as_ref().is_none_or(|upload| matches!(*upload.borrow(), Progress::Sent(_)));
        if sent {
            self.host.push(self.sender);
        }
    }
}
