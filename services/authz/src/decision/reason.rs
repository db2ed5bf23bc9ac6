//! The representation of a decision: the evidence in its fixed order, the reason, and the ways to have no decision.

use contract::Subject;
use contract::decision::{AccessRequest, Decision, Evidence, Reason, Scope};
use serde_json::json;
use service::ApiError;

use crate::engine::Unanswered;

/// The facts that a decision looked at, in the order of the steps.
#[derive(Clone, Debug)]
pub(super) struct Trail(Vec<Evidence>);

impl Trail {
    /// Starts with what is known before the first step.
    pub(super) fn begin(subject: &Subject, request: &AccessRequest) -> Self {
        let mut trail = Self(Vec::with_capacity(16));
        if !request.feature_key.is_empty() {
            trail.note("featureKey", &request.feature_key);
        }
        trail.note("subject", subject.as_str());
        trail.note("scope", if request.scope == Scope::Global { "global" } else { "company" });
        trail
    }

    pub(super) fn note(&mut self, key: &'static str, value: impl Into<String>) {
        self.0.push(Evidence { key: key.into(), value: value.into() });
    }

    /// Prepends the number of the deciding step.
    pub(super) fn finish(mut self, step: usize) -> Vec<Evidence> {
        self.0.insert(0, Evidence { key: "step".into(), value: step.to_string() });
        self.0
    }
}

/// A decision with its reason; allowed only for [`Reason::Allowed`].
pub(super) fn decision(reason: Reason, evidence: Vec<Evidence>) -> Decision {
    Decision { allowed: reason == Reason::Allowed, reason, evidence }
}

/// Why there is no decision.
#[derive(Clone, Debug)]
pub enum Undecided {
    /// The registered app has no such feature key.
    UnknownFeature,
    /// A dependency cannot answer; the caller must refuse.
    Unavailable {
        /// The dependency.
        dependency: &'static str,
        /// The step that needed it.
        step: usize,
        /// The evidence collected until then.
        evidence: Vec<Evidence>,
    },
}

impl Undecided {
    /// Nothing could be read, so not even the first step was decided.
    pub(crate) fn at_once(why: &Unanswered, subject: &Subject, request: &AccessRequest) -> Self {
        let evidence = Trail::begin(subject, request).finish(1);
        Self::Unavailable { dependency: why.dependency, step: 1, evidence }
    }

    /// The engine returned no facts for a place of the question.
    pub(super) fn without_place(subject: &Subject, request: &AccessRequest) -> Self {
        let why = Unanswered { dependency: "engine", cause: "no facts of the place".to_owned() };
        Self::at_once(&why, subject, request)
    }
}

impl From<Undecided> for ApiError {
    fn from(undecided: Undecided) -> Self {
        match undecided {
            Undecided::UnknownFeature => Self::unprocessable_field(
                "featureKey",
                "unknown",
                "a feature key that the app has registered",
            ),
            Undecided::Unavailable { dependency, step, evidence } => Self::Unavailable {
                dependency: dependency.into(),
                details: json!({ "reason": Reason::DependencyUnavailable, "step": step, "evidence": evidence }),
            },
        }
    }
}
