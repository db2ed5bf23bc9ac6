//! The `platform` command. This is the only crate that links every service and module and that knows the list of
//! modules (`catalog.rs`); it contains no business rules.
//!
//! ```text
//! run -> cli -> up       data directory, secrets, certificates, database, migrations, ten servers, one shutdown signal
//!            -> serve    one of those servers, from the environment alone
//!            -> migrate  roles, schemas, audit tables, migrations
//!            -> check    everything that can be wrong before a start
//!            -> new      the skeleton of a module
//!            -> config   every variable
//!            -> authz    cases with known answers, and the operator's look at tuples
//!            -> token    a real login, for curl and load generators
//!            -> demo     a small company over the public API
//!            -> doctor   mismatched issuer, domain, audience, redirect URIs, clock or certificate
//!            -> org, identity   operator commands without a public route (operator/)
//! ```

mod authorization;
mod bundle;
mod catalog;
mod certificates;
mod check;
mod cli;
mod config;
mod console;
mod data_dir;
mod database;
mod demo;
mod doctor;
mod fetching;
mod migrate;
mod new;
mod operator;
mod plan;
mod secrets;
mod serve;
mod signals;
mod stop;
mod token;
mod up;
mod variables;

use std::ffi::OsString;
use std::process::ExitCode;

use contract::Settings;
use contract::settings::Problems;

pub use cli::Command;
use cli::{NewCommand, NewKind};
use stop::Stop;

/// Runs the command that `args` (the program's name first) ask for, with the variables of `environment`. Exit codes:
/// 0 clean stop, 1 failure while running, 2 could not start.
pub fn run(args: impl IntoIterator<Item = OsString>, environment: Result<Settings, Problems>) -> ExitCode {
    let command = match cli::parse(args) {
        Ok(command) => command,
        Err(code) => return code,
    };
    let environment = match environment {
        Ok(environment) => environment,
        Err(problems) => return Stop::Misconfigured(problems).report(),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Stop::Unfit(format!("the runtime cannot start: {error}")).report(),
    };
    match runtime.block_on(dispatch(command, environment)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.report(),
    }
}

/// The variables of this process.
///
/// # Errors
/// Variables of the platform whose values are not valid UTF-8. Those of other programs are left out.
pub fn environment() -> Result<Settings, Problems> {
    variables::readable(std::env::vars_os())
}

/// Limits the log of a command that serves nothing to warnings, without those of the certificate verifier: the command
/// itself says what to do about an untrusted certificate.
fn log_settings(command: &Command, environment: &Settings) -> Settings {
    let mut settings = environment.clone();
    if !matches!(command, Command::Up | Command::Serve { .. } | Command::Migrate) {
        settings.default_to("PLATFORM_LOG", "warn,rustls_platform_verifier=off");
    }
    settings
}

async fn dispatch(command: Command, environment: Settings) -> Result<(), Stop> {
    // All TLS libraries in this process share one provider; a second installation changes nothing.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let (_telemetry, early) = match telemetry::install(&log_settings(&command, &environment)) {
        Ok(telemetry) => (Some(telemetry), Problems(Vec::new())),
        // `check` reports these together with everything else that is wrong.
        Err(problems) if matches!(command, Command::Check(_)) => (None, problems),
        Err(problems) => return Err(problems.into()),
    };
    variables::warn_unknown(&environment);
    match command {
        Command::Up => up::up(environment).await,
        Command::Serve { name } => serve::serve(&name, &environment).await,
        Command::Migrate => migrate::migrate(&environment).await,
        Command::Check(request) => check::check(&environment, &request, early),
        Command::New(NewCommand { kind: NewKind::Module(request) }) => new::module(&request),
        Command::Config { markdown: false } => config::print(&environment),
        Command::Config { markdown: true } => config::markdown(),
        Command::Authz(request) => authorization::run(&request, &environment).await,
        Command::Token(request) => token::print(&request, &environment).await,
        Command::Demo => demo::demo(&environment).await,
        Command::Completions { shell } => {
            console::bytes(&cli::completions(shell));
            Ok(())
        }
        Command::Man => {
            let page = cli::manual()
                .map_err(|error| Stop::Failed(format!("the manual page cannot be rendered: {error}")))?;
            console::bytes(&page);
            Ok(())
        }
        Command::Doctor => doctor::examine(&environment).await,
        Command::Org(command) => operator::org::run(&command, &environment).await,
        Command::Identity(command) => operator::identity::run(&command, &environment).await,
    }
}
