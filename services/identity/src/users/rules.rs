//! Response and request bodies of the reads. Pure.

use contract::Subject;
use contract::fields::{Fields, FromBody};
use contract::timestamp::Timestamp;
use serde::Serialize;

use crate::texts::texts;

/// Most subjects of one lookup.
pub(crate) const MAX_LOOKUP: usize = 200;
/// Most names of one resolve: each may cost several requests to the provider.
pub(crate) const MAX_RESOLVE: usize = 100;
/// The last millisecond of the year 9999.
const LAST_MOMENT: i64 = 253_402_300_799_999;
/// Age at which a look at the provider is too old: the lifetime of an access token.
pub(crate) const MAX_LOOK_AGE_SECONDS: f64 = 300.0;

/// A record.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct User {
    pub(crate) kc_sub: String,
    pub(crate) kind: String,
    pub(crate) email: Option<String>,
    pub(crate) display_name: Option<String>,
    pub(crate) preferred_username: Option<String>,
    pub(crate) idp_enabled: bool,
    pub(crate) lifecycle: String,
    /// For a closed subject: `due` until the provider has removed the account, then `done`.
    pub(crate) account_removal: Option<String>,
    pub(crate) first_seen_at: Timestamp,
    pub(crate) last_seen_at: Timestamp,
}

/// A subject's state; an unknown subject is not enabled.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubjectState {
    pub(crate) exists: bool,
    pub(crate) idp_enabled: bool,
    pub(crate) lifecycle: Option<String>,
    pub(crate) checked_at: Timestamp,
}

/// Display data of one subject.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DisplayEntry {
    pub(crate) kc_sub: String,
    pub(crate) display_name: Option<String>,
    pub(crate) email: Option<String>,
}

/// Body of lookup.
#[derive(Debug)]
pub(crate) struct LookupRequest(pub(crate) Vec<Subject>);

impl FromBody for LookupRequest {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        texts(fields, "kcSubs", MAX_LOOKUP, Subject::parse).map(Self)
    }
}

/// Body of resolve.
#[derive(Debug)]
pub(crate) struct ResolveRequest {
    /// Login names or subjects; both have the same length limit.
    pub(crate) names: Vec<Subject>,
    /// Milliseconds since 1970. A login name only matches an account that existed then; without this, none.
    pub(crate) existed_at: Option<i64>,
}

impl FromBody for ResolveRequest {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let names = texts(fields, "names", MAX_RESOLVE, Subject::parse);
        let existed_at = fields.optional_integer("existedAt", 0..=LAST_MOMENT);
        Some(Self { names: names?, existed_at: existed_at? })
    }
}

/// A name and its subject, if there is one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resolved {
    pub(crate) name: String,
    pub(crate) kc_sub: Option<Subject>,
}
