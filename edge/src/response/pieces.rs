//! A long answer that is available at once, sent in portions with a pause after each: encrypting and sending megabytes
//! in one go would delay the worker's other requests, and other threads on the core.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::http::alarm::Alarm;

/// A portion: two TLS records, which take a worker less than a tenth of a millisecond.
const PORTION: usize = 32 << 10;
/// Lasts until the timer's next tick, of a millisecond each: eight megabytes take a third of a second.
const PAUSE: Duration = Duration::from_micros(200);

/// The parts of one body, none of them empty.
pub(crate) struct Pieces {
    present: Bytes,
    later: std::vec::IntoIter<Bytes>,
    /// Bytes left of the portion.
    left: usize,
    pause: Alarm,
}

impl Pieces {
    pub(crate) fn new(mut pieces: Vec<Bytes>) -> Self {
        pieces.retain(|piece| !piece.is_empty());
        let mut later = pieces.into_iter();
        let present = later.next().unwrap_or_default();
        Self { present, later, left: PORTION, pause: Alarm::at(Instant::now()) }
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.present.is_empty() {
            return Poll::Ready(None);
        }
        if self.left == 0 {
            ready!(self.pause.poll(context));
            self.left = PORTION;
        }
        let part = self.present.split_to(self.left.min(self.present.len()));
        if self.present.is_empty() {
            self.present = self.later.next().unwrap_or_default();
        }
        self.left = self.left.saturating_sub(part.len());
        if self.left == 0 {
            self.pause.set(Instant::now() + PAUSE);
        }
        Poll::Ready(Some(part))
    }

    pub(crate) fn is_end(&self) -> bool {
        self.present.is_empty()
    }

    /// The bytes still to come.
    pub(crate) fn remaining(&self) -> usize {
        self.present.len() + self.later.as_slice().iter().map(Bytes::len).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn every_byte_comes_once_and_in_order_and_each_portion_but_the_first_waits() {
        let all: Vec<u8> = (0..=u8::MAX).cycle().take(PORTION * 3 + 1).collect();
        let (first, rest) = all.split_at(100);
        let pieces = [first, &[], rest].map(Bytes::copy_from_slice).to_vec();
        let mut pieces = Pieces::new(pieces);
        let began = Instant::now();
        let mut given = Vec::new();
        while let Some(part) = poll_fn(|context| pieces.poll(context)).await {
            assert_eq!(pieces.remaining() + given.len() + part.len(), all.len());
            given.extend_from_slice(&part);
            let portions = u32::try_from(given.len().div_ceil(PORTION)).expect("few");
            assert!(began.elapsed() >= PAUSE * (portions - 1), "{} bytes", given.len());
        }
        assert!(pieces.is_end() && given == all);
    }
}
