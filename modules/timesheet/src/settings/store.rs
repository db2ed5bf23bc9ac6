//! `timesheet.settings`.

use contract::id::CompanyId;
use service::company_rules::CompanyRules;
use service::{ApiError, CompanyTx};
use sqlx::PgExecutor;

use super::rules::{Change, TimeRules};

impl CompanyRules for TimeRules {
    type Change = Change;

    async fn row(executor: impl PgExecutor<'_>, company: CompanyId) -> sqlx::Result<Option<Self>> {
        sqlx::query_as!(
            Self,
            r#"SELECT enforce_billable_within_actual, allow_billable_above_eight_hours,
                 allowed_previous_weeks::bigint AS "allowed_previous_weeks!",
                 allowed_future_weeks::bigint AS "allowed_future_weeks!"
               FROM timesheet.settings WHERE company_id = $1"#,
            company.as_uuid()
        )
        .fetch_optional(executor)
        .await
    }

    async fn ensure(tx: &mut CompanyTx) -> Result<(), ApiError> {
        let rules = Self::default();
        sqlx::query!(
            "INSERT INTO timesheet.settings(company_id, enforce_billable_within_actual,
               allow_billable_above_eight_hours, allowed_previous_weeks, allowed_future_weeks)
             VALUES ($1, $2, $3, $4::bigint, $5::bigint) ON CONFLICT (company_id) DO NOTHING",
            tx.company().as_uuid(),
            rules.enforce_billable_within_actual,
            rules.allow_billable_above_eight_hours,
            rules.allowed_previous_weeks,
            rules.allowed_future_weeks
        )
        .execute(tx.conn())
        .await?;
        Ok(())
    }

    async fn locked(tx: &mut CompanyTx) -> Result<Self, ApiError> {
        let locked = sqlx::query_as!(
            Self,
            r#"SELECT enforce_billable_within_actual, allow_billable_above_eight_hours,
                 allowed_previous_weeks::bigint AS "allowed_previous_weeks!",
                 allowed_future_weeks::bigint AS "allowed_future_weeks!"
               FROM timesheet.settings WHERE company_id = $1 FOR UPDATE"#,
            tx.company().as_uuid()
        )
        .fetch_one(tx.conn())
        .await?;
        Ok(locked)
    }

    async fn save(self, tx: &mut CompanyTx) -> Result<(), ApiError> {
        sqlx::query!(
            "UPDATE timesheet.settings SET enforce_billable_within_actual = $2, allow_billable_above_eight_hours = $3,
               allowed_previous_weeks = $4::bigint, allowed_future_weeks = $5::bigint, updated_at = now()
             WHERE company_id = $1",
            tx.company().as_uuid(),
            self.enforce_billable_within_actual,
            self.allow_billable_above_eight_hours,
            self.allowed_previous_weeks,
            self.allowed_future_weeks
        )
        .execute(tx.conn())
        .await?;
        Ok(())
    }
}
