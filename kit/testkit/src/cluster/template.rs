//! The template database: bootstrap and all migrations as they are on disk. Its name holds a hash of those files, so
//! that an edited migration makes a new template.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use aws_lc_rs::digest::{self as sha, SHA256};
use service::migrate::{self, Login, MigrationSet};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};

use super::{Cluster, PASSWORD, workspace};

/// The foundation's schemas in migration order; the modules follow by name.
const FOUNDATION: [&str; 5] = ["authz", "identity", "org", "registry", "idp"];
/// The module that is not shipped: its schema and its folder.
const EXAMPLE: (&str, &str) = ("tasks", "examples/module");
/// Advisory lock for making templates: a number that nothing else uses in the database `postgres`.
const LOCK: i64 = 0x7465_6d70_6c61_7465;

/// A schema and its migrations folder.
pub(super) struct Source {
    pub(super) key: String,
    folder: PathBuf,
}

/// Name of the template with the migrations on disk; makes it if it is missing.
pub(super) async fn template(cluster: &Cluster) -> Result<String> {
    let sources = sources()?;
    let name = format!("template_{}", hash(&sources)?);
    let mut connection = cluster.superuser("postgres").connect().await?;
    sqlx::query("SELECT pg_advisory_lock($1)").bind(LOCK).execute(&mut connection).await?;
    let exists = sqlx::query_scalar::<_, bool>("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)");
    if !exists.bind(&name).fetch_one(&mut connection).await? {
        make(cluster, &mut connection, &name, &sources).await.context("making the template database")?;
    }
    connection.close().await?;
    Ok(name)
}

/// A login for every schema of the platform, with the test password.
pub(super) fn logins(sources: &[Source]) -> Vec<Login> {
    sources.iter().map(|source| Login { key: source.key.clone(), password: PASSWORD.to_owned() }).collect()
}

/// All schemas, in migration order.
pub(super) fn sources() -> Result<Vec<Source>> {
    let root = workspace();
    let foundation =
        FOUNDATION.map(|key| Source { key: key.to_owned(), folder: root.join("migrations").join(key) });
    let (key, folder) = EXAMPLE;
    let example = Source { key: key.to_owned(), folder: root.join(folder).join("migrations") };
    let mut modules = vec![example];
    for entry in fs::read_dir(root.join("modules"))? {
        let entry = entry?;
        let key = entry.file_name().to_string_lossy().into_owned();
        modules.push(Source { key, folder: entry.path().join("migrations") });
    }
    modules.sort_by(|left, right| left.key.cmp(&right.key));
    Ok(foundation.into_iter().chain(modules).collect())
}

/// Makes the template under a temporary name first, so that an incomplete one is never copied.
async fn make(cluster: &Cluster, postgres: &mut PgConnection, name: &str, sources: &[Source]) -> Result<()> {
    let unfinished = format!("unfinished_{name}");
    run(postgres, format!("DROP DATABASE IF EXISTS {unfinished} WITH (FORCE)")).await?;
    run(postgres, format!("CREATE DATABASE {unfinished}")).await?;
    let owner = cluster.superuser(&unfinished);
    migrate::bootstrap(&owner, &logins(sources)).await?;
    let mut sets = Vec::new();
    for source in sources.iter().filter(|source| source.folder.is_dir()) {
        sets.push(MigrationSet::from_folder(&source.key, &source.folder).await?);
    }
    migrate::apply(&owner, &sets).await?;
    run(postgres, format!("ALTER DATABASE {unfinished} RENAME TO {name}")).await
}

/// Statements about databases take no parameters; these names consist of letters, digits and underscores.
pub(super) async fn run(connection: &mut PgConnection, statement: String) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await?;
    Ok(())
}

fn hash(sources: &[Source]) -> Result<String> {
    let mut files = sql_files(&workspace().join("migrations/0000_bootstrap"))?;
    for source in sources.iter().filter(|source| source.folder.is_dir()) {
        files.extend(sql_files(&source.folder)?);
    }
    let mut parts = Vec::new();
    for file in files {
        parts.push(file.as_os_str().as_encoded_bytes().to_vec());
        parts.push(fs::read(&file)?);
    }
    Ok(hex(&digest(parts.iter().map(Vec::as_slice))))
}

fn sql_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "sql"));
    files.sort();
    Ok(files)
}

/// The first bytes of a SHA-256 over all parts and their lengths.
pub(super) fn digest<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut context = sha::Context::new(&SHA256);
    for part in parts {
        context.update(&part.len().to_le_bytes());
        context.update(part);
    }
    context.finish().as_ref().iter().take(8).copied().collect()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        text.extend(
            [byte >> 4, byte & 15].into_iter().filter_map(|nibble| char::from_digit(u32::from(nibble), 16)),
        );
        text
    })
}
