//! One test's database.

use anyhow::Result;
use contract::Settings;
use serde_json::{Value, json};
use service::migrate;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgPool};
use uuid::Uuid;

use super::template::{self, run};
use super::{Cluster, PASSWORD};

/// Connections per pool: as many as a service has.
const POOL: u32 = 5;

/// A database for one test. It is not dropped at the end: the whole cluster is removed when unused.
#[derive(Clone, Debug)]
pub struct TestDatabase {
    cluster: &'static Cluster,
    name: String,
}

impl TestDatabase {
    pub(super) async fn create(cluster: &'static Cluster) -> Result<Self> {
        let template = template::template(cluster).await?;
        Self::copy(cluster, &template).await
    }

    pub(super) async fn create_empty(cluster: &'static Cluster) -> Result<Self> {
        Self::copy(cluster, "template0").await
    }

    async fn copy(cluster: &'static Cluster, template: &str) -> Result<Self> {
        let name = format!("test_{}", Uuid::now_v7().simple());
        let mut connection = cluster.superuser("postgres").connect().await?;
        run(&mut connection, format!("CREATE DATABASE {name} TEMPLATE {template}")).await?;
        connection.close().await?;
        Ok(Self { cluster, name })
    }

    /// `127.0.0.1`.
    #[must_use]
    pub const fn host(&self) -> &'static str {
        "127.0.0.1"
    }

    /// TCP port of the cluster.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.cluster.port
    }

    /// Name of the database.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Password of every login.
    #[must_use]
    pub const fn password(&self) -> &'static str {
        PASSWORD
    }

    /// The four `PLATFORM_<KEY>_DB_*` variables of one service or module, and two costly reads at once, however many
    /// processors the machine has.
    #[must_use]
    pub fn settings(&self, key: &str) -> Settings {
        let key = key.to_ascii_uppercase();
        Settings::default()
            .with(format!("PLATFORM_{key}_DB_HOST"), self.host())
            .with(format!("PLATFORM_{key}_DB_PORT"), self.port().to_string())
            .with(format!("PLATFORM_{key}_DB_NAME"), self.name())
            .with(format!("PLATFORM_{key}_DB_PASSWORD"), self.password())
            .with("PLATFORM_COSTLY_READS_MAX", "2")
    }

    /// Options of the superuser, who can inspect everything and prepare what a service could not.
    #[must_use]
    pub fn owner_options(&self) -> PgConnectOptions {
        self.cluster.superuser(&self.name)
    }

    /// A pool as the superuser.
    #[must_use]
    pub fn owner_pool(&self) -> PgPool {
        PgPoolOptions::new().max_connections(POOL).connect_lazy_with(self.owner_options())
    }

    /// A pool as the role `platform_<key>`, with exactly the service's privileges.
    #[must_use]
    pub fn pool_as(&self, key: &str) -> PgPool {
        let options = self.owner_options().username(&format!("platform_{key}"));
        PgPoolOptions::new().max_connections(POOL).connect_lazy_with(options)
    }

    /// The same connection as a URL.
    #[must_use]
    pub fn url_as(&self, key: &str) -> String {
        self.url(&format!("platform_{key}"))
    }

    /// The superuser's URL.
    #[must_use]
    pub fn owner_url(&self) -> String {
        self.url(postgres::SUPERUSER)
    }

    /// Creates the roles, schemas and audit tables of all services, without migrations; for an empty database.
    ///
    /// # Errors
    /// Those of [`migrate::bootstrap`].
    pub async fn bootstrap(&self) -> Result<()> {
        let logins = template::logins(&template::sources()?);
        Ok(migrate::bootstrap(&self.owner_options(), &logins).await?)
    }

    /// Every row of a service's schema and of its audit table, as JSON: equal before and after means that nothing was
    /// written.
    pub async fn contents(&self, service: &str) -> Vec<Value> {
        let tables = self
            .rows(format!(
                "SELECT to_jsonb(format('%I.%I', schemaname, tablename)) FROM pg_tables \
                 WHERE schemaname = '{service}' OR (schemaname = 'audit' AND tablename = '{service}__events') \
                 ORDER BY schemaname, tablename"
            ))
            .await;
        let mut contents = Vec::new();
        for table in tables.iter().filter_map(Value::as_str) {
            contents.push(json!(table));
            contents.extend(self.rows(format!("SELECT to_jsonb(t) FROM {table} t ORDER BY t::text")).await);
        }
        contents
    }

    /// The rows of a statement made of constants, one JSON column each.
    ///
    /// # Panics
    /// The statement fails.
    #[expect(clippy::expect_used, reason = "a test that cannot read its database has failed")]
    pub async fn rows(&self, sql: String) -> Vec<Value> {
        let found = sqlx::query_scalar::<_, Value>(AssertSqlSafe(sql));
        found.fetch_all(&self.owner_pool()).await.expect("the database can be looked into")
    }

    fn url(&self, role: &str) -> String {
        format!("postgres://{role}:{PASSWORD}@{}:{}/{}?sslmode=disable", self.host(), self.port(), self.name)
    }
}
