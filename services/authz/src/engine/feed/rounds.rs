//! Rounds: all questions that arrive while a statement runs share the next one. A question that was queued before a
//! statement was sent is answered from it, so no question gets a moment before its own arrival. All questions of a
//! round share one immutable moment. This is the whole hand-over from the feed to the decisions, and it takes no lock:
//! waiting questions form a queue, and the moment is sent to each of them.

use std::sync::Arc;

use telemetry::Scope;
use tokio::sync::{mpsc, oneshot};

use crate::engine::answers::Unanswered;

/// Maximum number of waiting questions; further ones wait for room, within their own time limit.
pub(crate) const MAX_WAITING: usize = 4_096;
/// Maximum number of questions per statement, so that it stays short.
const MAX_A_ROUND: usize = 128;

/// Why a round has no moment.
#[derive(Clone, Debug)]
pub(crate) enum Lost {
    /// This round cannot be answered; the next one may be.
    Round(Unanswered),
    /// The graph has fallen behind and must catch up before it answers again.
    Behind(Unanswered),
    /// The graph cannot be continued and must be reloaded.
    Everything(Unanswered),
}

impl Lost {
    /// The cause.
    pub(crate) fn why(self) -> Unanswered {
        match self {
            Self::Round(why) | Self::Behind(why) | Self::Everything(why) => why,
        }
    }

    /// Whether the rounds end, so that SQL decides until memory has caught up or reloaded.
    pub(crate) const fn ends_rounds(&self) -> bool {
        matches!(self, Self::Behind(_) | Self::Everything(_))
    }
}

/// Reads moments, each later than the one before.
pub(crate) trait Source: Send {
    /// The input of a round; questions of one round are joined.
    type Wanted: Default + Send;
    /// The answer to a round.
    type Moment: Send + Sync;

    /// Adds one question to its round.
    fn join(round: &mut Self::Wanted, one: Self::Wanted);

    /// Reads a moment that is not before the call.
    fn read(&mut self, wanted: Self::Wanted) -> impl Future<Output = Result<Self::Moment, Lost>> + Send;
}

/// A question in the queue.
pub(crate) struct Waiting<S: Source> {
    wanted: S::Wanted,
    /// The scope of the request that asks.
    scope: Option<Arc<Scope>>,
    answer: oneshot::Sender<Result<Arc<S::Moment>, Lost>>,
}

/// Queues questions for rounds. Cheap to clone; the rounds end with the last clone.
pub(crate) struct Batcher<S: Source>(mpsc::Sender<Waiting<S>>);

impl<S: Source> Clone for Batcher<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Source> Batcher<S> {
    /// Creates a batcher and the queue for [`run`].
    pub(crate) fn open() -> (Self, mpsc::Receiver<Waiting<S>>) {
        let (sender, queue) = mpsc::channel(MAX_WAITING);
        (Self(sender), queue)
    }

    /// Waits for a moment that is not before this call.
    pub(crate) async fn ask(&self, wanted: S::Wanted) -> Result<Arc<S::Moment>, Lost> {
        let (answer, moment) = oneshot::channel();
        if self.0.send(Waiting { wanted, scope: Scope::present(), answer }).await.is_err() {
            return Err(gone());
        }
        moment.await.unwrap_or_else(|_| Err(gone()))
    }
}

fn gone() -> Lost {
    let cause = "the reader of the change log has ended".to_owned();
    Lost::Round(Unanswered { dependency: "postgres", cause })
}

/// Answers rounds until the last batcher is dropped (`None`), or until SQL must decide while memory catches up or reloads.
pub(crate) async fn run<S: Source>(queue: &mut mpsc::Receiver<Waiting<S>>, source: &mut S) -> Option<Lost> {
    let mut waiting = Vec::new();
    while queue.recv_many(&mut waiting, MAX_A_ROUND).await > 0 {
        let mut wanted = S::Wanted::default();
        let mut answers = Vec::with_capacity(waiting.len());
        // All questions share the statement; a trace shows it once, under the first traced request of the round.
        let mut traced = None;
        for one in waiting.drain(..) {
            traced = traced.or_else(|| one.scope.filter(|scope| scope.span().is_some()));
            S::join(&mut wanted, one.wanted);
            answers.push(one.answer);
        }
        let reading = source.read(wanted);
        let read = match traced {
            Some(scope) => scope.around(reading).await,
            None => reading.await,
        };
        let lost = read.as_ref().err().filter(|lost| lost.ends_rounds()).cloned();
        let outcome = read.map(Arc::new);
        for answer in answers {
            // The requester may have given up.
            answer.send(outcome.clone()).unwrap_or_default();
        }
        if lost.is_some() {
            return lost;
        }
    }
    None
}

/// Refuses all waiting questions.
pub(crate) fn refuse_all<S: Source>(queue: &mut mpsc::Receiver<Waiting<S>>, lost: &Lost) {
    while let Ok(one) = queue.try_recv() {
        one.answer.send(Err(lost.clone())).unwrap_or_default();
    }
}

/// Refuses all questions that arrive during `work`, so that one that saw the graph just before its withdrawal does not
/// wait.
pub(crate) async fn refusing<S: Source, T>(
    queue: &mut mpsc::Receiver<Waiting<S>>,
    lost: &Lost,
    work: impl Future<Output = T>,
) -> T {
    let refuse = async {
        while let Some(one) = queue.recv().await {
            one.answer.send(Err(lost.clone())).unwrap_or_default();
        }
        // The last batcher is gone; the work ends by itself.
        std::future::pending::<std::convert::Infallible>().await
    };
    tokio::select! {
        done = work => done,
        never = refuse => match never {},
    }
}
