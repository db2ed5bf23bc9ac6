//! The command line: words to [`Command`]. Help and version end with 0, a usage error with 2.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "platform", version, about = "The platform as one command", disable_help_subcommand = false)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run the whole platform in the foreground, with an embedded database and identity provider
    Up,
    /// Run one service or module as this process, as production does
    Serve {
        /// gateway, registry, identity, org, authz, idp, or a module
        name: String,
    },
    /// Create roles, schemas and audit tables in `PLATFORM_DATABASE_URL`, and apply migrations
    Migrate,
    /// Validate configuration, manifests, fragments, OpenAPI files and migrations
    Check(CheckRequest),
    /// Print every variable: name, default, current value, unit, meaning
    Config,
    /// Log in through the edge and print an access token
    Token(TokenRequest),
    /// Compare issuer, domain, audience, redirect list, clock and certificate, and say what does not fit
    Doctor,
    /// What operators do with companies and units; audited with the name of this account
    #[command(subcommand)]
    Org(OrgCommand),
    /// What operators do with subjects; audited with the name of this account
    #[command(subcommand)]
    Identity(IdentityCommand),
}

/// Companies and units.
#[derive(Clone, Debug, Subcommand)]
pub enum OrgCommand {
    /// Give or take the company role admin
    #[command(subcommand)]
    Admin(AdminCommand),
    /// Turn a company or a unit off
    Deactivate {
        /// Its id
        id: String,
    },
    /// Turn a company or a unit on again
    Activate {
        /// Its id
        id: String,
    },
}

/// Giving and taking the company role admin.
#[derive(Clone, Debug, Subcommand)]
pub enum AdminCommand {
    /// Make a subject an administrator
    Add(CompanyAdmin),
    /// Take the role away
    Remove(CompanyAdmin),
}

/// Whose role in which company.
#[derive(Args, Clone, Debug)]
pub struct CompanyAdmin {
    /// The company's id
    pub company: String,
    /// `sub` of the subject's tokens
    pub subject: String,
}

/// A subject's lifecycle.
#[derive(Clone, Debug, Subcommand)]
pub enum IdentityCommand {
    /// Refuse every decision about a subject until it is activated
    Suspend(LifecycleRequest),
    /// Let a suspended subject act again
    Activate(LifecycleRequest),
    /// End a subject for good and forget its name and address
    Close(LifecycleRequest),
}

/// Which subject, and why.
#[derive(Args, Clone, Debug)]
pub struct LifecycleRequest {
    /// `sub` of its tokens
    pub subject: String,
    /// For the audit row
    #[arg(long, default_value = "an operator's command")]
    pub reason: String,
}

/// What to look at: without an option the platform itself.
#[derive(Args, Clone, Debug)]
pub struct CheckRequest {
    /// Look at the folder of a module instead
    #[arg(long, value_name = "DIR", conflicts_with = "app")]
    pub module: Option<PathBuf>,
    /// Look at the manifest of an app instead
    #[arg(long, value_name = "FILE")]
    pub app: Option<PathBuf>,
    /// Print the problems as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

/// Whose token.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub struct TokenRequest {
    /// A user, by the authorization code flow with PKCE; the password is taken from `PLATFORM_DEV_USERS`, else read
    /// from standard input
    #[arg(long)]
    pub user: Option<String>,
    /// A service client, by the client credentials flow; the secret is taken from its variable or the data directory
    #[arg(long)]
    pub client: Option<String>,
}

/// The command, or the exit code of what has been said already.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, ExitCode> {
    match Cli::try_parse_from(args) {
        Ok(cli) => Ok(cli.command),
        Err(error) => {
            let code = if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
            // A closed output cannot be told about.
            drop(error.print());
            Err(code)
        }
    }
}
