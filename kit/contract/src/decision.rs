//! The access decision (gateway document, "Access decision"): request, reasons, answer.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::fields::{Fields, FromBody, Text};
use crate::id::CompanyId;

/// The only platform role.
pub const SUPERADMIN: &str = "platform-superadmin";

/// Longest feature key, relation, type, role or object id in a request.
pub const MAX_NAME: usize = 200;

/// Most items in a batch.
pub const MAX_BATCH_ITEMS: usize = 100;

/// Whether a decision concerns the platform or one company.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The platform role decides.
    Global,
    /// Membership in one company decides.
    Company,
}

/// The object of a relation check.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// Object type, such as `company_module`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Object id; for a `company_module`, `<company_id>/<module_key>`.
    pub id: String,
}

impl ObjectRef {
    /// The object that represents one module in one company.
    #[must_use]
    pub fn company_module(company: CompanyId, module_key: &str) -> Self {
        Self { kind: "company_module".to_owned(), id: format!("{company}/{module_key}") }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Written by hand, because each decision logs several of these.
        f.write_str(&self.kind)?;
        f.write_str(":")?;
        f.write_str(&self.id)
    }
}

impl FromBody for ObjectRef {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let kind = fields.text("type", Text::line(MAX_NAME));
        let id = fields.text("id", Text::line(MAX_NAME));
        Some(Self { kind: kind?, id: id? })
    }
}

/// `EffectiveAccessRequest`. The subject is the bearer's; `actorId` may only repeat it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessRequest {
    /// Feature key, for the evidence and the denial's audit row.
    pub feature_key: String,
    /// Platform or company.
    pub scope: Scope,
    /// A module that must be installed and enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module_key: Option<String>,
    /// Required for company scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub company_id: Option<CompanyId>,
    /// Required for global scope, and for the operator exception.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_platform_role: Option<String>,
    /// Whether a holder of the platform role passes the membership step.
    pub allow_platform_operator_company_scope: bool,
    /// A relation on `company:<companyId>`, checked after membership.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required_company_role: Option<String>,
    /// Object of the relation check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// The relation to check; `None` for no check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relation: Option<String>,
    /// Replaces the header's correlation id in the audit row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Must be absent, or equal to the bearer's subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_id: Option<String>,
    /// Whether a denial only narrows the caller's response and so is not recorded. Honoured from services only, never
    /// in requests through the gateway.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub probe: bool,
}

impl AccessRequest {
    /// A module's request about one of its features in one company (module contract, "Internal endpoints").
    #[must_use]
    pub fn of_module(module_key: &str, company: CompanyId, feature_key: &str, relation: &str) -> Self {
        Self {
            feature_key: feature_key.to_owned(),
            scope: Scope::Company,
            module_key: Some(module_key.to_owned()),
            company_id: Some(company),
            required_platform_role: None,
            allow_platform_operator_company_scope: false,
            required_company_role: None,
            object: Some(ObjectRef::company_module(company, module_key)),
            relation: Some(relation.to_owned()),
            correlation_id: None,
            actor_id: None,
            probe: false,
        }
    }

    /// The same request, which a platform operator also passes without membership.
    #[must_use]
    pub fn or_operator(mut self) -> Self {
        self.required_platform_role = Some(SUPERADMIN.to_owned());
        self.allow_platform_operator_company_scope = true;
        self
    }

    /// The same request, whose denial only narrows a response.
    #[must_use]
    pub fn as_probe(mut self) -> Self {
        self.probe = true;
        self
    }
}

