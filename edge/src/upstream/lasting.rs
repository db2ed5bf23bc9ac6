//! [`Lasting`]: the duration of an answer's body. A pause that is too long ends it. An answer that lasts long becomes a
//! stream: it returns its upstream permit for use by short requests, and counts as a stream instead.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use crate::http::alarm::Alarm;
use crate::upstream::target::UpstreamPermit;

/// An answer still running after this time is a stream: ordinary ones take milliseconds.
const LONG_ANSWER: Duration = Duration::from_secs(10);

/// The timing of an answer.
#[derive(Debug, Default)]
pub(crate) struct Lasting {
    silent_since: Option<Instant>,
    /// When it becomes a stream, or tries to again; counted from the first wait.
    long_at: Option<Instant>,
}

impl Lasting {
    /// Records that data arrived.
    pub(crate) const fn moved(&mut self) {
        self.silent_since = None;
    }

    /// Waits while nothing arrives. Resolves after `longest_silence`.
    pub(crate) fn poll_silence(
        &mut self,
        alarm: &mut Alarm,
        permit: Option<&mut UpstreamPermit>,
        longest_silence: Duration,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let mut permit = permit;
        let newly = self.silent_since.is_none();
        let since = *self.silent_since.get_or_insert_with(Instant::now);
        let end = since + longest_silence;
        if newly {
            alarm.set(self.due(permit.as_deref(), since, end));
        }
        loop {
            ready!(alarm.poll(context));
            let now = Instant::now();
            if now >= end {
                return Poll::Ready(());
            }
            self.lasts(permit.as_deref_mut(), now);
            alarm.set(self.due(permit.as_deref(), now, end));
        }
    }

    /// Records that the client takes nothing at the moment.
    pub(crate) fn stalled(&mut self, permit: Option<&mut UpstreamPermit>, now: Instant) {
        if *self.long_at.get_or_insert(now + LONG_ANSWER) <= now {
            self.lasts(permit, now);
        }
    }

    fn lasts(&mut self, permit: Option<&mut UpstreamPermit>, now: Instant) {
        if let Some(permit) = permit {
            permit.go_on_as_stream();
        }
        self.long_at = Some(now + LONG_ANSWER);
    }

    fn due(&mut self, permit: Option<&UpstreamPermit>, now: Instant, end: Instant) -> Instant {
        let long_at = *self.long_at.get_or_insert(now + LONG_ANSWER);
        if permit.is_none_or(UpstreamPermit::is_stream) { end } else { end.min(long_at) }
    }
}
