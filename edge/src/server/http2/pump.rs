//! [`Pump`]: sends an answer's body as fast as the client opens its window.

use std::error::Error as _;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::{Body as _, Frame};
use tokio::time::Instant;

use crate::config::LeastRate;
use crate::http::alarm::Alarm;
use crate::http::credit::{Credit, SlowReader};
use crate::http::trailers;
use crate::response::body::EdgeBody;
use crate::server::backlog::Backlog;
use crate::upstream::answer::BodyError;

/// The maximum sent at once to a client whose window has been closed: one frame, so that its rate can be measured.
const SLOW_PIECE: usize = 16 << 10;

/// An answer's body being sent.
pub(crate) struct Pump<'a> {
    to: SendStream<Bytes>,
    backlog: &'a Backlog,
    /// Data that waits for the client's window, and whether it is the last.
    held: Option<(Bytes, bool)>,
    /// Fires when the window stays closed.
    alarm: Option<Alarm>,
    longest_pause: Duration,
    credit: Credit,
    /// The window has been closed before.
    slow: bool,
}

/// Why an answer was not sent in full.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsent {
    #[error("the client has reset the stream")]
    Reset,
    #[error("the client takes too little: {}", .0.reason())]
    CutOff(SlowReader),
    #[error(transparent)]
    Protocol(#[from] h2::Error),
    #[error(transparent)]
    Body(#[from] BodyError),
}

impl<'a> Pump<'a> {
    pub(crate) fn new(
        to: SendStream<Bytes>,
        rate: LeastRate,
        longest_pause: Duration,
        backlog: &'a Backlog,
    ) -> Self {
        let credit = Credit::new(rate);
        Self { to, backlog, held: None, alarm: None, longest_pause, credit, slow: false }
    }

    /// Sends the body to its end. Resets the stream if the body breaks off or the client takes nothing.
    pub(crate) fn poll(
        &mut self,
        mut body: Pin<&mut EdgeBody>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Unsent>> {
        loop {
            if self.held.is_some() {
                ready!(self.poll_window(&mut body, context))?;
            }
            if let Some((mut data, last)) = self.held.take() {
                // Data beyond the client's window would wait in `h2`, where no timer and no limit applies to it.
                let most = self.to.capacity().min(if self.slow { SLOW_PIECE } else { usize::MAX });
                if data.len() > most {
                    let rest = data.split_off(most);
                    self.send(data, false)?;
                    self.to.reserve_capacity(rest.len());
                    self.held = Some((rest, last));
                    continue;
                }
                self.send(data, last)?;
                if last {
                    return Poll::Ready(Ok(()));
                }
            }
            if self.backlog.poll_room(context).is_pending() {
                ready!(self.poll_stalled(&mut body, context));
                return Poll::Ready(Err(self.cut_off()));
            }
            if self.alarm.take().is_some() {
                // From now on the upstream is awaited, not the client.
                self.credit.moved(0, Instant::now);
            }
            match body.as_mut().poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    if self.take(frame, body.is_end_stream())? {
                        return Poll::Ready(Ok(()));
                    }
                }
                Poll::Ready(None) => return Poll::Ready(Ok(self.to.send_data(Bytes::new(), true)?)),
                Poll::Ready(Some(Err(error))) => {
                    self.to.send_reset(reason_of(&error));
                    return Poll::Ready(Err(error.into()));
                }
                Poll::Pending => return self.to.poll_reset(context).map(|_| Err(Unsent::Reset)),
            }
        }
    }

    /// Takes a frame of the body; `true` if it was the last.
    fn take(&mut self, frame: Frame<Bytes>, last: bool) -> Result<bool, Unsent> {
        match frame.into_data() {
            Ok(data) if data.is_empty() && !last => Ok(false),
            Ok(data) => {
                self.to.reserve_capacity(data.len());
                self.held = Some((data, last));
                Ok(false)
            }
            Err(frame) => {
                let mut fields = frame.into_trailers().unwrap_or_default();
                trailers::strip(&mut fields);
                self.to.send_trailers(fields)?;
                Ok(true)
            }
        }
    }

    fn send(&mut self, data: Bytes, last: bool) -> Result<(), Unsent> {
        self.credit.moved(data.len(), Instant::now);
        self.backlog.give(data.len());
        Ok(self.to.send_data(data, last)?)
    }

    /// Waits until the held data can be sent.
    fn poll_window(&mut self, body: &mut EdgeBody, context: &mut Context<'_>) -> Poll<Result<(), Unsent>> {
        let needs_none = self.held.as_ref().is_none_or(|(data, _)| data.is_empty());
        while !needs_none && self.to.capacity() == 0 {
            match self.to.poll_capacity(context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error.into())),
                Poll::Ready(None) => return Poll::Ready(Err(Unsent::Reset)),
                Poll::Pending => {
                    self.slow = true;
                    ready!(self.poll_stalled(body, context));
                    return Poll::Ready(Err(self.cut_off()));
                }
            }
        }
        self.alarm = None;
        Poll::Ready(Ok(()))
    }

    /// Resets the stream because the client takes too little.
    #[cold]
    fn cut_off(&mut self) -> Unsent {
        self.to.send_reset(Reason::CANCEL);
        Unsent::CutOff(self.credit.slow_reader(Instant::now()))
    }

    /// Resolves when the client's window has stayed closed for the longest pause, or its credit has run out.
    fn poll_stalled(&mut self, body: &mut EdgeBody, context: &mut Context<'_>) -> Poll<()> {
        let Self { alarm, credit, longest_pause, .. } = self;
        let alarm = alarm.get_or_insert_with(|| {
            let now = Instant::now();
            body.stalled(now);
            let (credit, pause) = (credit.wait(now), now + *longest_pause);
            Alarm::at(credit.map_or(pause, |credit| credit.min(pause)))
        });
        alarm.poll(context)
    }
}

/// Returns the reset reason for the client: the HTTP/2 upstream's own, except `NO_ERROR` and CANCEL, which clients take
/// for the end of a complete body.
fn reason_of(error: &BodyError) -> Reason {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            let parts = error.reason().filter(|reason| !matches!(*reason, Reason::NO_ERROR | Reason::CANCEL));
            return parts.unwrap_or(Reason::INTERNAL_ERROR);
        }
        cause = error.source();
    }
    Reason::INTERNAL_ERROR
}
