//! The drain: once it has begun, a connection ends with its current request.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Whether the drain has begun. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drain {
    token: CancellationToken,
    begun: Arc<AtomicBool>,
}

impl Drain {
    /// Begins the drain.
    pub(crate) fn begin(&self) {
        // Set first, because tasks woken by the token read it.
        self.begun.store(true, Ordering::SeqCst);
        self.token.cancel();
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }

    /// Runs `future` until the drain begins; `None` if the drain came first.
    pub(crate) async fn run_until<F: Future>(&self, future: F) -> Option<F::Output> {
        self.token.run_until_cancelled(future).await
    }

    /// Returns a token for one connection: a token shared by all connections would be contended.
    pub(crate) fn token(&self) -> CancellationToken {
        self.token.child_token()
    }

    /// Returns a watch for a connection that polls repeatedly.
    pub(crate) fn watch(&self) -> Watch {
        Watch { drain: self.clone(), begun: Box::pin(self.token().cancelled_owned()), waker: None }
    }
}

/// A registration that lasts as long as its connection: registering anew for each request would take locks.
#[derive(Debug)]
pub(crate) struct Watch {
    drain: Drain,
    begun: Pin<Box<WaitForCancellationFutureOwned>>,
    /// The waker currently registered.
    waker: Option<Waker>,
}

impl Watch {
    pub(crate) fn has_begun(&self) -> bool {
        self.drain.has_begun()
    }

    /// Resolves when the drain has begun.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.has_begun() {
            return Poll::Ready(());
        }
        if self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            return Poll::Pending;
        }
        self.waker = Some(context.waker().clone());
        self.begun.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn a_watch_wakes_whoever_asked_last_and_says_so_ever_after() {
        let drain = Drain::default();
        let mut watch = drain.watch();
        assert!(watch.poll(&mut Context::from_waker(Waker::noop())).is_pending(), "another waker");
        let task = tokio::spawn(async move {
            poll_fn(|context| watch.poll(context)).await;
            watch
        });
        tokio::task::yield_now().await;
        assert!(!task.is_finished() && !drain.has_begun());
        drain.begin();
        let mut watch = task.await.expect("it is woken");
        assert!(watch.has_begun());
        assert!(watch.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
}
