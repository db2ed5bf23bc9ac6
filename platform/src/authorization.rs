//! `platform authz …`: cases with known answers on a database of their own, and what an operator does at the platform's
//! database: `PLATFORM_DATABASE_URL`, else the embedded one of the data directory, which must be running.

use std::path::{Path, PathBuf};
use std::time::Duration;

use authz::cases::{self, Outcome};
use authz::engine::{DEFAULT_BUDGET, SqlEngine};
use authz::facts::Ask;
use authz::operate::{self, OperateError, TupleText};
use contract::Settings;
use postgres::SUPERUSER;
use rustix::process::geteuid;
use service::config::{DatabaseConfig, DatabaseTls};
use service::migrate::Login;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool};

use crate::cli::{AuthzQuestion, AuthzRequest, TuplesRequest};
use crate::data_dir::DataDir;
use crate::database::{self, Database};
use crate::plan::UpConfig;
use crate::secrets::{Secrets, random};
use crate::stop::Stop;
use crate::{catalog, console};

/// Connections of an operator's command: the look-up, and the one that is read into memory.
const CONNECTIONS: u32 = 2;
/// Longest wait for a connection. A database that is up accepts one within milliseconds, and a person waits.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

impl From<OperateError> for Stop {
    fn from(error: OperateError) -> Self {
        match error {
            OperateError::Refused(message) => Self::Unfit(message),
            failed @ (OperateError::Database(_) | OperateError::Unanswered(_)) => {
                Self::Failed(failed.to_string())
            }
        }
    }
}

/// Does what the command says.
pub(crate) async fn run(request: &AuthzRequest, settings: &Settings) -> Result<(), Stop> {
    match request {
        AuthzRequest::Cases { files } => run_cases(files, settings).await,
        AuthzRequest::Check(question) => check(question, settings).await,
        AuthzRequest::Explain(question) => explain(question, settings).await,
        AuthzRequest::Tuples(request) => tuples(request, settings).await,
        AuthzRequest::Rebuild => {
            let mut connection = connect(&owner(settings)?).await?;
            operate::rebuild(&mut connection, &account()).await?;
            console::result("every authz process loads all tuples anew at its next decision");
            Ok(())
        }
    }
}

/// The owner's login to the platform's database.
pub(crate) fn owner(settings: &Settings) -> Result<PgConnectOptions, Stop> {
    let config = UpConfig::read(settings)?;
    if let Some(url) = &config.database_url {
        return database::owner(url, &config.database_tls);
    }
    let Some(password) = Secrets::in_dir(&config.data_dir).find("db-superuser")? else {
        return Err(Stop::Unfit(format!(
            "{} holds no database: name it with PLATFORM_DATA_DIR, or another one with PLATFORM_DATABASE_URL",
            config.data_dir.display()
        )));
    };
    Ok(PgConnectOptions::new_without_pgpass()
        .host("127.0.0.1")
        .port(config.postgres_port)
        .username(SUPERUSER)
        .password(&password)
        .database("platform")
        .ssl_mode(PgSslMode::Disable))
}

/// Connects as the owner. The error names the address.
pub(crate) async fn connect(owner: &PgConnectOptions) -> Result<PgConnection, Stop> {
    let why = match tokio::time::timeout(CONNECT_TIMEOUT, owner.connect()).await {
        Ok(Ok(connection)) => return Ok(connection),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()),
    };
    Err(Stop::Failed(format!("the database at {} does not answer its owner: {why}", address(owner))))
}

/// Where the database is: the socket's folder, or host and port.
fn address(owner: &PgConnectOptions) -> String {
    let at_host = || format!("{}:{}", owner.get_host(), owner.get_port());
    owner.get_socket().map_or_else(at_host, |socket| socket.display().to_string())
}

/// A pool of the owner's connections. A pool tells nothing but that its time is over, so a first connection finds out
/// whether the database answers.
async fn pool(settings: &Settings) -> Result<PgPool, Stop> {
    let owner = owner(settings)?;
    connect(&owner).await?.close().await.map_err(unreachable)?;
    let options = PgPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(CONNECT_TIMEOUT);
    Ok(options.connect_lazy_with(owner))
}

#[expect(clippy::needless_pass_by_value, reason = "it is a `map_err` function")]
pub(crate) fn unreachable(error: sqlx::Error) -> Stop {
    Stop::Failed(format!("the database does not answer its owner: {error}"))
}

/// The name of the account that runs the command, as audit rows show it.
fn account() -> String {
    let uid = geteuid().as_raw().to_string();
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    });
    named.unwrap_or(uid)
}

fn parse(question: &AuthzQuestion) -> Result<(Ask, authz::facts::SubjectRef), Stop> {
    let wrong = |text: &str, right: &str| Stop::Unfit(format!("\"{text}\" is not {right}"));
    let object = operate::parse_object(&question.object).ok_or_else(|| wrong(&question.object, "type:id"))?;
    let subject = operate::parse_subject(&question.subject);
    let subject = subject.ok_or_else(|| wrong(&question.subject, "type:id or type:id#relation"))?;
    Ok((Ask::new(object, &question.relation), subject))
}

