//! Query data for offline builds: a live PostgreSQL with all migrations describes every `query!`, and the descriptions
//! are stored in `.sqlx`. `DEV_PG` is the URL of a server on which this task may create and drop a database.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

const DATABASE: &str = "platform_sqlx_prepare";

pub(crate) fn run(root: &Path) -> anyhow::Result<Vec<String>> {
    let server = dev_server()?;
    let made = Command::new(root.join("xtask/dev-db.sh")).arg(DATABASE).env("DEV_PG", &server).status()?;
    if !made.success() {
        bail!("the database {DATABASE} could not be made on {server}");
    }
    let data = root.join(".sqlx");
    if data.exists() {
        std::fs::remove_dir_all(&data)?;
    }
    std::fs::create_dir(&data)?;
    // A separate target folder: cargo does not notice that the macros' environment changed, and would reuse old builds.
    let built = Command::new("cargo")
        .args(["check", "--workspace", "--all-targets", "--target-dir", "target/sqlx-prepare"])
        .current_dir(root)
        .env("DATABASE_URL", format!("{server}/{DATABASE}"))
        .env("SQLX_OFFLINE", "false")
        .env("SQLX_OFFLINE_DIR", &data)
        .status()?;
    if built.success() { Ok(Vec::new()) } else { Ok(vec!["the workspace does not build".to_owned()]) }
}

#[expect(clippy::disallowed_methods, reason = "a developer task has no configuration but this")]
fn dev_server() -> anyhow::Result<String> {
    let server = std::env::var("DEV_PG").context("DEV_PG=postgres://user:password@host:port is needed")?;
    Ok(server.trim_end_matches('/').to_owned())
}
