//! How a decision is told: the evidence in its fixed order, the reason, and the ways in which there is no decision.

use contract::Subject;
use contract::decision::{AccessRequest, Decision, Evidence, Reason, Scope};
use serde_json::json;
use service::ApiError;

use crate::engine::Unanswered;

/// The facts a decision looked at, in the order in which the steps look.
#[derive(Clone, Debug)]
pub(super) struct Trail(Vec<Evidence>);

impl Trail {
    /// Begins with what is known before the first step.
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

    /// Puts the number of the deciding step in front.
    pub(super) fn finish(mut self, step: usize) -> Vec<Evidence> {
        self.0.insert(0, Evidence { key: "step".into(), value: step.to_string() });
        self.0
    }
}

/// A decision with its reason; allowed only with [`Reason::Allowed`].
pub(super) fn decision(reason: Reason, evidence: Vec<Evidence>) -> Decision {
    Decision { allowed: reason == Reason::Allowed, reason, evidence }
}

/// There is no decision.
#[derive(Clone, Debug)]
pub enum Undecided {
    /// The feature key is none of the registered app's.
    UnknownFeature,
    /// A dependency cannot answer; the caller must refuse.
    Unavailable {
        /// Which one.
        dependency: &'static str,
        /// The step that needed it.
        step: usize,
        /// What was known by then.
        evidence: Vec<Evidence>,
    },
}

impl Undecided {
    /// Nothing could be read, so not even the first step was taken.
    pub(crate) fn at_once(why: &Unanswered, subject: &Subject, request: &AccessRequest) -> Self {
        let evidence = Trail::begin(subject, request).finish(1);
        Self::Unavailable { dependency: why.dependency, step: 1, evidence }
    }

    /// The engine left out the one place that was asked about.
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