async fn check(question: &AuthzQuestion, settings: &Settings) -> Result<(), Stop> {
    let (ask, subject) = parse(question)?;
    let pool = pool(settings).await?;
    let held = operate::check(&pool, &ask, &subject).await?;
    console::result(if held { "held" } else { "not held" });
    if held { Ok(()) } else { Err(Stop::No) }
}

async fn explain(question: &AuthzQuestion, settings: &Settings) -> Result<(), Stop> {
    let (ask, subject) = parse(question)?;
    let pool = pool(settings).await?;
    let why = operate::explain(&pool, &ask, &subject).await?;
    console::result(if why.held { "held" } else { "not held" });
    if !why.path.is_empty() {
        console::result(&why.path);
    }
    let Some(tree) = &why.tree else {
        console::result("the object is in no tuple");
        return Ok(());
    };
    let tree = serde_json::to_string_pretty(tree).map_err(|error| Stop::Failed(error.to_string()))?;
    console::result(&tree);
    Ok(())
}

async fn tuples(request: &TuplesRequest, settings: &Settings) -> Result<(), Stop> {
    let mut connection = connect(&owner(settings)?).await?;
    let (add, text) = match request {
        TuplesRequest::List { object, subject, limit } => {
            let wrong = |text: &str| Stop::Unfit(format!("\"{text}\" is not type:id"));
            let object = object.as_deref().map(|text| operate::parse_object(text).ok_or_else(|| wrong(text)));
            let subject =
                subject.as_deref().map(|text| operate::parse_subject(text).ok_or_else(|| wrong(text)));
            let (object, subject) = (object.transpose()?, subject.transpose()?);
            for line in operate::list(&mut connection, object.as_ref(), subject.as_ref(), *limit).await? {
                console::result(&line);
            }
            return Ok(());
        }
        TuplesRequest::Add { tuple } => (true, tuple),
        TuplesRequest::Remove { tuple } => (false, tuple),
    };
    let tuple = TupleText::parse(text)?;
    if add {
        let pool = pool(settings).await?;
        operate::must_fit(&pool, &tuple).await?;
    }
    let changed = operate::change(&mut connection, add, &tuple, &account()).await?;
    console::result(match (changed, add) {
        (true, true) => "added",
        (true, false) => "removed",
        (false, true) => "it was there already",
        (false, false) => "it was not there",
    });
    Ok(())
}

/// A database that holds nothing but the cases, and is gone afterwards. Never the platform's: its tuples are replaced.
async fn run_cases(files: &[PathBuf], settings: &Settings) -> Result<(), Stop> {
    let mut all = Vec::new();
    for file in files {
        let unreadable = |why: String| Stop::Unfit(format!("{}: {why}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
        all.extend(cases::parse(&text).map_err(|error| unreadable(error.to_string()))?);
    }
    let folder = std::env::temp_dir().join(format!("platform-cases-{}", random()?));
    let outcome = on_own_database(&folder, settings, &all).await;
    database::wipe(&folder)?;
    let outcome = outcome?;
    for line in &outcome.failed {
        console::result(line);
    }
    console::result(&format!("{} passed, {} failed", outcome.passed, outcome.failed.len()));
    if outcome.failed.is_empty() { Ok(()) } else { Err(Stop::Failed("a case has another answer".to_owned())) }
}

async fn on_own_database(folder: &Path, settings: &Settings, all: &[cases::Case]) -> Result<Outcome, Stop> {
    let data_dir = DataDir::take(folder, 0)?;
    let programs = database::programs(settings, &data_dir).await?;
    let mut database = Database::embedded(programs, &data_dir, (0, 0), 0).await?;
    let outcome = put(&database.owner, all).await;
    database.stop().await;
    outcome
}

async fn put(owner: &PgConnectOptions, all: &[cases::Case]) -> Result<Outcome, Stop> {
    let mut logins = Vec::new();
    for part in catalog::parts() {
        logins.push(Login { key: part.name.to_owned(), password: random()? });
    }
    database::migrate::apply_shipped(owner, &logins).await?;
    let login = logins.iter().find(|login| login.key == "authz");
    let engine = SqlEngine::connect(
        &DatabaseConfig {
            host: owner.get_host().to_owned(),
            port: owner.get_port(),
            name: owner.get_database().unwrap_or_default().to_owned(),
            role: "platform_authz".to_owned(),
            password: login.map(|login| login.password.clone()).unwrap_or_default(),
            max_connections: CONNECTIONS,
            max_worker_connections: CONNECTIONS,
            tls: DatabaseTls::default(),
        },
        DEFAULT_BUDGET,
    );
    let mut connection = connect(owner).await?;
    let mut outcome = Outcome::default();
    for case in all {
        outcome.join(case.by_memory());
        let by_sql = case.by_sql(&engine, &mut connection).await;
        outcome.join(by_sql.map_err(|error| Stop::Failed(error.to_string()))?);
    }
    connection.close().await.map_err(unreachable)?;
    Ok(outcome)
}
