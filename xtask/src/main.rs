//! Developer tasks, run as `cargo xtask TASK`: `arch` (allowed imports), `config` (the table of variables in
//! CONFIGURATION.md), `dist` (release programs), `names` (type names that several crates use), `openapi` (components shared
//! by modules), `sqlx-prepare` (query data for offline builds), `tidy` (sizes and headers). Each prints every problem that
//! it finds and fails if there is any.

mod arch;
mod config;
mod dist;
mod names;
mod openapi;
mod report;
mod sqlx_prepare;
mod tidy;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next().unwrap_or_default();
    match run(&task, &arguments.collect::<Vec<_>>()) {
        Ok(problems) if problems.is_empty() => {
            say(&format!("{task}: ok"));
            ExitCode::SUCCESS
        }
        Ok(problems) => {
            for problem in &problems {
                say(problem);
            }
            say(&format!("{task}: {} problems", problems.len()));
            ExitCode::FAILURE
        }
        Err(error) => {
            say(&format!("{task}: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(task: &str, options: &[String]) -> anyhow::Result<Vec<String>> {
    match task {
        "arch" => arch::check(&root()?),
        "config" => config::renew(&root()?),
        "dist" => dist::run(&root()?, options),
        "names" => names::check(&root()?),
        "tidy" => {
            if options.iter().any(|option| option == "--report") {
                report::print(&root()?)?;
            }
            tidy::check(&root()?)
        }
        "openapi" => openapi::renew(&root()?),
        "sqlx-prepare" => sqlx_prepare::run(&root()?),
        _ => bail!(
            "usage: cargo xtask arch | config | dist [--train] | names | openapi | sqlx-prepare | tidy [--report]"
        ),
    }
}

fn root() -> anyhow::Result<PathBuf> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(ToOwned::to_owned).context("xtask is in the workspace")
}

/// Runs a command in the workspace and returns its output.
fn output(root: &std::path::Path, program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let done = std::process::Command::new(program).args(arguments).current_dir(root).output();
    let done = done.with_context(|| format!("{program} did not start"))?;
    if !done.status.success() {
        bail!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&done.stderr));
    }
    Ok(String::from_utf8(done.stdout)?)
}

/// The Rust files that git knows or would add, relative to the root.
fn rust_files(root: &std::path::Path) -> anyhow::Result<Vec<String>> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"];
    let listed = output(root, "git", &arguments)?;
    Ok(listed.lines().filter(|path| root.join(path).exists()).map(ToOwned::to_owned).collect())
}

fn say(line: &str) {
    // The reader may close standard output; that is not a failure of the task.
    if writeln!(std::io::stdout(), "{line}").is_err() {
        std::process::exit(0);
    }
}
