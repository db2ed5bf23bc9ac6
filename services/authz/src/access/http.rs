//! The handlers of the decision routes, which decide for the bearer only.

use std::time::Instant;

use axum::extract::State;
use axum::http::HeaderMap;
use contract::Subject;
use contract::decision::{AccessRequest, Decision, MAX_BATCH_ITEMS, Reason};
use contract::fields::{Fields, FromBody};
use service::{ApiError, Caller, Correlation, Data, RawBody};
use telemetry::traces::step;

use crate::App;
use crate::decision::{self, BatchAnswer, BatchItem, Undecided};
use crate::denials::Denial;

/// `POST /internal/authz/effective-access/can`: checks the shape (400), then runs the steps. A denial is audited before
/// it is answered. A caller with the services' credential may set `probe` when a no only narrows its answer and refuses
/// no request; a denied probe is neither audited nor counted.
pub async fn can(
    State(app): State<App>,
    caller: Caller,
    Correlation(correlation): Correlation,
    headers: HeaderMap,
    body: RawBody,
) -> Result<Data<Decision>, ApiError> {
    let begun = Instant::now();
    let request: AccessRequest = body.parse()?;
    refuse_other_actor(&request, &caller.subject)?;
    let probe = request.probe && app.core.inside.is_service(&headers);
    let deciding = decision::decide(&*app.engine, &caller.subject, &request);
    let decided = step("decide", deciding, |decided, span| {
        span.set("platform.feature", request.feature_key.clone());
        match decided {
            Ok(decision) => span.set("platform.reason", decision.reason.as_str()),
            Err(undecided) => span.fail(format!("{undecided:?}")),
        }
    });
    let decided = match decided.await {
        Err(Undecided::UnknownFeature) => return Err(Undecided::UnknownFeature.into()),
        Err(unavailable) => Err(unavailable.into()),
        Ok(decision) if decision.allowed || probe => Ok(decision),
        Ok(decision) => {
            let correlation = request.correlation_id.as_deref().unwrap_or_else(|| correlation.as_str());
            let denial = Denial::of_request(&caller.subject, &request, decision.reason, correlation);
            app.denials.write(denial).await.map(|()| decision)
        }
    };
    let reason = decided.as_ref().map_or(Reason::DependencyUnavailable, |decision| decision.reason);
    if !probe {
        app.meter.count(reason, begun.elapsed());
    }
    decided.map(Data)
}

/// The body of `batch-can`.
struct Batch(Vec<BatchItem>);

impl FromBody for Batch {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        fields.objects("items", MAX_BATCH_ITEMS).map(Self)
    }
}

/// `POST /internal/authz/effective-access/batch-can`: decides every pair at one moment; one audit row lists the
/// denials.
pub async fn batch_can(
    State(app): State<App>,
    caller: Caller,
    Correlation(correlation): Correlation,
    body: RawBody,
) -> Result<Data<Vec<BatchAnswer>>, ApiError> {
    let begun = Instant::now();
    let Batch(items) = body.parse()?;
    let count = items.len();
    let answered = decide_and_audit(&app, &caller.subject, items, |_| false, correlation.as_str()).await;
    count_batch(&app, &answered, count, begun);
    answered.map(Data)
}

/// Counts each item of a batch as one decision, with an even share of the time.
pub(super) fn count_batch(
    app: &App,
    answered: &Result<Vec<BatchAnswer>, ApiError>,
    asked: usize,
    begun: Instant,
) {
    let count = answered.as_ref().map_or(asked, Vec::len);
    let share = begun.elapsed().checked_div(u32::try_from(count).unwrap_or(u32::MAX)).unwrap_or_default();
    for index in 0..count {
        let answer = answered.as_ref().ok().and_then(|answers| answers.get(index));
        app.meter.count(answer.map_or(Reason::DependencyUnavailable, |answer| answer.decision.reason), share);
    }
}

/// Decides all items at one moment, keeps the answers up to the first that `stop` selects, and writes one audit row for
/// the denials among them.
pub(super) async fn decide_and_audit(
    app: &App,
    subject: &Subject,
    items: Vec<BatchItem>,
    stop: impl Fn(&Decision) -> bool,
    correlation: &str,
) -> Result<Vec<BatchAnswer>, ApiError> {
    let decisions = decision::decide_all(&*app.engine, subject, &items).await?;
    let last = decisions.iter().position(stop).map_or(decisions.len(), |index| index + 1);
    let answer = |(BatchItem { object, relation }, decision)| BatchAnswer { object, relation, decision };
    let answers: Vec<BatchAnswer> = items.into_iter().zip(decisions).take(last).map(answer).collect();
    if let Some(denial) = Denial::of_batch(subject, &answers, correlation) {
        app.denials.write(denial).await?;
    }
    Ok(answers)
}

fn refuse_other_actor(request: &AccessRequest, bearer: &Subject) -> Result<(), ApiError> {
    match &request.actor_id {
        Some(actor) if actor != bearer.as_str() => {
            Err(ApiError::validation_field("actorId", "actor", "absent or the bearer's own subject"))
        }
        _ => Ok(()),
    }
}
