//! Catches a panic in one piece of work, so that a bug in one request, step or job does not end the others.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Runs the work and turns a panic into an error that holds its message. The work is dropped before this returns.
pub(crate) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let mut work = pin!(work);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        polled.map_or_else(|cause| Poll::Ready(Err(message(&*cause))), |polled| polled.map(Ok))
    })
    .await
}

fn message(cause: &(dyn Any + Send)) -> String {
    let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| cause.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