impl FromBody for AccessRequest {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let feature_key = fields.text("featureKey", Text::line(MAX_NAME));
        let scope = fields.word("scope", &[("global", Scope::Global), ("company", Scope::Company)]);
        let module_key = optional_name(fields, "moduleKey");
        let company_id = fields.optional_uuid::<Uuid>("companyId");
        let required_platform_role = optional_name(fields, "requiredPlatformRole");
        let operator = fields.optional_bool("allowPlatformOperatorCompanyScope");
        let required_company_role = optional_name(fields, "requiredCompanyRole");
        let object = fields.optional_object("object");
        let relation = optional_name(fields, "relation");
        let correlation_id = fields.optional_text("correlationId", Text::line(MAX_NAME));
        let actor_id = fields.optional_text("actorId", Text::line(crate::Subject::MAX_LENGTH));
        let probe = fields.optional_bool("probe");
        if fields.optional_bool("requiresEligibility")? == Some(true) {
            return fields.refuse("requiresEligibility", "reserved", "must be absent or false");
        }
        let request = Self {
            feature_key: feature_key?,
            scope: scope?,
            module_key: module_key?,
            company_id: company_id?.map(CompanyId::from),
            required_platform_role: required_platform_role?,
            allow_platform_operator_company_scope: operator?.unwrap_or(false),
            required_company_role: required_company_role?,
            object: object?,
            relation: relation?,
            correlation_id: correlation_id?,
            actor_id: actor_id?,
            probe: probe?.unwrap_or(false),
        };
        request.checked(fields)
    }
}

impl AccessRequest {
    /// Checks the rules between fields (gateway document, rules 2 and 3).
    fn checked(self, fields: &mut Fields<'_>) -> Option<Self> {
        if self.scope == Scope::Global && self.required_platform_role.is_none() {
            return fields.refuse("requiredPlatformRole", "required", "required for scope global");
        }
        if self.scope == Scope::Company && self.company_id.is_none() {
            return fields.refuse("companyId", "required", "required for scope company");
        }
        if self.relation.is_some() && self.object.is_none() {
            return fields.refuse("object", "required", "required with relation");
        }
        Some(self)
    }
}

/// Maps an empty string to `None`, as the specification says for `relation`.
#[expect(clippy::option_option, reason = "outer: problem recorded; inner: absent")]
fn optional_name(fields: &mut Fields<'_>, name: &str) -> Option<Option<String>> {
    match fields.raw(name).and_then(serde_json::Value::as_str) {
        Some("") => Some(None),
        _ => fields.optional_text(name, Text::line(MAX_NAME)),
    }
}

/// The reason for a decision (gateway document, rule 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Reason {
    /// Every step passed.
    Allowed,
    /// Disabled or deleted at the identity provider.
    AuthUserNotFound,
    /// Disabled or gone at the identity provider.
    IdpDisabled,
    /// Identity not active.
    UserLifecycleDisabled,
    /// No member row exists.
    CompanyInactive,
    /// No member row.
    CompanyMembershipRequired,
    /// Member row inactive.
    CompanyAccessBlocked,
    /// Platform role not held.
    ModuleDisabled,
    /// Platform role not held.
    PlatformRoleRequired,
    /// Company role not held.
    CompanyRoleRequired,
    /// The relation is not held.
    EngineDenied,
    /// Reserved.
    BusinessEligibilityDenied,
    /// The decision failed; used only in the details of a 503 and in the counter.
    DependencyUnavailable,
}

impl Reason {
    /// All thirteen, in the specification's order.
    pub const ALL: [Self; 13] = [
        Self::Allowed,
        Self::AuthUserNotFound,
        Self::IdpDisabled,
        Self::UserLifecycleDisabled,
        Self::CompanyInactive,
        Self::CompanyMembershipRequired,
        Self::CompanyAccessBlocked,
        Self::ModuleDisabled,
        Self::PlatformRoleRequired,
        Self::CompanyRoleRequired,
        Self::EngineDenied,
        Self::BusinessEligibilityDenied,
        Self::DependencyUnavailable,
    ];

