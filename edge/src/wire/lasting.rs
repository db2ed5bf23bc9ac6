//! [`Lasting`]: the silences of an answer's body. One that is too long ends it; and an answer that lasts is a stream, whoever
//! asked for it: it leaves its place at the upstream to those who ask for short answers, and is counted among the streams.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use super::alarm::Alarm;
use super::place::Turn;

/// An answer that is still under way after this is a stream: ordinary ones take milliseconds.
const LONG_ANSWER: Duration = Duration::from_secs(10);

/// What is known of an answer's time.
#[derive(Debug, Default)]
pub(crate) struct Lasting {
    silent_since: Option<Instant>,
    /// When it becomes a stream, or tries to again; reckoned from the first time that somebody has to wait.
    long_at: Option<Instant>,
}

impl Lasting {
    /// Something came.
    pub(crate) const fn moved(&mut self) {
        self.silent_since = None;
    }

    /// Nothing has come. Resolves when nothing has for `longest_silence`.
    pub(crate) fn poll_silence(
        &mut self,
        alarm: &mut Alarm,
        turn: Option<&mut Turn>,
        longest_silence: Duration,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let mut turn = turn;
        let newly = self.silent_since.is_none();
        let since = *self.silent_since.get_or_insert_with(Instant::now);
        let end = since + longest_silence;
        if newly {
            alarm.set(self.due(turn.as_deref(), since, end));
        }
        loop {
            ready!(alarm.poll(context));
            let now = Instant::now();
            if now >= end {
                return Poll::Ready(());
            }
            self.lasts(turn.as_deref_mut(), now);
            alarm.set(self.due(turn.as_deref(), now, end));
        }
    }

    /// Its client takes nothing of it at this moment.
    pub(crate) fn stalled(&mut self, turn: Option<&mut Turn>, now: Instant) {
        if *self.long_at.get_or_insert(now + LONG_ANSWER) <= now {
            self.lasts(turn, now);
        }
    }

    fn lasts(&mut self, turn: Option<&mut Turn>, now: Instant) {
        if let Some(turn) = turn {
            turn.go_on_as_stream();
        }
        self.long_at = Some(now + LONG_ANSWER);
    }

    fn due(&mut self, turn: Option<&Turn>, now: Instant, end: Instant) -> Instant {
        let long_at = *self.long_at.get_or_insert(now + LONG_ANSWER);
        if turn.is_none_or(Turn::is_stream) { end } else { end.min(long_at) }
    }
}
