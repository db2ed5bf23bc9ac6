//! `platform new module KEY`: creates a folder `modules/KEY` that passes `platform check --module` and its own tests,
//! and adds the two lines to the workspace's `Cargo.toml` that make it a member. Shipping it with the platform is the
//! author's decision; the command prints the steps. No other existing file is changed.

mod files;
mod workspace;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use contract::manifest;
use contract::manifest::set::ModuleContract;
use contract::ports;

use crate::bundle::contracts;
use crate::cli::NewRequest;
use crate::console;
use crate::stop::Stop;
use files::{Names, Written};
use workspace::Workspace;

/// First port for new modules; shipped modules have lower ones.
const FIRST_PORT: u16 = 8200;
/// Distance between the ports of two modules.
const PORT_STEP: usize = 10;

/// Writes the module.
pub(crate) fn module(request: &NewRequest) -> Result<(), Stop> {
    let here = std::env::current_dir().map_err(|error| Stop::Unfit(format!("no current folder: {error}")))?;
    let workspace = Workspace::read(&here)?;
    let names = names(&request.key, &workspace)?;
    let written = files::of(&names);
    let changed = workspace.with_member(&names.key)?;
    let made = write_new(&workspace.root, &names.key, &written)?;
    replace(&workspace.root.join(workspace::FILE), &changed)
        .inspect_err(|_| undo(&folder_of(&workspace.root, &names.key), &made))?;
    for line in next_steps(&names) {
        console::result(&line);
    }
    Ok(())
}

/// Checks the key, and derives the module's name and port.
fn names(key: &str, workspace: &Workspace) -> Result<Names, Stop> {
    let refused = |why: &str| Stop::Unfit(format!("\"{key}\" cannot be the key of a module: {why}"));
    if !manifest::is_key(key) {
        return Err(refused(
            "it must be a lower-case letter followed by 1 to 31 lower-case letters, digits or _",
        ));
    }
    if manifest::is_reserved_key(key) {
        return Err(refused("it is reserved by the platform"));
    }
    if workspace.knows_crate(key) || workspace::is_word_of_rust(key) {
        return Err(refused("a crate has this name already, or Rust reserves the word"));
    }
    if workspace.manifests().iter().any(|manifest| manifest.key == key) {
        return Err(refused("another module has it"));
    }
    Ok(Names { key: key.to_owned(), name: title(key), port: free_port(workspace)? })
}

/// `sales_leads` → `Sales leads`.
fn title(key: &str) -> String {
    let text = key.replace('_', " ").trim().to_owned();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Returns the first port that neither a shipped module nor one of the workspace has.
fn free_port(workspace: &Workspace) -> Result<u16, Stop> {
    let shipped = contracts().into_iter().map(|ModuleContract { manifest, .. }| manifest.service.port);
    let taken: Vec<u16> = shipped
        .chain(workspace.manifests().iter().map(|manifest| manifest.service.port))
        .chain(ports::TAKEN.map(|(port, _)| port))
        .collect();
    let free = (FIRST_PORT..u16::MAX).step_by(PORT_STEP).find(|port| !taken.contains(port));
    free.ok_or_else(|| Stop::Unfit("every port is taken".to_owned()))
}

/// Writes every file or none: a failure removes the files that were written before it.
fn write_new(root: &Path, key: &str, files: &[Written]) -> Result<Vec<PathBuf>, Stop> {
    let folder = folder_of(root, key);
    if folder.exists() {
        return Err(Stop::Unfit(format!("{} exists already", folder.display())));
    }
    let mut made = Vec::new();
    for file in files {
        let path = root.join(&file.path);
        // A query's data is named by the query's hash: an earlier module with this key may have left the same file.
        if fs::read_to_string(&path).is_ok_and(|there| there == file.text) {
            continue;
        }
        if let Err(error) = create(&path, &file.text) {
            undo(&folder, &made);
            return Err(Stop::Unfit(format!("{} cannot be written: {error}", path.display())));
        }
        made.push(path);
    }
    Ok(made)
}

fn folder_of(root: &Path, key: &str) -> PathBuf {
    root.join("modules").join(key)
}

fn create(path: &Path, text: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())
}

fn undo(folder: &Path, made: &[PathBuf]) {
    for path in made {
        if let Err(error) = fs::remove_file(path) {
            console::say(&format!("{} cannot be removed: {error}", path.display()));
        }
    }
    if folder.exists()
        && let Err(error) = fs::remove_dir_all(folder)
    {
        console::say(&format!("{} cannot be removed: {error}", folder.display()));
    }
}

/// Replaces a file by renaming a complete new one, so that a full disk never leaves half a file.
fn replace(path: &Path, text: &str) -> Result<(), Stop> {
    let beside = path.with_extension("toml.new");
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| Stop::Unfit(format!("{} cannot be written: {error}", path.display())))
}

fn next_steps(names: &Names) -> Vec<String> {
    let Names { key, port, .. } = names;
    [
        format!("modules/{key} is written; its port is {port}"),
        String::new(),
        "it passes already:".to_owned(),
        format!("  platform check --module modules/{key}"),
        format!("  cargo test -p {key}"),
        String::new(),
        "to ship it with the platform:".to_owned(),
        format!("  platform/Cargo.toml      [dependencies]  {key}.workspace = true"),
        format!("  platform/src/catalog.rs  parts()         part!({key}, {port}),"),
        format!("  platform/src/catalog.rs  bundles()       {key}::BUNDLE"),
        "  migrations/CHECKSUMS     sha256sum migrations/*/*.sql modules/*/migrations/*.sql | LC_ALL=C sort -k2 > \
         migrations/CHECKSUMS"
            .to_owned(),
        "  then: DEV_PG=postgres://… cargo xtask sqlx-prepare, whenever a query changed".to_owned(),
    ]
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_becomes_a_title() {
        assert_eq!((title("crm"), title("sales_leads")), ("Crm".to_owned(), "Sales leads".to_owned()));
    }
}
