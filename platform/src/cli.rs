//! The command line: words to [`Command`]. Help and version end with 0, a usage error with 2.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

/// What `platform help` says below the list of commands.
const MORE: &str = "\
The first hour:
  platform up                         everything, on embedded defaults; wait for \"platform ready\"
  platform demo                       in a second shell in the same folder: a company to look at
  platform token --user alice         an access token, for curl

Configuration is environment variables: `platform config` lists every one with its present value.
Everything that is kept lies in PLATFORM_DATA_DIR (./.platform); its certs/ca.pem is what clients trust.
Exit codes: 0 clean stop, 1 failure while running, 2 could not start. Ctrl-C drains and stops; twice stops at once.";

#[derive(Debug, Parser)]
#[command(name = "platform", version, about = "The platform as one command", after_help = MORE)]
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
    /// Write the beginning of something new
    New(NewCommand),
    /// Print every variable: name, default, current value, unit, meaning
    Config {
        /// Print name, default, unit and meaning as the table of CONFIGURATION.md
        #[arg(long)]
        markdown: bool,
    },
    /// Log in through the edge and print an access token
    Token(TokenRequest),
    /// Fill a running platform with a small company, and print five things to try
    Demo,
    /// Print the completions of a shell, to be sourced or installed
    Completions {
        /// Which shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print the manual page, for `man -l -`
    Man,
    /// Compare issuer, domain, audience, redirect list, clock and certificate, and say what does not fit
    Doctor,
    /// What operators do with companies and units; audited with the name of this account
    #[command(subcommand)]
    Org(OrgCommand),
    /// What operators do with subjects; audited with the name of this account
    #[command(subcommand)]
    Identity(IdentityCommand),
    /// Look at relations and tuples as an operator, or run cases with known answers
    #[command(subcommand)]
    Authz(AuthzRequest),
}

/// The shells that completions are made for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// The completions of a shell.
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

/// The manual: the command itself, then each of its words.
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

/// What to write.
#[derive(Args, Clone, Debug)]
pub struct NewCommand {
    /// The kind of thing
    #[command(subcommand)]
    pub kind: NewKind,
}

/// Kinds of things that an author begins with.
#[derive(Clone, Debug, Subcommand)]
pub enum NewKind {
    /// A module in `modules/KEY` of this workspace, with one resource, that passes every check and its own tests
    Module(NewRequest),
}

/// How it is called.
#[derive(Args, Clone, Debug)]
pub struct NewRequest {
    /// The module's key: a lower-case letter, then letters, digits and _
    pub key: String,
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
    /// End a subject for good: the identity provider removes its account, and names and addresses are forgotten
    Close(LifecycleRequest),
    /// Print what the database holds about a subject, as JSON without secrets
    Export(SubjectRequest),
    /// Users of the built-in identity provider
    #[command(subcommand)]
    User(UserCommand),
}

/// What to do with the users of the built-in identity provider.
#[derive(Clone, Debug, Subcommand)]
pub enum UserCommand {
    /// Add a user, and print a password that is good for the first login
    Add(NewUser),
    /// Send a user a letter with a link to choose a password, good for three days
    Invite(Invitation),
    /// Print another password that is good for one login; the user's sessions end
    Reset(ResetRequest),
    /// Refuse a user's logins; its sessions and refresh tokens end at once
    Disable(UserName),
    /// Let a disabled user sign in again
    Enable(UserName),
}

/// A user to be added.
#[derive(Args, Clone, Debug)]
pub struct NewUser {
    /// Lower-case letters, digits, '.', '_' and '-', at most 64
    pub name: String,
    /// E-mail address, by which the user may sign in, too
    #[arg(long)]
    pub email: Option<String>,
    /// First name
    #[arg(long)]
    pub first_name: Option<String>,
    /// Last name
    #[arg(long)]
    pub last_name: Option<String>,
    /// Send a letter with a link to choose a password, instead of printing one
    #[arg(long, requires = "email")]
    pub invite: bool,
    /// Language of the letter
    #[arg(long, value_enum, default_value_t = Language::En)]
    pub lang: Language,
}

/// Who is invited.
#[derive(Args, Clone, Debug)]
pub struct Invitation {
    #[command(flatten)]
    pub user: UserName,
    /// Language of the letter
    #[arg(long, value_enum, default_value_t = Language::En)]
    pub lang: Language,
}

/// Languages of letters.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Language {
    /// English
    En,
    /// German
    De,
}

impl Language {
    /// As the provider's routes write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::De => "de",
        }
    }
}

/// Whose password is reset.
#[derive(Args, Clone, Debug)]
pub struct ResetRequest {
    #[command(flatten)]
    pub user: UserName,
    /// Take the second factor away, too, for a user who has lost it
    #[arg(long)]
    pub second_factor: bool,
}

/// Which user.
#[derive(Args, Clone, Debug)]
pub struct UserName {
    /// User name
    pub name: String,
}

/// Which subject.
#[derive(Args, Clone, Debug)]
pub struct SubjectRequest {
    /// `sub` of its tokens
    pub subject: String,
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
