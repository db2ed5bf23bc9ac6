//! Parses the command line into a [`Command`]. Help and version exit with 0, a usage error with 2.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

/// Text that `platform help` prints below the list of commands.
const MORE: &str = "\
The first hour:
  platform up                         everything, on embedded defaults; wait for \"platform ready\"
  platform demo                       in a second shell in the same folder: a company to look at
  platform token --user alice         an access token, for curl

Configuration comes from environment variables: `platform config` lists each with its current value.
All data is kept in PLATFORM_DATA_DIR (./.platform); clients must trust its certs/ca.pem.
Exit codes: 0 success or a clean stop; 1 failure while running, a request that a service refuses, or \"not held\" of
`authz check`; 2 could not start, or wrong arguments or variables. Ctrl-C drains and stops; a second stops at once.";

#[derive(Debug, Parser)]
#[command(name = "platform", version, about = "The platform as one command", after_help = MORE)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// A command of the program.
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
    ///
    /// A role that does not exist yet gets the password in `PLATFORM_<SERVICE>_DB_PASSWORD`: an empty database needs that
    /// variable of every service and module. A role that exists keeps its password.
    Migrate,
    /// Validate configuration, manifests, fragments, OpenAPI files and migrations
    Check(CheckRequest),
    /// Generate the skeleton of a module
    New(NewCommand),
    /// Print every variable: name, default, current value, unit, meaning
    Config {
        /// Print name, default, unit and meaning as the table of CONFIGURATION.md
        #[arg(long)]
        markdown: bool,
    },
    /// Log in through the gateway and print an access token
    Token(TokenRequest),
    /// Fill a running platform with a small company, and print five things to try
    Demo,
    /// Print the completions of a shell, to source or install
    Completions {
        /// Which shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print the manual page, for `man -l -`
    Man,
    /// Diagnose mismatched issuer, domain, audience, redirect URIs, clock and certificate
    Doctor,
    /// Manage companies and units as an operator; audited under this account's name
    #[command(subcommand)]
    Org(OrgCommand),
    /// Manage subjects as an operator; audited under this account's name
    #[command(subcommand)]
    Identity(IdentityCommand),
    /// Look at relations and tuples as an operator, or run cases with known answers
    #[command(subcommand)]
    Authz(AuthzRequest),
}

/// Shells with completions.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// Generates the completions of a shell.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let generator = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let (mut command, mut out) = (Cli::command(), Vec::new());
    clap_complete::generate(generator, &mut command, "platform", &mut out);
    out
}

/// Renders the manual page: the command itself, then each subcommand.
pub(crate) fn manual() -> std::io::Result<Vec<u8>> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut out = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut out)?;
    for word in command.get_subcommands() {
        let name = format!("platform {}", word.get_name());
        let page = clap_mangen::Man::new(word.clone().bin_name(name.clone()));
        writeln!(out, ".SH \"{}\"", name.to_uppercase())?;
        page.render_description_section(&mut out)?;
        page.render_options_section(&mut out)?;
    }
    Ok(out)
}

/// Arguments of `platform new`.
#[derive(Args, Clone, Debug)]
pub struct NewCommand {
    /// The kind of thing
    #[command(subcommand)]
    pub kind: NewKind,
}

/// Subcommands of `platform new`.
#[derive(Clone, Debug, Subcommand)]
pub enum NewKind {
    /// A module in `modules/KEY` of this workspace, with one resource, that passes every check and its own tests
    Module(NewRequest),
}

/// Arguments of `platform new module`.
#[derive(Args, Clone, Debug)]
pub struct NewRequest {
    /// The module's key: a lower-case letter, then letters, digits and _
    pub key: String,
}

/// Subcommands of `platform org`.
#[derive(Clone, Debug, Subcommand)]
pub enum OrgCommand {
    /// Grant or revoke the company role admin
    #[command(subcommand)]
    Admin(AdminCommand),
    /// Deactivate a company or unit
    Deactivate {
        /// Id of the company or unit
        id: String,
    },
    /// Reactivate a company or unit
    Activate {
        /// Id of the company or unit
        id: String,
    },
}

/// Subcommands of `platform org admin`.
#[derive(Clone, Debug, Subcommand)]
pub enum AdminCommand {
    /// Make a subject a company administrator
    Add(CompanyAdmin),
    /// Revoke the role from a subject
    Remove(CompanyAdmin),
}

