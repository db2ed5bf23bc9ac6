//! `platform up`: runs the whole platform as one process. It checks everything that can be wrong before it serves
//! anything, then starts the database, applies the migrations, starts all servers and prints the ready line. A signal
//! stops them in reverse: gateway, services, database.

mod ready;
mod running;

use contract::Settings;
use service::migrate::{check_passwords, set_passwords};

use crate::certificates::with_certificates;
use crate::console;
use crate::data_dir::DataDir;
use crate::database::{self, Database};
use crate::plan::listeners::Listeners;
use crate::plan::{Plan, UpConfig, Urls};
use crate::secrets::Secrets;
use crate::signals::Signals;
use crate::stop::Stop;

use running::Running;

/// Runs the platform until a signal.
pub(crate) async fn up(settings: Settings) -> Result<(), Stop> {
    let signals = Signals::listen()?;
    let config = UpConfig::read(&settings)?;
    let data_dir = DataDir::take(&config.data_dir, config.min_free)?;
    say_what_there_is(&config, &data_dir);
    let plan = prepare(settings, &config, &data_dir)?;
    let listeners = Listeners::bind(&plan).await?;
    let is_embedded = config.database_url.is_none();
    let started = start_database(&plan, &config, &data_dir, &signals).await?;
    let Some(mut database) = started else { return Ok(()) };
    let outcome = run(plan, listeners, &mut database, &signals).await;
    if signals.at_once.is_cancelled() {
        database.stop_at_once();
    } else {
        if is_embedded {
            console::progress("platform: stopping the database");
        }
        database.stop().await;
    }
    outcome
}

fn say_what_there_is(config: &UpConfig, data_dir: &DataDir) {
    let age = if data_dir.is_new { "new" } else { "of an earlier start" };
    console::progress(&format!("platform: data directory {} ({age})", data_dir.path.display()));
    let certificate = if config.makes_certificates { "a development CA's" } else { "PLATFORM_TLS_CERT" };
    let provider = config.idp_url.as_deref().unwrap_or("the built-in one");
    let database = if config.database_url.is_some() { "PLATFORM_DATABASE_URL" } else { "an embedded server" };
    console::progress(&format!(
        "platform: certificate: {certificate}; identity provider: {provider}; database: {database}; modules: {}",
        config.modules.join(", ")
    ));
}

/// Prepares and checks the secrets, the certificates and the settings of every server.
fn prepare(settings: Settings, config: &UpConfig, data_dir: &DataDir) -> Result<Plan, Stop> {
    let settings = if config.makes_certificates {
        with_certificates(settings, data_dir, &config.domain)?
    } else {
        settings
    };
    let secrets = Secrets::in_dir(&data_dir.path);
    Plan::make(&settings, config, |name| secrets.obtain(name))
}

/// Starts or connects to the database; `None` if a signal came while PostgreSQL was being downloaded.
async fn start_database(
    plan: &Plan,
    config: &UpConfig,
    data_dir: &DataDir,
    signals: &Signals,
) -> Result<Option<Database>, Stop> {
    if let Some(url) = &config.database_url {
        return Database::connect(url, &config.database_tls).map(Some);
    }
    let programs = tokio::select! {
        programs = database::programs(&plan.settings, data_dir) => programs?,
        () = signals.drain.cancelled() => return Ok(None),
    };
    let (port, connections) = (config.postgres_port, plan.connections());
    Database::embedded(programs, data_dir, (port, connections), config.min_free).await.map(Some)
}

async fn run(
    plan: Plan,
    listeners: Listeners,
    database: &mut Database,
    signals: &Signals,
) -> Result<(), Stop> {
    database.check_connections(plan.connections()).await?;
    console::progress("platform: applying migrations");
    database::migrate::apply_shipped(&database.owner, &plan.logins).await?;
    if database.is_embedded() {
        set_passwords(&database.owner, &plan.logins).await?;
    } else {
        check_passwords(&database.owner, &plan.logins).await?;
    }
    if signals.drain.is_cancelled() {
        return Ok(());
    }
    let (urls, is_behind_proxy) = (plan.urls.clone(), plan.is_behind_proxy);
    console::progress(&format!("platform: starting {} servers", plan.servers.len() + 1));
    let mut running = Running::start(plan, listeners);
    let outcome = tokio::select! {
        outcome = serve_until_stopped(&mut running, &urls, is_behind_proxy, signals) => outcome,
        () = database.ended() => Err(Stop::Failed("the embedded database ended by itself; see postgres.log".to_owned())),
    };
    running.drain(signals).await.and(outcome)
}

async fn serve_until_stopped(
    running: &mut Running,
    urls: &Urls,
    is_behind_proxy: bool,
    signals: &Signals,
) -> Result<(), Stop> {
    tokio::select! {
        ready = ready::wait(running, urls, is_behind_proxy) => ready?,
        () = signals.drain.cancelled() => return Ok(()),
    }
    urls.print();
    console::result(&format!("platform ready {}", urls.base));
    tokio::select! {
        ended = running.ended() => Err(ended),
        () = signals.drain.cancelled() => Ok(()),
    }
}
