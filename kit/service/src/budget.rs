//! The time limit of a request. Only the service's own time counts: the clock stops while the client owes the next
//! chunk of the body, because judging slow clients is the gateway's job.

use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, sleep, timeout};

/// Longest wait for one chunk of a body. The gateway gives up after `PLATFORM_GATEWAY_BODY_IDLE`, but it is not the
/// only client of a service.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// How often the elapsed time is checked while waiting for a chunk.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the work on the request; returns `None` and drops the work when the time is up.
pub(crate) async fn within<T>(
    limit: Duration,
    request: Request,
    work: impl AsyncFnOnce(Request) -> T,
) -> Option<T> {
    if http_body::Body::is_end_stream(request.body()) {
        return timeout(limit, work(request)).await.ok();
    }
    let (waits, begun) = (Arc::new(Waits::default()), Instant::now());
    let watched = Arc::clone(&waits);
    let mut work = pin!(work(request.map(|body| Body::new(Watched { body, waits: watched }))));
    loop {
        let (now, waits) = (Instant::now(), *waits.lock());
        let waiting = waits.since.map(|since| now - since);
        let left = (limit + waits.past + waiting.unwrap_or_default()).saturating_sub(now - begun);
        if left.is_zero() || waiting.is_some_and(|waiting| waiting >= LONGEST_WAIT) {
            return None;
        }
        let pause = if waiting.is_some() { left.max(LOOK) } else { left };
        tokio::select! {
            biased;
            done = &mut work => return Some(done),
            () = sleep(pause) => {}
        }
    }
}

/// How long the service has waited for the client.
#[derive(Default)]
struct Waits(Mutex<Waited>);

#[derive(Clone, Copy, Default)]
struct Waited {
    past: Duration,
    /// Since when the reader has been waiting for the next chunk.
    since: Option<Instant>,
}

impl Waits {
    fn lock(&self) -> MutexGuard<'_, Waited> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A body that records when its reader waits for the client.
struct Watched {
    body: Body,
    waits: Arc<Waits>,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let mut waits = self.waits.lock();
        if polled.is_pending() {
            waits.since.get_or_insert_with(Instant::now);
        } else if let Some(since) = waits.since.take() {
            waits.past += since.elapsed();
        }
        drop(waits);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Watched {
    /// A reader that drops the body no longer waits for it.
    fn drop(&mut self) {
        let mut waits = self.waits.lock();
        if let Some(since) = waits.since.take() {
            waits.past += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::sync::mpsc;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(4);

    /// A body that arrives chunk by chunk.
    struct Pieces(mpsc::Receiver<Bytes>);

    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
            self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
        }
    }

    fn request() -> (mpsc::Sender<Bytes>, Request) {
        let (sender, receiver) = mpsc::channel(1);
        (sender, Request::new(Body::new(Pieces(receiver))))
    }

    async fn read_then_work(request: Request, own: Duration) -> usize {
        let read = request.into_body().collect().await.expect("a body").to_bytes().len();
        sleep(own).await;
        read
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_takes_none_of_the_time_and_slow_work_does() {
        for (own, expected) in [(LIMIT / 2, Some(5)), (LIMIT + Duration::from_millis(1), None)] {
            let (sender, request) = request();
            let client = tokio::spawn(async move {
                for _ in 0..5 {
                    sleep(Duration::from_secs(20)).await;
                    sender.send(Bytes::from_static(b"x")).await.expect("the body is read");
                }
            });
            let found = within(LIMIT, request, async |request| read_then_work(request, own).await).await;
            assert_eq!(found, expected, "{own:?}");
            client.await.expect("the client sent all");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_nothing_is_given_up() {
        let (_sender, request) = request();
        let begun = Instant::now();
        let found =
            within(LIMIT, request, async |request| read_then_work(request, Duration::ZERO).await).await;
        assert_eq!(found, None);
        assert!(begun.elapsed() >= LONGEST_WAIT && begun.elapsed() < LONGEST_WAIT + LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn work_without_a_body_has_the_limit() {
        for (own, expected) in [(LIMIT * 2, None), (LIMIT / 2, Some(0))] {
            let request = Request::new(Body::empty());
            let found = within(LIMIT, request, async |request| read_then_work(request, own).await).await;
            assert_eq!(found, expected);
        }
    }
}