/// A company and a subject.
#[derive(Args, Clone, Debug)]
pub struct CompanyAdmin {
    /// The company's id
    pub company: String,
    /// `sub` of the subject's tokens
    pub subject: String,
}

/// Subcommands of `platform identity`.
#[derive(Clone, Debug, Subcommand)]
pub enum IdentityCommand {
    /// Refuse every decision about a subject until it is activated
    Suspend(LifecycleRequest),
    /// Let a suspended subject act again
    Activate(LifecycleRequest),
    /// Close a subject for good: the identity provider removes its account, and names and addresses are erased
    Close(LifecycleRequest),
    /// Print what the database holds about a subject, as JSON without secrets
    Export(SubjectRequest),
    /// Users of the built-in identity provider
    #[command(subcommand)]
    User(UserCommand),
}

/// Subcommands of `platform identity user`.
#[derive(Clone, Debug, Subcommand)]
pub enum UserCommand {
    /// Add a user, and print the subject and a password that works until the user has chosen another at the login
    Add(NewUser),
    /// Print a user's subject, e-mail address and second factors
    Show(UserName),
    /// Send a user an e-mail with a link to choose a password, valid for three days
    Invite(Invitation),
    /// End the user's sessions, and print a new password that works until the user has chosen another at the login
    Reset(ResetRequest),
    /// Refuse a user's logins, and end the user's sessions and refresh tokens at once
    Disable(UserName),
    /// Let a disabled user sign in again
    Enable(UserName),
}

/// Arguments of `platform identity user add`.
#[derive(Args, Clone, Debug)]
pub struct NewUser {
    /// Lower-case letters, digits, '.', '_' and '-', at most 64
    pub name: String,
    /// E-mail address, with which the user may also sign in
    #[arg(long)]
    pub email: Option<String>,
    /// First name
    #[arg(long)]
    pub first_name: Option<String>,
    /// Last name
    #[arg(long)]
    pub last_name: Option<String>,
    /// Send an e-mail with a link to choose a password instead of printing one
    #[arg(long, requires = "email")]
    pub invite: bool,
    /// Language of the e-mail
    #[arg(long, value_enum, requires = "invite", default_value_t = Language::En)]
    pub lang: Language,
}

/// Arguments of `platform identity user invite`.
#[derive(Args, Clone, Debug)]
pub struct Invitation {
    #[command(flatten)]
    pub user: UserName,
    /// Language of the e-mail
    #[arg(long, value_enum, default_value_t = Language::En)]
    pub lang: Language,
}

/// Languages of e-mails.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Language {
    /// English
    En,
    /// German
    De,
}

impl Language {
    /// Returns the language tag that the provider's routes take.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::De => "de",
        }
    }
}

/// Arguments of `platform identity user reset`.
#[derive(Args, Clone, Debug)]
pub struct ResetRequest {
    #[command(flatten)]
    pub user: UserName,
    /// Also remove the second factor, for a user who has lost it
    #[arg(long)]
    pub second_factor: bool,
}

/// A user.
#[derive(Args, Clone, Debug)]
pub struct UserName {
    /// User name
    pub name: String,
}

/// A subject.
#[derive(Args, Clone, Debug)]
pub struct SubjectRequest {
    /// `sub` of the subject's tokens
    pub subject: String,
}

/// A subject, and the reason for the change.
#[derive(Args, Clone, Debug)]
pub struct LifecycleRequest {
    /// `sub` of the subject's tokens
    pub subject: String,
    /// Reason for the audit row
    #[arg(long, default_value = "an operator's command")]
    pub reason: String,
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

/// What to check: without an option, the platform itself.
#[derive(Args, Clone, Debug)]
pub struct CheckRequest {
    /// Check the folder of a module instead
    #[arg(long, value_name = "DIR", conflicts_with = "app")]
    pub module: Option<PathBuf>,
    /// Check the manifest of an app instead
    #[arg(long, value_name = "FILE")]
    pub app: Option<PathBuf>,
    /// Print the problems as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

/// The user or client that the token is for.
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

/// Parses the arguments; on failure, prints the message and returns the exit code.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, ExitCode> {
    match Cli::try_parse_from(args) {
        Ok(cli) => Ok(cli.command),
        Err(error) => {
            let code = if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
            // There is no way to report that the output is closed.
            drop(error.print());
            Err(code)
        }
    }
}
