//! A real authz, a company, its member alice, and the module `crm` in this process; and the invariants of rows and
//! tuples at rest.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use contract::Settings;
use contract::id::CompanyId;
use service::migrate::{self, Login};
use service::two_store::Swept;
use sqlx::PgPool;
use uuid::Uuid;

use super::module::{DEAL, MIGRATION, Module, Share};
use crate::app::{App, Rows};
use crate::can::crm;

pub(crate) struct Scene {
    pub(crate) app: App,
    pub(crate) rows: Rows,
    pub(crate) module: Module,
    pub(crate) authz: SocketAddr,
    pub(crate) token: String,
    pub(crate) settings: Settings,
}

impl Scene {
    pub(crate) async fn start() -> Self {
        let app = App::start().await;
        let rows = app.rows();
        let database = &app.database;
        let login = Login { key: "crm".to_owned(), password: database.password().to_owned() };
        migrate::bootstrap(&database.owner_options(), &[login]).await.expect("the module's fence");
        rows.run(MIGRATION).await;
        rows.module("crm", &crm()).await;
        let company = rows.company().await;
        rows.defaults(company, "crm").await;
        for subject in ["alice", "bob"] {
            rows.subject(subject).await;
            rows.member(company, subject).await;
        }
        rows.tuple(&format!("crm_deal:{DEAL}#company_module@company_module:{company}/crm"), "grant").await;
        let token = app.issuer.token("alice").expires_in(3_600 * 4).sign();
        let settings = testkit::settings("crm", database, &app.issuer);
        let module = Module::start(&settings, company, &token, app.address);
        Self { authz: app.address, rows, module, token, settings, app }
    }

    pub(crate) const fn pool(&self) -> &PgPool {
        &self.rows.0
    }

    /// Settles every row that no request works on, however recent.
    pub(crate) async fn sweep(&self) -> Swept {
        self.module.store.sweep::<Share>(Duration::ZERO).await.expect("swept")
    }

    /// Waits until the server has noticed the end of a killed process.
    pub(crate) async fn until_alone(&self) {
        let sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND pid IN (SELECT pid FROM pg_stat_activity WHERE usename = 'platform_crm')";
        while sqlx::query_scalar::<_, i64>(sql).fetch_one(self.pool()).await.expect("locks") > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// The state and id of a holder's share.
    pub(crate) async fn share_of(&self, holder: &str) -> Option<(String, Uuid)> {
        let sql = "SELECT state, id FROM crm.shares WHERE holder = $1";
        sqlx::query_as(sql).bind(holder).fetch_optional(self.pool()).await.expect("the shares")
    }

    /// Number of a holder's two tuples that exist.
    pub(crate) async fn tuples_of(&self, holder: &str) -> i64 {
        let sql = "SELECT count(*) FROM authz.tuple WHERE object_type = 'crm_deal' AND subject_id = $1";
        sqlx::query_scalar(sql).bind(holder).fetch_one(self.pool()).await.expect("the tuples")
    }

    /// Number of the module's audit rows with this action for a holder's share.
    pub(crate) async fn audited(&self, holder: &str, action: &str) -> i64 {
        let sql = "SELECT count(*) FROM audit.crm__events WHERE subject = 'share:' || $1 AND action = $2";
        let found = sqlx::query_scalar(sql).bind(holder).bind(action);
        found.fetch_one(self.pool()).await.expect("the module's audit")
    }

    /// Number of authz's changes of a holder's tuples.
    pub(crate) async fn changes(&self, holder: &str, action: &str) -> i64 {
        let sql = "SELECT count(*) FROM audit.authz__events WHERE action = $2
            AND payload::text LIKE '%@user:' || $1 || '\"%'";
        let found = sqlx::query_scalar(sql).bind(holder).bind(action);
        found.fetch_one(self.pool()).await.expect("authz's audit")
    }

    /// Checks the state at rest: every row is active with its tuples, no other tuple of a share exists, and the count
    /// is right.
    pub(crate) async fn at_rest(&self) {
        let rows: Vec<(String, String)> = sqlx::query_as("SELECT holder, state FROM crm.shares")
            .fetch_all(self.pool())
            .await
            .expect("the shares");
        assert!(rows.iter().all(|(_, state)| state == "active"), "a row between two states: {rows:?}");
        let rows: BTreeSet<String> = rows.into_iter().map(|(holder, _)| holder).collect();
        for relation in ["owner", "viewer"] {
            let sql = "SELECT subject_id FROM authz.tuple
                WHERE object_type = 'crm_deal' AND relation = $1 AND subject_type = 'user'";
            let tuples: Vec<String> =
                sqlx::query_scalar(sql).bind(relation).fetch_all(self.pool()).await.expect("the tuples");
            let tuples: BTreeSet<String> = tuples.into_iter().collect();
            let orphans: Vec<_> = tuples.difference(&rows).collect();
            let bare: Vec<_> = rows.difference(&tuples).collect();
            assert!(orphans.is_empty() && bare.is_empty(), "orphan tuples {orphans:?}, bare rows {bare:?}");
        }
        let counted: i64 = sqlx::query_scalar("SELECT coalesce(sum(shares), 0) FROM crm.share_count")
            .fetch_one(self.pool())
            .await
            .expect("the count");
        assert_eq!(counted, i64::try_from(rows.len()).expect("small"), "the module's own count");
    }

    pub(crate) const fn company(&self) -> CompanyId {
        self.module.company
    }
}
