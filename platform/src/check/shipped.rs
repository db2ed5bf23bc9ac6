//! The platform itself: its configuration, and the files of every part that is compiled in.

use contract::manifest::set;
use contract::settings::Problems;
use contract::{Reader, Settings, license, openapi};
use postgres::{Binaries, PG_BIN};
use serde_json::Value;

use crate::bundle::{Problem, migrations};
use crate::catalog;
use crate::plan::{Plan, UpConfig};
use crate::stop::Stop;
use crate::variables::DATA_DIR;

/// File and rule of what is wrong with the configuration as a whole.
const CONFIGURATION: &str = "configuration";

/// Configuration, contract files, OpenAPI files and migrations. `early`: variables that were wrong before a check could begin.
pub(super) fn check(settings: &Settings, early: Problems) -> Vec<Problem> {
    let mut problems = configuration(settings, early);
    problems.extend(modules());
    for part in catalog::parts() {
        problems.extend(document(part.name, part.openapi));
        problems.extend(migrations::numbers(part.name, part.migrations));
        problems.extend(migrations::checksums(part.name, part.migrations));
    }
    problems.extend(document("gateway", edge::OPENAPI));
    problems
}

/// As `up` would read it. Secrets that it would make are stood in for: a check writes nothing.
fn configuration(settings: &Settings, early: Problems) -> Vec<Problem> {
    let mut reader = settings.reader();
    let config = UpConfig::read_with(&mut reader);
    unusable_folders(settings, &config, &mut reader);
    let mut found = early.0;
    found.extend(reader.finish(()).err().into_iter().flat_map(|problems| problems.0));
    let mut settings = settings.clone();
    // Where one of them alone is given, that is told already.
    for name in ["PLATFORM_TLS_CERT", "PLATFORM_TLS_KEY"] {
        settings.default_to(name, "made at the start");
    }
    let mut other = None;
    match Plan::make(&settings, &config, |_| crate::secrets::random()) {
        Ok(_) => {}
        Err(Stop::Misconfigured(problems)) => found.extend(problems.0),
        // It may come of what is told already.
        Err(stop) => other = Some(Problem::new(CONFIGURATION, CONFIGURATION, stop.to_string())),
    }
    let mut told = Vec::new();
    for problem in found {
        let problem = Problem::variable(problem);
        if !told.contains(&problem) {
            told.push(problem);
        }
    }
    if told.is_empty() { other.into_iter().collect() } else { told }
}

/// Folders that `up` would use and that are none.
fn unusable_folders(settings: &Settings, config: &UpConfig, reader: &mut Reader<'_>) {
    if config.data_dir.exists() && !config.data_dir.is_dir() {
        reader.refuse(DATA_DIR.name, format!("{} is not a folder", config.data_dir.display()));
    }
    if config.database_url.is_none()
        && settings.raw(PG_BIN.name).is_some()
        && let Err(error) = Binaries::find(settings, None)
    {
        reader.refuse(PG_BIN.name, error.to_string());
    }
}

/// Each module's files, then what must hold between modules.
fn modules() -> Vec<Problem> {
    let (mut contracts, mut problems) = (Vec::new(), Vec::new());
    let bundles = catalog::bundles();
    let keys: Vec<&str> = bundles.iter().map(|bundle| bundle.key).collect();
    for bundle in &bundles {
        let file = |name: &str| format!("{}/{name}", bundle.key);
        match set::parse_module(bundle.key, bundle.manifest, bundle.fragment) {
            Ok(contract) => {
                problems.extend(port(bundle.key, contract.manifest.service.port));
                let text = license::check(&contract.manifest.license.spdx, bundle.license);
                problems.extend(text.map(|problem| Problem::field(file(license::FILE), problem)));
                let found = openapi::check(bundle.openapi, &contract.manifest.base_path(), &keys);
                problems
                    .extend(found.into_iter().map(|problem| Problem::field(file(openapi::FILE), problem)));
                contracts.push(contract);
            }
            Err(found) => problems.extend(found.into_iter().map(Problem::between)),
        }
        let fenced = migrations::fence(bundle.key, bundle.migrations).into_iter();
        problems.extend(fenced.map(|finding| Problem::migration(bundle.key, finding)));
    }
    problems.extend(set::check(&contracts).into_iter().map(Problem::between));
    problems
}

fn port(key: &str, manifest: u16) -> Option<Problem> {
    let serves = catalog::parts().into_iter().find(|part| part.name == key)?.port;
    let message = format!("the manifest says port {manifest}, and the module listens on {serves}");
    (manifest != serves).then(|| Problem::new(format!("{key}/module.manifest.json"), "port", message))
}

fn document(name: &str, text: &str) -> Option<Problem> {
    let file = format!("{name}/{}", openapi::FILE);
    let document: Value = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(error) => return Some(Problem::new(file, "json", format!("not JSON: {error}"))),
    };
    let version = document.get("openapi").and_then(Value::as_str).unwrap_or_default();
    let paths = document.get("paths").is_some_and(Value::is_object);
    let problem = || Problem::new(file, "openapi_version", "not an OpenAPI 3.1 document with paths");
    (!(version.starts_with("3.1.") && paths)).then(problem)
}
