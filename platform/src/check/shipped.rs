//! The platform itself: its configuration, and the files of every part that is compiled in.

use contract::manifest::set;
use contract::{Settings, license, openapi};
use serde_json::Value;

use crate::bundle::{Problem, migrations};
use crate::catalog;
use crate::plan::{Plan, UpConfig};
use crate::stop::Stop;

/// Configuration, contract files, OpenAPI files and migrations.
pub(super) fn check(settings: &Settings) -> Vec<Problem> {
    let mut problems = Vec::new();
    problems.extend(
        configuration(settings)
            .err()
            .map(|stop| Problem::new("configuration", "configuration", stop.to_string())),
    );
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
fn configuration(settings: &Settings) -> Result<(), Stop> {
    let config = UpConfig::read(settings)?;
    let mut settings = settings.clone();
    if config.makes_certificates {
        settings.default_to("PLATFORM_TLS_CERT", "made at the start");
        settings.default_to("PLATFORM_TLS_KEY", "made at the start");
    }
    Plan::make(&settings, &config, |_| crate::secrets::random()).map(drop)
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