    /// The word in the specification.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "ALLOWED",
            Self::AuthUserNotFound => "AUTH_USER_NOT_FOUND",
            Self::IdpDisabled => "IDP_DISABLED",
            Self::UserLifecycleDisabled => "USER_LIFECYCLE_DISABLED",
            Self::CompanyInactive => "COMPANY_INACTIVE",
            Self::CompanyMembershipRequired => "COMPANY_MEMBERSHIP_REQUIRED",
            Self::CompanyAccessBlocked => "COMPANY_ACCESS_BLOCKED",
            Self::ModuleDisabled => "MODULE_DISABLED",
            Self::PlatformRoleRequired => "PLATFORM_ROLE_REQUIRED",
            Self::CompanyRoleRequired => "COMPANY_ROLE_REQUIRED",
            Self::EngineDenied => "ENGINE_DENIED",
            Self::BusinessEligibilityDenied => "BUSINESS_ELIGIBILITY_DENIED",
            Self::DependencyUnavailable => "DEPENDENCY_UNAVAILABLE",
        }
    }
}

/// One fact on which a decision is based.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Kind of fact (`step`, `membership`, `relation`, …).
    pub key: Cow<'static, str>,
    /// The fact.
    pub value: String,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// True only with [`Reason::Allowed`].
    pub allowed: bool,
    /// The reason.
    pub reason: Reason,
    /// The facts, in the order of `decisions.md`.
    pub evidence: Vec<Evidence>,
}

/// A decision as callers read it. An unknown reason stays text, but `allowed` must still be consistent: an answer that
/// cannot be read completely does not count.
#[derive(Clone, Debug, Deserialize)]
pub struct DecisionAnswer {
    /// The decision itself.
    pub allowed: bool,
    /// The reason, as text.
    pub reason: String,
}

impl DecisionAnswer {
    /// Whether both members say that access is allowed.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.allowed && self.reason == Reason::Allowed.as_str()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fields::parse;

    #[test]
    fn words_and_serde_agree() {
        for reason in Reason::ALL {
            assert_eq!(json!(reason), json!(reason.as_str()));
        }
    }

    #[test]
    fn an_allow_needs_both_members() {
        let answer = |allowed, reason: &str| DecisionAnswer { allowed, reason: reason.to_owned() };
        assert!(answer(true, "ALLOWED").is_allowed());
        assert!(!answer(true, "ENGINE_DENIED").is_allowed());
        assert!(!answer(false, "ALLOWED").is_allowed());
    }

    #[test]
    fn a_modules_question_reads_back_as_it_was_sent() {
        let company = CompanyId::mint();
        let sent =
            AccessRequest::of_module("timesheet", company, "timesheet.projects.read", "member").or_operator();
        assert!(json!(sent).get("probe").is_none(), "an ordinary decision is unchanged");
        for sent in [sent.clone(), sent.as_probe()] {
            assert_eq!(parse::<AccessRequest>(&json!(sent)), Ok(sent));
        }
    }

    #[test]
    fn rules_between_fields() {
        let paths = |value| -> Vec<String> {
            parse::<AccessRequest>(&value)
                .expect_err("refused")
                .into_iter()
                .map(|problem| problem.path)
                .collect()
        };
        assert_eq!(paths(json!({"featureKey": "a", "scope": "global"})), ["requiredPlatformRole"]);
        assert_eq!(paths(json!({"featureKey": "a", "scope": "company"})), ["companyId"]);
        let company = "01890a5d-ac96-774b-bcce-b302099a8057";
        assert_eq!(
            paths(json!({"featureKey": "a", "scope": "company", "companyId": company, "relation": "r"})),
            ["object"]
        );
        assert_eq!(
            paths(
                json!({"featureKey": "a", "scope": "company", "companyId": company, "requiresEligibility": true})
            ),
            ["requiresEligibility"]
        );
        let empty = json!({"featureKey": "a", "scope": "company", "companyId": company, "relation": "", "requiresEligibility": false});
        assert_eq!(parse::<AccessRequest>(&empty).expect("an empty relation is accepted").relation, None);
    }
}
