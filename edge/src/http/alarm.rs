//! A timer that is set for every request and hardly ever fires: moving it later costs nothing until it fires.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

/// Fires at the time to which it was last set.
#[derive(Debug)]
pub(crate) struct Alarm {
    due: Instant,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    pub(crate) const fn at(due: Instant) -> Self {
        Self { due, sleep: None }
    }

    pub(crate) fn set(&mut self, due: Instant) {
        self.due = due;
        if let Some(sleep) = self.sleep.as_mut().filter(|sleep| due < sleep.deadline()) {
            sleep.as_mut().reset(due);
        }
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let due = self.due;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(due)));
        loop {
            ready!(sleep.as_mut().poll(context));
            if sleep.deadline() >= due {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(due);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn it_rings_when_it_was_set_to_last_be_that_sooner_or_later() {
        const TICK: Duration = Duration::from_millis(20);
        let began = Instant::now();
        let mut alarm = Alarm::at(began + TICK);
        assert!(poll_fn(|context| Poll::Ready(alarm.poll(context).is_pending())).await);
        alarm.set(began + TICK * 3);
        poll_fn(|context| alarm.poll(context)).await;
        assert!(began.elapsed() >= TICK * 3);
        let again = Instant::now();
        alarm.set(again + Duration::from_mins(10));
        assert!(poll_fn(|context| Poll::Ready(alarm.poll(context).is_pending())).await);
        alarm.set(again + TICK);
        poll_fn(|context| alarm.poll(context)).await;
        assert!((TICK..Duration::from_mins(10)).contains(&again.elapsed()));
    }
}
