//! AuthZEN 1.0: the same decision in the terms of that standard, for gateways and products that support it. The subject
//! is the bearer, the action a relation, the resource an object; the company is the resource's, as in `batch-can`. The
//! answers have the standard's shape without the platform's envelope; refusals have the platform's shape.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use contract::Subject;
use contract::decision::{Decision, Evidence, MAX_BATCH_ITEMS, MAX_NAME, ObjectRef, Reason};
use contract::fields::{Fields, FromBody, Text};
use serde::Serialize;
use service::{ApiError, Caller, Correlation, RawBody};

use super::http::{count_batch, decide_and_audit};
use crate::App;
use crate::decision::BatchItem;

/// One question, or a part of it that applies to all of a batch.
struct Evaluation {
    subject: Option<ObjectRef>,
    action: Option<String>,
    resource: Option<ObjectRef>,
}

struct Action(String);

impl FromBody for Action {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        fields.text("name", Text::line(MAX_NAME)).map(Self)
    }
}

/// A subject, with an id as long as the provider's may be.
struct Named(ObjectRef);

impl FromBody for Named {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let kind = fields.text("type", Text::line(MAX_NAME));
        let id = fields.text("id", Text::line(Subject::MAX_LENGTH));
        Some(Self(ObjectRef { kind: kind?, id: id? }))
    }
}

impl FromBody for Evaluation {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let subject = fields.optional_object::<Named>("subject");
        let action = fields.optional_object::<Action>("action");
        let resource = fields.optional_object("resource");
        let (subject, action) = (subject?.map(|Named(subject)| subject), action?.map(|Action(name)| name));
        Some(Self { subject, action, resource: resource? })
    }
}

/// When a batch stops early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Semantic {
    All,
    FirstDeny,
    FirstPermit,
}

struct Options(Semantic);

impl FromBody for Options {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let words = [
            ("execute_all", Semantic::All),
            ("deny_on_first_deny", Semantic::FirstDeny),
            ("permit_on_first_permit", Semantic::FirstPermit),
        ];
        fields.optional_word("evaluations_semantic", &words).map(|word| Self(word.unwrap_or(Semantic::All)))
    }
}

/// The body of both routes.
struct Request {
    whole: Evaluation,
    parts: Option<Vec<Evaluation>>,
    semantic: Semantic,
}

impl FromBody for Request {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let whole = Evaluation::from_body(fields);
        let parts = match fields.raw("evaluations") {
            None => Some(None),
            Some(_) => fields.objects("evaluations", MAX_BATCH_ITEMS).map(Some),
        };
        let options = fields.optional_object::<Options>("options");
        let semantic = options?.map_or(Semantic::All, |Options(semantic)| semantic);
        Some(Self { whole: whole?, parts: parts?, semantic })
    }
}

/// One answer.
#[derive(Debug, Serialize)]
pub struct Evaluated {
    decision: bool,
    context: Context,
}

#[derive(Debug, Serialize)]
struct Context {
    reason: Reason,
    evidence: Vec<Evidence>,
}

/// All answers of a batch.
#[derive(Debug, Serialize)]
pub struct AllEvaluated {
    evaluations: Vec<Evaluated>,
}

/// One answer or many, depending on the body.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// The answer to a body without `evaluations`.
    One(Evaluated),
    /// The answers to a body with `evaluations`.
    Many(AllEvaluated),
}

/// The addresses of the decision point.
#[derive(Debug, Serialize)]
pub struct Metadata {
    policy_decision_point: String,
    access_evaluation_endpoint: String,
    access_evaluations_endpoint: String,
}

/// `POST /internal/authz/access/v1/evaluation`
pub async fn evaluation(
    State(app): State<App>,
    caller: Caller,
    Correlation(correlation): Correlation,
    body: RawBody,
) -> Result<Json<Evaluated>, ApiError> {
    let Request { whole, .. } = body.parse()?;
    let item = item("", &caller, &whole, None)?;
    let mut answers = answer(&app, &caller, vec![item], Semantic::All, correlation.as_str()).await?;
    answers.pop().map(Json).ok_or_else(|| ApiError::unavailable("engine"))
}

/// `POST /internal/authz/access/v1/evaluations`
pub async fn evaluations(
    State(app): State<App>,
    caller: Caller,
    Correlation(correlation): Correlation,
    body: RawBody,
) -> Result<Json<Answer>, ApiError> {
    let Request { whole, parts, semantic } = body.parse()?;
    // A body whose `evaluations` are missing or empty is one question.
    let Some(parts) = parts.filter(|parts| !parts.is_empty()) else {
        let item = item("", &caller, &whole, None)?;
        let mut answers = answer(&app, &caller, vec![item], Semantic::All, correlation.as_str()).await?;
        return answers
            .pop()
            .map(|one| Json(Answer::One(one)))
            .ok_or_else(|| ApiError::unavailable("engine"));
    };
    let items = parts
        .iter()
        .enumerate()
        .map(|(index, part)| item(&format!("evaluations[{index}]."), &caller, part, Some(&whole)))
        .collect::<Result<Vec<_>, _>>()?;
    let evaluations = answer(&app, &caller, items, semantic, correlation.as_str()).await?;
    Ok(Json(Answer::Many(AllEvaluated { evaluations })))
}

/// `GET /internal/authz/authzen-configuration`
pub async fn metadata(State(app): State<App>, _caller: Caller) -> Json<Metadata> {
    let base = &*app.base_url;
    Json(Metadata {
        policy_decision_point: base.to_owned(),
        access_evaluation_endpoint: format!("{base}/access/v1/evaluation"),
        access_evaluations_endpoint: format!("{base}/access/v1/evaluations"),
    })
}

/// Builds an item from a part; the whole supplies what the part omits.
fn item(
    path: &str,
    caller: &Caller,
    part: &Evaluation,
    whole: Option<&Evaluation>,
) -> Result<BatchItem, ApiError> {
    let field = |name: &str| format!("{path}{name}");
    let missing = |name: &str| ApiError::validation_field(field(name), "required", "required");
    let subject =
        part.subject.as_ref().or_else(|| whole?.subject.as_ref()).ok_or_else(|| missing("subject"))?;
    let action = part.action.as_ref().or_else(|| whole?.action.as_ref()).ok_or_else(|| missing("action"))?;
    let resource =
        part.resource.as_ref().or_else(|| whole?.resource.as_ref()).ok_or_else(|| missing("resource"))?;
    if subject.kind != "user" || subject.id != caller.subject.as_str() {
        let message = "type user, and the bearer's own subject as id";
        return Err(ApiError::validation_field(field("subject"), "actor", message));
    }
    Ok(BatchItem { object: resource.clone(), relation: action.clone() })
}

async fn answer(
    app: &App,
    caller: &Caller,
    items: Vec<BatchItem>,
    semantic: Semantic,
    correlation: &str,
) -> Result<Vec<Evaluated>, ApiError> {
    let (begun, count) = (Instant::now(), items.len());
    let stop = |decision: &Decision| match semantic {
        Semantic::All => false,
        Semantic::FirstDeny => !decision.allowed,
        Semantic::FirstPermit => decision.allowed,
    };
    let answered = decide_and_audit(app, &caller.subject, items, stop, correlation).await;
    count_batch(app, &answered, count, begun);
    let evaluated = |decision: Decision| {
        let Decision { allowed, reason, evidence } = decision;
        Evaluated { decision: allowed, context: Context { reason, evidence } }
    };
    Ok(answered?.into_iter().map(|answer| evaluated(answer.decision)).collect())
}
