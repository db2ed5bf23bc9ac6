//! The platform as `platform up` runs it: one process with its own database.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;

use super::client::{Api, Version};
use super::login::Provider;
use super::process::{Process, port_offset};

/// A running `platform up` with its data directory; dropping it removes both.
pub(crate) struct Together {
    process: Option<Process>,
    offset: u16,
    directory: PathBuf,
    variables: BTreeMap<String, String>,
    pub(crate) base_url: String,
}

impl Together {
    /// Starts with an empty data directory and waits for the ready line.
    pub(crate) fn start(name: &str) -> Self {
        Self::start_with(name, port_offset(), &[])
    }

    /// As above, on ports chosen by the caller and with additional variables.
    pub(crate) fn start_with(name: &str, offset: u16, variables: &[(&str, &str)]) -> Self {
        let directory = std::env::temp_dir().join(format!("platform-e2e-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a folder");
        let base_url = format!("https://localhost:{}", 8443 + offset);
        let mut platform = Self { process: None, offset, directory, variables: BTreeMap::new(), base_url };
        for (name, value) in variables {
            platform.set(name, value);
        }
        platform.up();
        platform
    }

    /// Sets a variable for the next start.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// Starts again with the same directory.
    pub(crate) fn up(&mut self) {
        let mut process = self.spawn();
        let ready = process.wait_for_line("platform ready");
        assert_eq!(ready, Some(format!("platform ready {}", self.base_url)), "{}", self.log());
        self.process = Some(process);
    }

    /// Starts `platform up` with this directory without waiting for it.
    pub(crate) fn spawn(&self) -> Process {
        Process::start("up", &self.all_variables(), &self.directory.join("log"))
    }

    /// Runs another `platform` command with this platform's variables to completion.
    pub(crate) fn output(&self, arguments: &str) -> Output {
        self.output_with(arguments, &[])
    }

    /// As above, with variables that override them.
    pub(crate) fn output_with(&self, arguments: &str, more: &[(&str, &str)]) -> Output {
        let mut variables = self.all_variables();
        variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        Process::output(arguments, &variables)
    }

    fn all_variables(&self) -> Vec<(String, String)> {
        let mut variables = vec![
            ("PLATFORM_PORT_OFFSET".to_owned(), self.offset.to_string()),
            ("PLATFORM_DATA_DIR".to_owned(), self.data().display().to_string()),
        ];
        variables.extend(self.variables.clone());
        variables
    }

    /// The internal address of a part, given its port without the offset.
    pub(crate) fn internal(&self, port: u16) -> String {
        format!("http://127.0.0.1:{}", port + self.offset)
    }

    /// The running process.
    pub(crate) fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("it is running")
    }

    /// Stops the process, which must exit cleanly.
    pub(crate) fn stop(&mut self) {
        let status = self.process.take().expect("it is running").stop();
        assert_eq!(status.code(), Some(0), "{}", self.log());
    }

    /// Kills the process and the database, as a crash would.
    pub(crate) fn kill(&mut self) {
        let postgres = self.postgres_process();
        self.process().kill();
        self.process = None;
        let killed = std::process::Command::new("kill").args(["-KILL", &postgres]).status();
        assert!(killed.is_ok_and(|status| status.success()), "the database's first process was killed");
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.data().join("certs/ca.pem")
    }

    pub(crate) fn api(&self, version: Version) -> Api {
        Api::new(&self.base_url, &self.ca(), version)
    }

    /// The access token of a user whose password is the name.
    pub(crate) async fn token(&self, user: &str) -> String {
        Provider { base_url: &self.base_url, ca: &self.ca() }.token(user).await
    }

    /// The access token of a service client's own account.
    pub(crate) async fn client_token(&self, client: &str, secret: &str) -> String {
        Provider { base_url: &self.base_url, ca: &self.ca() }.client_token(client, secret).await
    }

    /// Every member of a company with the number of audit rows of its creation, read from the database as org reads it.
    pub(crate) async fn audited_members(&self, company: &str) -> BTreeMap<String, i64> {
        let pool = self.database("org").await;
        let rows: Vec<(String, i64)> = sqlx::query_as(
            "SELECT m.id::text, count(e.seq) FROM org.members m \
             LEFT JOIN audit.org__events e ON e.subject = 'member:' || m.id::text AND e.action = 'member.created' \
             WHERE m.company_id = $1::uuid GROUP BY m.id",
        )
        .bind(company)
        .fetch_all(&pool)
        .await
        .expect("the rows are read");
        pool.close().await;
        rows.into_iter().collect()
    }

    /// How many of a service's audit rows name this actor.
    pub(crate) async fn audited_by(&self, service: &str, actor: &str) -> i64 {
        let pool = self.database(service).await;
        let sql = format!("SELECT count(*) FROM audit.{service}__events WHERE actor = $1");
        let count =
            sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).bind(actor).fetch_one(&pool).await.expect("a count");
        pool.close().await;
        count
    }

    /// The database as one service.
    pub(crate) async fn database(&self, service: &str) -> PgPool {
        self.connect(service, &format!("platform_{service}")).await
    }

    /// The database as its owner.
    pub(crate) async fn owner(&self) -> PgPool {
        self.connect("superuser", "postgres").await
    }

    async fn connect(&self, secret: &str, role: &str) -> PgPool {
        let secret = self.data().join(format!("secrets/db-{secret}"));
        let password = std::fs::read_to_string(secret).expect("the role's password is kept");
        let options = PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(8191 + self.offset)
            .database("platform")
            .username(role)
            .password(password.trim());
        PgPool::connect_with(options).await.expect("the role connects")
    }

    /// A service's own port, without a gateway in front.
    pub(crate) fn service(&self, port: u16) -> Service {
        Service { address: format!("http://127.0.0.1:{}", port + self.offset), http: reqwest::Client::new() }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    fn postgres_process(&self) -> String {
        let file = self.data().join("pg/postmaster.pid");
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        text.lines().next().expect("a process id").to_owned()
    }
}

/// A service called without the gateway.
pub(crate) struct Service {
    address: String,
    http: reqwest::Client,
}

impl Service {
    /// The response to a decision request.
    pub(crate) async fn can(&self, token: &str, question: &Value) -> Value {
        let url = format!("{}/internal/authz/effective-access/can", self.address);
        let sent = self.http.post(url).bearer_auth(token).json(question).send().await.expect("an answer");
        sent.json().await.expect("JSON")
    }

    /// The service's metrics.
    pub(crate) async fn metrics(&self) -> String {
        let sent = self.http.get(format!("{}/metrics", self.address)).send().await.expect("an answer");
        sent.text().await.expect("text")
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        drop(self.process.take());
        remove(&self.data().join("pg"));
        remove(&self.directory);
    }
}

/// Removes a folder; for a link, also the link's target.
fn remove(path: &Path) {
    if let Ok(target) = std::fs::read_link(path) {
        drop(std::fs::remove_dir_all(target));
        drop(std::fs::remove_file(path));
    } else {
        drop(std::fs::remove_dir_all(path));
    }
}
