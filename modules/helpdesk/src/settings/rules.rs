//! What a company's rules are and how a change is applied.

use contract::fields::{Fields, FromBody, Patch};
use serde::Serialize;
use service::company_rules::RulesChange;
use time::{Duration, OffsetDateTime};

/// Ten years: more is a slip of the finger.
const MAX_DAYS: i64 = 3_650;

/// A company's rules. A company that never changed them has the default, by which nothing moves by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TicketRules {
    /// After so many days a resolved ticket is closed by itself; `None`: never.
    pub auto_close_resolved_days: Option<i64>,
    /// A public comment of the reporter reopens a resolved ticket.
    pub reopen_on_reporter_comment: bool,
    /// For so many days the reporter may reopen a resolved ticket; `None`: as long as it is resolved.
    pub reporter_reopen_days: Option<i64>,
}

impl TicketRules {
    /// Whether the time in which the reporter may reopen a ticket is over.
    #[must_use]
    pub fn is_late(&self, resolved_at: OffsetDateTime, now: OffsetDateTime) -> bool {
        self.reporter_reopen_days.is_some_and(|days| now - resolved_at > Duration::days(days))
    }
}

/// The body of a change: any subset; what is absent stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    auto_close_resolved_days: Patch<i64>,
    reopen_on_reporter_comment: Option<bool>,
    reporter_reopen_days: Patch<i64>,
}

impl RulesChange<TicketRules> for Change {
    fn apply(self, before: TicketRules) -> TicketRules {
        let reopens = self.reopen_on_reporter_comment;
        TicketRules {
            auto_close_resolved_days: self.auto_close_resolved_days.apply(before.auto_close_resolved_days),
            reopen_on_reporter_comment: reopens.unwrap_or(before.reopen_on_reporter_comment),
            reporter_reopen_days: self.reporter_reopen_days.apply(before.reporter_reopen_days),
        }
    }
}

impl FromBody for Change {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let auto_close = fields.patch_integer("autoCloseResolvedDays", 1..=MAX_DAYS);
        let reopens = fields.optional_bool("reopenOnReporterComment");
        let reopen_days = fields.patch_integer("reporterReopenDays", 0..=MAX_DAYS);
        Some(Self {
            auto_close_resolved_days: auto_close?,
            reopen_on_reporter_comment: reopens?,
            reporter_reopen_days: reopen_days?,
        })
    }
}
