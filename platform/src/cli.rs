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
    /// Look at relations and tuples as an operator, or run cases with known answers
    #[command(subcommand)]
    Authz(AuthzRequest),
}

/// What to do with relations. Objects are written type:id, subjects type:id or type:id#relation, tuples
/// object#relation@subject.
#[derive(Clone, Debug, Subcommand)]
pub enum AuthzRequest {
    /// Run files of relationship questions with known answers, by memory and by SQL, on a database of their own
    Cases {
        /// JSON files with `cases`
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Say whether a subject holds a relation of an object
    Check(AuthzQuestion),
    /// Say why a subject holds a relation of an object, or does not
    Explain(AuthzQuestion),
    /// List, add or remove tuples; changes are audited with your account's name
    #[command(subcommand)]
    Tuples(TuplesRequest),
    /// Make every authz process load all tuples anew, as after a restore
    Rebuild,
}

/// One relation.
#[derive(Args, Clone, Debug)]
pub struct AuthzQuestion {
    /// type:id
    pub object: String,
    /// A relation of the object's type
    pub relation: String,
    /// type:id or type:id#relation
    pub subject: String,
}

/// What to do with tuples.
#[derive(Clone, Debug, Subcommand)]
pub enum TuplesRequest {
    /// Print tuples, each with who keeps it
    List {
        /// Of this object (type:id)
        #[arg(long)]
        object: Option<String>,
        /// Of this subject (type:id or type:id#relation)
        #[arg(long)]
        subject: Option<String>,
        /// Print so many at most, 10000 in any case
        #[arg(long, default_value_t = 1_000)]
        limit: i64,
    },
    /// Add one
    Add {
        /// object#relation@subject
        tuple: String,
    },
    /// Remove one
    Remove {
        /// object#relation@subject
        tuple: String,
    },
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
