//! `platform check --module DIR`: checks the folder of a module under development, beside the shipped modules.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use contract::fence;
use contract::fragment::{self, Fragment};
use contract::manifest::set::{self, ModuleContract};
use contract::manifest::{self, Manifest, is_key};
use contract::{FieldProblem, frontend, license, openapi};
use serde_json::Value;

use crate::bundle::{self, Problem};

/// Exclusive limit of a file's size, in bytes; each check has its own, smaller limit.
const MAX_READ: u64 = 4 << 20;
/// Name of the migrations folder, which the manifest fixes.
const MIGRATIONS: &str = "migrations";

/// Returns every problem in the folder.
pub(super) fn check(folder: &Path) -> Vec<Problem> {
    if !folder.is_dir() {
        return vec![Problem::new(folder.display().to_string(), "required", "is not a folder")];
    }
    let mut problems = Vec::new();
    let mut need = |name: &str| required(folder, name).map_err(|problem| problems.push(problem)).ok();
    let manifest_text = need(manifest::FILE);
    let fragment_text = need(fragment::FILE);
    let openapi_text = need(openapi::FILE);
    let license_text = need(license::FILE);

    let key = key_of(folder, manifest_text.as_deref());
    let mut tell = |file: &str, found: Vec<FieldProblem>| {
        problems.extend(found.into_iter().map(|problem| Problem::field(format!("{key}/{file}"), problem)));
    };
    let manifest: Option<Manifest> = manifest_text
        .and_then(|text| manifest::parse(&text).map_err(|found| tell(manifest::FILE, found)).ok());
    let fragment: Option<Fragment> = fragment_text
        .and_then(|text| fragment::parse(&text, &key).map_err(|found| tell(fragment::FILE, found)).ok());
    if let Some(text) = openapi_text {
        tell(openapi::FILE, check_openapi(&text, &key));
    }
    if let (Some(manifest), Some(text)) = (&manifest, license_text) {
        tell(license::FILE, license::check(&manifest.license.spdx, &text).into_iter().collect());
    }
    problems.extend(check_frontend(folder, &key, fragment.as_ref()));
    problems.extend(check_migrations(&folder.join(MIGRATIONS), &key));
    if let (Some(manifest), Some(fragment)) = (manifest, fragment) {
        problems.extend(beside_the_shipped(ModuleContract { manifest, fragment }));
    }
    problems
}

/// The manifest's key, even if the manifest has problems, so that the other files are checked against the right key;
/// else the folder's name.
fn key_of(folder: &Path, manifest: Option<&str>) -> String {
    let value: Option<Value> = manifest.and_then(|text| serde_json::from_str(text).ok());
    let named = value.as_ref().and_then(|value| value.get("moduleKey")?.as_str()).filter(|key| is_key(key));
    let folder = || folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    named.map_or_else(folder, ToOwned::to_owned)
}

fn check_openapi(text: &str, key: &str) -> Vec<FieldProblem> {
    let shipped = bundle::contracts();
    let keys = shipped.iter().map(|module| module.manifest.key.as_str());
    let mut keys: Vec<&str> = keys.chain([key]).collect();
    keys.sort_unstable();
    keys.dedup();
    openapi::check(text, &format!("/api/{key}"), &keys)
}

fn check_frontend(folder: &Path, key: &str, fragment: Option<&Fragment>) -> Vec<Problem> {
    let path = folder.join(frontend::FILE);
    let file = format!("{key}/{}", frontend::FILE);
    if !path.exists() {
        return Vec::new();
    }
    match (read(&path), fragment) {
        (Ok(text), Some(fragment)) => {
            let found = frontend::check(&text, fragment).into_iter();
            found.map(|problem| Problem::field(file.clone(), problem)).collect()
        }
        (Ok(_), None) => vec![Problem::new(file, "feature", "cannot be checked until the fragment is valid")],
        (Err(error), _) => vec![unreadable(file, &error)],
    }
}

fn check_migrations(folder: &Path, key: &str) -> Vec<Problem> {
    let entries = match fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
        Ok(entries) => entries,
        Err(error) => return vec![unreadable(format!("{key}/{MIGRATIONS}"), &error)],
    };
    let (mut texts, mut problems) = (Vec::new(), Vec::new());
    for entry in entries.iter().take(fence::MAX_FILES + 1) {
        let name = entry.file_name().to_string_lossy().into_owned();
        match read(&entry.path()) {
            Ok(text) => texts.push((name, text)),
            Err(error) => problems.push(unreadable(format!("{key}/{MIGRATIONS}/{name}"), &error)),
        }
    }
    texts.sort();
    let files: Vec<fence::File<'_>> = texts.iter().map(|(name, text)| fence::File { name, text }).collect();
    let found = fence::check(key, &files).into_iter();
    problems.extend(found.map(|finding| Problem::migration(key, finding)));
    problems
}

/// Checks the rules between modules. The new module comes last, so that a double claim is reported as its problem.
fn beside_the_shipped(contract: ModuleContract) -> Vec<Problem> {
    let mut modules = bundle::contracts();
    modules.retain(|module| module.manifest.key != contract.manifest.key);
    modules.push(contract);
    set::check(&modules).into_iter().map(Problem::between).collect()
}

fn required(folder: &Path, name: &str) -> Result<String, Problem> {
    let path = folder.join(name);
    read(&path).map_err(|error| unreadable(path.display().to_string(), &error))
}

fn unreadable(file: String, error: &io::Error) -> Problem {
    let rule = if error.kind() == io::ErrorKind::NotFound { "required" } else { "readable" };
    Problem::new(file, rule, format!("cannot be read: {error}"))
}

/// Reads a whole text file smaller than [`MAX_READ`].
pub(super) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(MAX_READ).read_to_string(&mut text)?;
    if u64::try_from(read).is_ok_and(|read| read < MAX_READ) {
        return Ok(text);
    }
    Err(io::Error::other(format!("the file has {MAX_READ} bytes or more")))
}
