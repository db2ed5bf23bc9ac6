//! `platform check`: everything that can be found wrong without starting anything. Prints every problem; the exit code
//! is 2 when there is one.

use contract::Settings;
use contract::manifest::set;
use serde_json::Value;

use crate::catalog::{self, Part};
use crate::console;
use crate::stop::Stop;
use crate::up::{Plan, UpConfig};

/// Looks at configuration, contract files, OpenAPI files and migrations; lists the routes that answer 501.
pub(crate) fn check(settings: &Settings) -> Result<(), Stop> {
    let mut problems = Vec::new();
    problems.extend(configuration(settings).err().map(|stop| stop.to_string()));
    problems.extend(modules());
    for part in catalog::parts() {
        problems.extend(openapi(part.name, part.openapi));
        problems.extend(migrations(&part));
        for route in part.not_yet {
            console::result(&format!("not implemented yet: {} {route}", part.name));
        }
    }
    problems.extend(openapi("gateway", edge::OPENAPI));
    if problems.is_empty() {
        console::result("no problems");
        return Ok(());
    }
    Err(Stop::Unfit(problems.join("\n")))
}

/// As `up` would read it. Secrets that it would make are stood in for: a check writes nothing.
fn configuration(settings: &Settings) -> Result<(), Stop> {
    let config = UpConfig::read(settings)?;
    let mut settings = settings.clone();
    if config.makes_certificates {
        settings.default_to("PLATFORM_TLS_CERT", "made at the start");
        settings.default_to("PLATFORM_TLS_KEY", "made at the start");
    }
    Plan::make(&settings, &config, |_| crate::secrets::random()).map(drop)
}

/// Each module's manifest and fragment, then what must hold between modules.
fn modules() -> Vec<String> {
    let (mut contracts, mut problems) = (Vec::new(), Vec::new());
    for bundle in catalog::bundles() {
        match set::parse_module(bundle.key, bundle.manifest, bundle.fragment) {
            Ok(contract) => {
                problems.extend(port(bundle.key, contract.manifest.service.port));
                contracts.push(contract);
            }
            Err(found) => problems.extend(found.iter().map(ToString::to_string)),
        }
        if bundle.license.trim().is_empty() {
            problems.push(format!("{}: LICENSE is empty", bundle.key));
        }
    }
    problems.extend(set::check(&contracts).iter().map(ToString::to_string));
    problems
}

fn port(key: &str, manifest: u16) -> Option<String> {
    let serves = catalog::parts().into_iter().find(|part| part.name == key)?.port;
    let message = format!("{key}: the manifest says port {manifest}, and the module listens on {serves}");
    (manifest != serves).then_some(message)
}

fn openapi(name: &str, text: &str) -> Option<String> {
    let document: Value = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(error) => return Some(format!("{name}: openapi.json is not JSON: {error}")),
    };
    let version = document.get("openapi").and_then(Value::as_str).unwrap_or_default();
    let paths = document.get("paths").is_some_and(Value::is_object);
    let message = || format!("{name}: openapi.json is not an OpenAPI 3.1 document with paths");
    (!(version.starts_with("3.1.") && paths)).then(message)
}

/// Numbered from 1 without a gap, so that no file was lost in a merge.
fn migrations(part: &Part) -> Vec<String> {
    let numbered = (1_i64..).zip(part.migrations.iter());
    let wrong = numbered.filter(|(expected, migration)| *expected != migration.version);
    wrong
        .map(|(expected, found)| {
            format!("{}: migration {} stands where {expected} should", part.name, found.version)
        })
        .collect()
}
