//! Loops: a step, a pause, the next step. Tests call the step; only this file has the loop.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use prometheus::IntCounterVec;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Workers;
use crate::panics::caught;

/// The work of a loop. Stateless closures are steps too: `FnMut() -> Future<Output = Result<Next, _>>`, where `()`
/// stands for [`Next::Interval`].
pub trait Step: Send + 'static {
    /// A step's error; it is logged.
    type Error: Display + Send;

    /// Runs one step. It may be dropped at any `await` when the drain timeout expires.
    fn step(&mut self) -> impl Future<Output = Result<Next, Self::Error>> + Send;
}

impl<F, S, N, E> Step for F
where
    F: FnMut() -> S + Send + 'static,
    S: Future<Output = Result<N, E>> + Send,
    N: Into<Next>,
    E: Display + Send,
{
    type Error = E;

    async fn step(&mut self) -> Result<Next, E> {
        self().await.map(Into::into)
    }
}

/// When a loop continues after a successful step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// After the interval of its [`Pace`].
    Interval,
    /// After this pause.
    In(Duration),
    /// When woken ([`Pace::woken_by`]).
    Woken,
    /// Never: its work is done.
    Done,
}

impl From<()> for Next {
    fn from((): ()) -> Self {
        Self::Interval
    }
}

/// The pauses of a loop. A [`Duration`] is the pace with that pause after every step.
#[derive(Clone, Debug)]
pub struct Pace {
    interval: Duration,
    delay: Duration,
    first_retry: Duration,
    last_retry: Duration,
    wake: Option<Arc<Notify>>,
    is_dropped_at_stop: bool,
}

impl Pace {
    /// Runs the first step at once, and each further step `interval` after the last one ended, successful or not.
    #[must_use]
    pub const fn every(interval: Duration) -> Self {
        Self {
            interval,
            delay: Duration::ZERO,
            first_retry: interval,
            last_retry: interval,
            wake: None,
            is_dropped_at_stop: false,
        }
    }

    /// For work that is done once: repeats the step until it succeeds with [`Next::Done`].
    #[must_use]
    pub const fn until_done(first_retry: Duration, last_retry: Duration) -> Self {
        Self::every(first_retry).retrying(first_retry, last_retry)
    }

    /// The pause after a failed step: `first`, doubled with each further failure up to `last`.
    #[must_use]
    pub const fn retrying(mut self, first: Duration, last: Duration) -> Self {
        (self.first_retry, self.last_retry) = (first, last);
        self
    }

    /// Delays the first step by this pause.
    #[must_use]
    pub const fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Ends every pause early when `wake` is notified.
    #[must_use]
    pub fn woken_by(mut self, wake: Arc<Notify>) -> Self {
        self.wake = Some(wake);
        self
    }

    /// Makes a stop drop the current step instead of waiting for it: for steps that wait long for other services and
    /// leave nothing half done.
    #[must_use]
    pub const fn dropped_at_stop(mut self) -> Self {
        self.is_dropped_at_stop = true;
        self
    }

    /// The pause after failure number `failures`, counted from 1.
    fn retry(&self, failures: u32) -> Duration {
        let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first_retry.saturating_mul(doubled).min(self.last_retry)
    }
}

impl From<Duration> for Pace {
    fn from(interval: Duration) -> Self {
        Self::every(interval)
    }
}

impl Workers {
    /// Runs `step` repeatedly until the service stops. `name` labels its log lines and metrics.
    ///
    /// Logs the first failure in a row, and the success after it. A panic counts as a failure.
    pub fn every(&self, name: &'static str, pace: impl Into<Pace>, step: impl Step) {
        let steps = self.meter.steps_of(name);
        let task = Loop {
            service: self.service,
            name,
            pace: pace.into(),
            stop: self.stop.clone(),
            steps,
            failures: 0,
        };
        self.spawn(task.run(step));
    }
}

struct Loop {
    service: &'static str,
    name: &'static str,
    pace: Pace,
    stop: CancellationToken,
    steps: IntCounterVec,
    /// Consecutive failures.
    failures: u32,
}

impl Loop {
    async fn run(mut self, mut step: impl Step) {
        let mut pause = Some(self.pace.delay);
        loop {
            if !self.waited(pause).await {
                return;
            }
            let Some(outcome) = self.outcome(&mut step).await else { return };
            pause = match outcome {
                Ok(Next::Interval) => Some(self.pace.interval),
                Ok(Next::In(pause)) => Some(pause),
                Ok(Next::Woken) => None,
                Ok(Next::Done) => return,
                Err(()) => Some(self.pace.retry(self.failures)),
            };
        }
    }

    /// Waits for the pause, or until woken if there is none; false when the service stops.
    async fn waited(&self, pause: Option<Duration>) -> bool {
        if pause.is_some_and(|pause| pause.is_zero()) {
            return !self.stop.is_cancelled();
        }
        tokio::select! {
            biased;
            () = self.stop.cancelled() => false,
            () = woken(self.pace.wake.as_deref()) => true,
            () = passed(pause) => true,
        }
    }

    /// Runs one step, logged and counted; `None` when it was dropped because the service stops.
    async fn outcome<S: Step>(&mut self, step: &mut S) -> Option<Result<Next, ()>> {
        let work = caught(step.step());
        let done = if self.pace.is_dropped_at_stop {
            self.stop.run_until_cancelled(work).await?
        } else {
            work.await
        };
        Some(match done {
            Ok(Ok(next)) => {
                self.succeeded();
                Ok(next)
            }
            Ok(Err(error)) => {
                self.failed(&error);
                Err(())
            }
            Err(panic) => {
                self.panicked(&panic);
                Err(())
            }
        })
    }

    fn succeeded(&mut self) {
        self.steps.with_label_values(&[self.name, "succeeded"]).inc();
        if self.failures > 0 {
            let (service, worker, failures) = (self.service, self.name, self.failures);
            tracing::info!(service, worker, failures, "the worker has recovered");
        }
        self.failures = 0;
    }

    /// Logs an outage once, not at every attempt.
    fn failed(&mut self, error: &dyn Display) {
        self.steps.with_label_values(&[self.name, "failed"]).inc();
        self.failures = self.failures.saturating_add(1);
        let (service, worker, again_in) = (self.service, self.name, self.pace.retry(self.failures));
        if self.failures == 1 {
            tracing::warn!(service, worker, %error, ?again_in, "the worker's step failed");
        } else {
            tracing::debug!(service, worker, %error, ?again_in, "the worker's step failed again");
        }
    }

    /// Logs every panic, because each is a bug.
    fn panicked(&mut self, panic: &str) {
        let (service, worker) = (self.service, self.name);
        tracing::error!(service, worker, panic, "the worker's step panicked");
        self.steps.with_label_values(&[self.name, "panicked"]).inc();
        self.failures = self.failures.saturating_add(1);
    }
}

async fn woken(wake: Option<&Notify>) {
    match wake {
        Some(wake) => wake.notified().await,
        None => std::future::pending().await,
    }
}

async fn passed(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retry_doubles_up_to_the_last_and_never_overflows() {
        let pace =
            Pace::every(Duration::from_secs(9)).retrying(Duration::from_millis(250), Duration::from_secs(1));
        let pauses = [1, 2, 3, 4, 33, u32::MAX].map(|failures| pace.retry(failures).as_millis());
        assert_eq!(pauses, [250, 500, 1_000, 1_000, 1_000, 1_000]);
    }
}
