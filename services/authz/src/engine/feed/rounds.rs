//! Rounds: everybody who asks while a statement runs shares the next one. Who asked before a statement was sent is
//! answered from it, so nobody is told of a moment before the own question; and everybody of a round gets one and the same
//! moment, which nothing changes afterwards. This is the whole hand-over from the feed to the decisions, and it holds no
//! lock: the waiting are a queue, the moment is sent to each of them.

use std::sync::Arc;

use telemetry::Scope;
use tokio::sync::{mpsc, oneshot};

use crate::engine::answers::Unanswered;

/// Most that wait for their round; the next one waits for room, within its own time limit.
pub(crate) const MAX_WAITING: usize = 4_096;
/// Most that share a statement, so that it stays a short one.
const MAX_A_ROUND: usize = 128;

/// Why a round has no moment.
#[derive(Clone, Debug)]
pub(crate) enum Lost {
    /// This round cannot be answered; the next one may be.
    Round(Unanswered),
    /// What is in memory has fallen behind and has to catch up before it answers anybody.
    Behind(Unanswered),
    /// What is in memory cannot be continued.
    Everything(Unanswered),
}

impl Lost {
    /// What went wrong.
    pub(crate) fn why(self) -> Unanswered {
        match self {
            Self::Round(why) | Self::Behind(why) | Self::Everything(why) => why,
        }
    }

    /// Whether memory answers nobody for the time being.
    pub(crate) const fn ends_rounds(&self) -> bool {
        matches!(self, Self::Behind(_) | Self::Everything(_))
    }
}

/// Reads moments, each later than the one before.
pub(crate) trait Source: Send {
    /// What is asked for; those of one round are joined.
    type Wanted: Default + Send;
    /// What is answered.
    type Moment: Send + Sync;

    /// Adds one question to those of its round.
    fn join(round: &mut Self::Wanted, one: Self::Wanted);

    /// A moment not before the call.
    fn read(&mut self, wanted: Self::Wanted) -> impl Future<Output = Result<Self::Moment, Lost>> + Send;
}

/// One that waits.
pub(crate) struct Waiting<S: Source> {
    wanted: S::Wanted,
    /// The request that asks.
    scope: Option<Arc<Scope>>,
    answer: oneshot::Sender<Result<Arc<S::Moment>, Lost>>,
}

/// Asks for rounds. Cheap to clone; the rounds end with the last clone.
pub(crate) struct Desk<S: Source>(mpsc::Sender<Waiting<S>>);

impl<S: Source> Clone for Desk<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Source> Desk<S> {
    /// The desk, and the queue for [`run`].
    pub(crate) fn open() -> (Self, mpsc::Receiver<Waiting<S>>) {
        let (sender, queue) = mpsc::channel(MAX_WAITING);
        (Self(sender), queue)
    }

    /// A moment that is not before this call.
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

/// Answers rounds until nobody can ask any more (`None`), or until memory can answer nobody for the time being.
pub(crate) async fn run<S: Source>(queue: &mut mpsc::Receiver<Waiting<S>>, source: &mut S) -> Option<Lost> {
    let mut waiting = Vec::new();
    while queue.recv_many(&mut waiting, MAX_A_ROUND).await > 0 {
        let mut wanted = S::Wanted::default();
        let mut answers = Vec::with_capacity(waiting.len());
        // The statement is everybody's, and a trace shows it once: under the first request of the round that is traced.
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
            // Who asked may have given up.
            answer.send(outcome.clone()).unwrap_or_default();
        }
        if lost.is_some() {
            return lost;
        }
    }
    None
}

/// Tells everybody who waits now that memory can answer nobody for the time being.
pub(crate) fn refuse_all<S: Source>(queue: &mut mpsc::Receiver<Waiting<S>>, lost: &Lost) {
    while let Ok(one) = queue.try_recv() {
        one.answer.send(Err(lost.clone())).unwrap_or_default();
    }
}

/// Tells the same everybody who asks while `work` is done: who looked at memory just before it was withdrawn does not wait.
pub(crate) async fn refusing<S: Source, T>(
    queue: &mut mpsc::Receiver<Waiting<S>>,
    lost: &Lost,
    work: impl Future<Output = T>,
) -> T {
    let refuse = async {
        while let Some(one) = queue.recv().await {
            one.answer.send(Err(lost.clone())).unwrap_or_default();
        }
        // Nobody can ask any more; the work ends by itself.
        std::future::pending::<std::convert::Infallible>().await
    };
    tokio::select! {
        done = work => done,
        never = refuse => match never {},
    }
}
