//! [`IdlePool`]: one worker's idle connections to one host. Connections are taken most recent first, returned after an
//! answer whose request was sent in full, and dropped when anything arrives on them or they grow too old. Only its
//! worker uses the pool, so its lock is never contended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::upstream::http1::Link;
use crate::upstream::http2::connection::{Multiplexed, Slot};

/// Idle connections kept per host; further ones are closed when they are returned.
const MAX_IDLE: usize = 256;
/// Connections kept to an HTTP/2 host. Each carries as many requests as the host allows on one, so several are needed
/// only under load.
const MAX_SHARED: usize = 64;
/// How long a connection stays unused after an answer to HEAD and after a 304, unless it announces an empty body: a server
/// that wrongly sends a body does so right after the head, and it would be read as the next request's answer.
const REST: Duration = Duration::from_millis(50);

/// The idle connections.
#[derive(Debug, Default)]
pub(crate) struct IdlePool {
    idle: Mutex<Vec<Idle>>,
    /// Connections to an HTTP/2 host.
    shared: Mutex<Vec<Shared>>,
    reused: AtomicU64,
    dialled: AtomicU64,
}

#[derive(Debug)]
struct Idle {
    link: Box<Link>,
    /// Usable from this time on.
    since: Instant,
}

#[derive(Debug)]
struct Shared {
    connection: Multiplexed,
    used: Instant,
}

impl IdlePool {
    /// Takes an open idle connection, if there is one.
    pub(crate) fn take(&self, longest_idle: Duration, now: Instant) -> Option<Box<Link>> {
        let mut idle = lock(&self.idle);
        while let Some(rested) = idle.iter().rposition(|idle| idle.since <= now) {
            let Idle { mut link, since } = idle.remove(rested);
            if now.duration_since(since) < longest_idle && link.is_quiet() {
                self.reused.fetch_add(1, Ordering::Relaxed);
                return Some(link);
            }
        }
        None
    }

    pub(crate) fn put_back(&self, link: Box<Link>) {
        let mut idle = lock(&self.idle);
        if idle.len() < MAX_IDLE {
            let rest = if link.may_be_followed() { REST } else { Duration::ZERO };
            idle.push(Idle { link, since: Instant::now() + rest });
        }
    }

    /// Closes connections that are too old or were closed by the upstream.
    pub(crate) fn sweep(&self, longest_idle: Duration) {
        lock(&self.idle).retain_mut(|idle| idle.since.elapsed() < longest_idle && idle.link.is_quiet());
        let is_old = |shared: &Shared| shared.used.elapsed() >= longest_idle && shared.connection.is_idle();
        lock(&self.shared).retain(|shared| shared.connection.is_open() && !is_old(shared));
    }

    /// Takes a slot for one more request on an open HTTP/2 connection: the first with room, so that connections used
    /// only under load grow old.
    pub(crate) fn shared(&self) -> Option<Slot> {
        let mut all = lock(&self.shared);
        let slot = all.iter_mut().find_map(|shared| {
            let slot = shared.connection.slot()?;
            shared.used = Instant::now();
            Some(slot)
        })?;
        self.reused.fetch_add(1, Ordering::Relaxed);
        Some(slot)
    }

    /// Counts a connection that was dialled because none was open.
    pub(crate) fn dialled(&self) {
        self.dialled.fetch_add(1, Ordering::Relaxed);
    }

    /// Connections reused from here, and connections dialled.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.reused.load(Ordering::Relaxed), self.dialled.load(Ordering::Relaxed))
    }

    /// Shares a new HTTP/2 connection; beyond the limit, the connection ends with its first request.
    pub(crate) fn share(&self, connection: Multiplexed) {
        let mut all = lock(&self.shared);
        all.retain(|shared| shared.connection.is_open());
        if all.len() < MAX_SHARED {
            all.push(Shared { connection, used: Instant::now() });
        }
    }
}

fn lock<T>(of_one_worker: &Mutex<T>) -> MutexGuard<'_, T> {
    of_one_worker.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use http::{Method, Request};
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::body::upload::Upload;
    use crate::config::{Budgets, Capacity};
    use crate::upstream::socket::Socket;

    const LONG: Duration = Duration::from_mins(1);
    const MOMENT: Duration = Duration::from_nanos(1);
    const BUDGETS: Budgets = Budgets {
        dial: LONG,
        first_byte: LONG,
        body_idle: LONG,
        stream_idle: LONG,
        pool_idle: LONG,
        capacity: Capacity { requests: 1, share: 100 },
    };

    /// A connection after this answer.
    async fn answered(method: &Method, answer: &str) -> (Box<Link>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let mut link = Box::new(Link::new(Socket::plain(dialled.expect("a connection")), 0));
        link.begin(&Request::new(()), Upload::empty(), Instant::now());
        let (mut upstream, _) = accepted.expect("a connection");
        upstream.write_all(answer.as_bytes()).await.expect("sent");
        poll_fn(|context| link.poll_head(context, method, &BUDGETS)).await.expect("an answer");
        (link, upstream)
    }

    #[tokio::test]
    async fn an_answer_in_many_small_chunks_leaves_others_their_turn() {
        let answer = format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{}0\r\n\r\n",
            "1\r\nx\r\n".repeat(2_000)
        );
        let (mut link, _upstream) = answered(&Method::GET, &answer).await;
        let (mut in_a_row, mut most, mut all) = (0, 0, 0);
        poll_fn(|context| {
            loop {
                match link.poll_frame(context, &BUDGETS) {
                    Poll::Ready(Some(frame)) => {
                        frame.expect("a frame");
                        (in_a_row, all) = (in_a_row + 1, all + 1);
                        most = most.max(in_a_row);
                    }
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Pending => {
                        in_a_row = 0;
                        return Poll::Pending;
                    }
                }
            }
        })
        .await;
        assert_eq!(all, 2_000, "every chunk comes");
        assert!((100..=512).contains(&most), "{most}");
    }

    #[tokio::test]
    async fn a_connection_rests_where_a_body_that_may_not_be_there_might_follow() {
        let length =
            |status: &str, length: usize| format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n");
        for (method, answer, rests) in [
            (Method::HEAD, length("200 OK", 9), true),
            (Method::GET, length("304 Not Modified", 9), true),
            (Method::HEAD, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(), true),
            (Method::HEAD, length("200 OK", 0), false),
            (Method::HEAD, "HTTP/1.1 200 OK\r\n\r\n".to_owned(), true),
            (Method::GET, "HTTP/1.1 304 Not Modified\r\n\r\n".to_owned(), true),
            (Method::GET, length("304 Not Modified", 0), false),
            (Method::GET, "HTTP/1.1 204 No Content\r\n\r\n".to_owned(), false),
            (Method::GET, length("200 OK", 0), false),
        ] {
            let (link, _upstream) = answered(&method, &answer).await;
            let idle = IdlePool::default();
            let before = Instant::now();
            idle.put_back(link);
            let after = Instant::now();
            let early = idle.take(LONG, if rests { before + REST - MOMENT } else { after });
            assert_eq!(early.is_none(), rests, "{method} {answer}");
            let late = idle.take(LONG, after + REST);
            assert_eq!(late.is_some(), rests, "{method} {answer}");
        }
    }
}
