//! `helpdesk.settings`.

use contract::id::CompanyId;
use service::company_rules::CompanyRules;
use service::{ApiError, CompanyTx};
use sqlx::PgExecutor;

use super::rules::{Change, TicketRules};

impl CompanyRules for TicketRules {
    type Change = Change;

    async fn row(executor: impl PgExecutor<'_>, company: CompanyId) -> sqlx::Result<Option<Self>> {
        sqlx::query_as!(
            Self,
            r#"SELECT auto_close_resolved_days::bigint, reopen_on_reporter_comment, reporter_reopen_days::bigint
               FROM helpdesk.settings WHERE company_id = $1"#,
            company.as_uuid()
        )
        .fetch_optional(executor)
        .await
    }

    async fn ensure(tx: &mut CompanyTx) -> Result<(), ApiError> {
        let company = tx.company();
        sqlx::query!(
            "INSERT INTO helpdesk.settings(company_id, reopen_on_reporter_comment) VALUES ($1, $2)
             ON CONFLICT (company_id) DO NOTHING",
            company.as_uuid(),
            Self::default().reopen_on_reporter_comment
        )
        .execute(tx.conn())
        .await?;
        Ok(())
    }

    async fn locked(tx: &mut CompanyTx) -> Result<Self, ApiError> {
        let company = tx.company();
        let locked = sqlx::query_as!(
            Self,
            r#"SELECT auto_close_resolved_days::bigint, reopen_on_reporter_comment, reporter_reopen_days::bigint
               FROM helpdesk.settings WHERE company_id = $1 FOR UPDATE"#,
            company.as_uuid()
        )
        .fetch_one(tx.conn())
        .await?;
        Ok(locked)
    }

    async fn save(self, tx: &mut CompanyTx) -> Result<(), ApiError> {
        sqlx::query!(
            "UPDATE helpdesk.settings SET auto_close_resolved_days = $2::bigint, reopen_on_reporter_comment = $3,
               reporter_reopen_days = $4::bigint, updated_at = now()
             WHERE company_id = $1",
            tx.company().as_uuid(),
            self.auto_close_resolved_days,
            self.reopen_on_reporter_comment,
            self.reporter_reopen_days
        )
        .execute(tx.conn())
        .await?;
        Ok(())
    }
}
