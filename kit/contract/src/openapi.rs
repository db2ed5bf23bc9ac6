//! A module's `openapi.json`: its base path, the names of its operations and the modules that each of them needs. The
//! schemas are not checked here; tests compare responses with them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::FieldProblem;
use crate::envelope::shown;
use crate::manifest::strict::{self, Findings};

/// Name of the file.
pub const FILE: &str = "openapi.json";

/// Components that are the same in every module's document: security scheme, parameters of lists and companies, the
/// error envelope and the refusals of every operation. A document includes those that it uses; `cargo xtask openapi`
/// copies them.
pub const SHARED: &str = include_str!("openapi/shared.json");

/// Members of a path item that are operations.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
/// Operations that require no module.
const PROBES: [(&str, &str); 2] = [("/health", "get"), ("/ready", "get")];

/// Every rule that the file violates. `base_path` is the manifest's; `modules` are all existing keys.
#[must_use]
pub fn check(text: &str, base_path: &str, modules: &[&str]) -> Vec<FieldProblem> {
    let value = match strict::read_json(text) {
        Ok(value) => value,
        Err(problems) => return problems,
    };
    let mut found = Findings::default();
    let Value::Object(file) = &value else {
        found.refuse::<()>("", "type", "a JSON object");
        return found.into_problems();
    };
    check_version(file, &mut found);
    check_servers(file, base_path, &mut found);
    check_paths(file, modules, &mut found);
    found.into_problems()
}

fn check_version(file: &Map<String, Value>, found: &mut Findings) {
    let version = file.get("openapi").and_then(Value::as_str).unwrap_or_default();
    if !version.starts_with("3.1.") {
        found.refuse::<()>("openapi", "openapi_version", "3.1");
    }
}

/// The first server is the base path of the module's routes; the only other one is `/`, for its probes.
fn check_servers(file: &Map<String, Value>, base_path: &str, found: &mut Findings) {
    let servers = file.get("servers").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let url = |server: &Value| server.get("url").and_then(Value::as_str).unwrap_or_default().to_owned();
    if servers.first().map(url).as_deref() != Some(base_path) {
        found.refuse::<()>("servers[0].url", "base_path", format!("exactly {base_path}"));
    }
    if servers.len() > strict::MAX_NAMED {
        found.refuse::<()>("servers", "limit", format!("at most {} servers", strict::MAX_NAMED));
        return;
    }
    for (index, server) in servers.iter().enumerate().skip(1) {
        if url(server) != "/" {
            found.refuse::<()>(&format!("servers[{index}].url"), "other_server", "only / for probes");
        }
    }
}

fn check_paths(file: &Map<String, Value>, modules: &[&str], found: &mut Findings) {
    let Some(Value::Object(paths)) = file.get("paths") else {
        found.refuse::<()>("paths", "required", "an object of paths");
        return;
    };
    let mut ids = BTreeSet::new();
    for (path, item) in paths {
        let at = format!("paths.{}", shown(path));
        if !path.starts_with('/') || path == "/api" || path.starts_with("/api/") {
            found.refuse::<()>(&at, "relative_path", "relative to the base path: from /, never /api/");
        }
        let Value::Object(item) = item else {
            found.refuse::<()>(&at, "type", "a JSON object");
            continue;
        };
        // A referenced path item, or one with another server, would escape these rules.
        if item.contains_key("$ref") {
            found.refuse::<()>(&at, "path_reference", "written out, no $ref");
        }
        check_own_servers(item, &at, found);
        for (method, operation) in item.iter().filter(|(name, _)| METHODS.contains(&name.as_str())) {
            let at = format!("{at}.{method}");
            check_operation(operation, &at, &mut ids, found);
            if !PROBES.contains(&(path, method)) {
                check_modules(operation, &at, modules, found);
            }
        }
    }
}

fn check_operation(operation: &Value, at: &str, ids: &mut BTreeSet<String>, found: &mut Findings) {
    let Value::Object(members) = operation else {
        found.refuse::<()>(at, "type", "a JSON object");
        return;
    };
    check_own_servers(members, at, found);
    let path = format!("{at}.operationId");
    match members.get("operationId").and_then(Value::as_str) {
        Some("") | None => {
            found.refuse::<()>(&path, "required", "required");
        }
        Some(id) if !ids.insert(id.to_owned()) => {
            found.refuse::<()>(&path, "unique", format!("\"{id}\" is another operation's"));
        }
        Some(_) => {}
    }
}

/// Below the top level, the only allowed server is the one for probes.
fn check_own_servers(members: &Map<String, Value>, at: &str, found: &mut Findings) {
    let Some(servers) = members.get("servers") else { return };
    let is_probe = |server: &Value| server.get("url").and_then(Value::as_str) == Some("/");
    if !servers.as_array().is_some_and(|servers| servers.iter().all(is_probe)) {
        found.refuse::<()>(&format!("{at}.servers"), "other_server", "only / for probes");
    }
}

fn check_modules(operation: &Value, at: &str, modules: &[&str], found: &mut Findings) {
    let path = format!("{at}.x-required-modules");
    let needed = operation.get("x-required-modules").and_then(Value::as_array);
    let Some(needed) = needed.filter(|needed| !needed.is_empty()) else {
        found.refuse::<()>(&path, "required_modules", "a list of at least one module key");
        return;
    };
    if needed.len() > strict::MAX_NAMED {
        found.refuse::<()>(&path, "limit", format!("at most {} modules", strict::MAX_NAMED));
        return;
    }
    for (index, key) in needed.iter().enumerate() {
        if !key.as_str().is_some_and(|key| modules.contains(&key)) {
            let message = format!("{key} is not a module; the modules are {}", modules.join(", "));
            found.refuse::<()>(&format!("{path}[{index}]"), "required_modules", message);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample() -> Value {
        json!({
            "openapi": "3.1.0",
            "servers": [{"url": "/api/crm"}, {"url": "/"}],
            "paths": {
                "/v1/leads": {
                    "parameters": [],
                    "get": {"operationId": "listLeads", "x-required-modules": ["crm"]},
                    "post": {"operationId": "createLead", "x-required-modules": ["crm", "docs"]}
                },
                "/health": {"get": {"operationId": "health"}},
                "/ready": {"get": {"operationId": "ready"}, "servers": [{"url": "/"}]}
            }
        })
    }

    fn problems(value: &Value) -> Vec<(String, String)> {
        let found = check(&value.to_string(), "/api/crm", &["crm", "docs"]);
        found.into_iter().map(|problem| (problem.path, problem.rule.into_owned())).collect()
    }

    /// The sample with one value changed breaks one rule.
    #[track_caller]
    fn refuses(pointer: &str, value: Value, path: &str, rule: &str) {
        let mut file = sample();
        *file.pointer_mut(pointer).expect(pointer) = value;
        assert_eq!(problems(&file), [(path.to_owned(), rule.to_owned())]);
    }

    #[test]
    fn a_right_file_has_no_problem() {
        assert_eq!(problems(&sample()), []);
    }

    #[test]
    fn it_is_openapi_3_1_with_paths() {
        refuses("/openapi", json!("3.0.3"), "openapi", "openapi_version");
        refuses("/paths", json!([]), "paths", "required");
        assert_eq!(problems(&json!([])), [(String::new(), "type".to_owned())]);
        assert_eq!(check("{", "/api/crm", &[]).first().map(|problem| &*problem.rule), Some("json"));
    }

    #[test]
    fn the_first_server_is_the_base_path_and_the_only_other_is_for_probes() {
        refuses("/servers/0/url", json!("/api/other"), "servers[0].url", "base_path");
        refuses("/servers", json!([]), "servers[0].url", "base_path");
        refuses("/servers/1/url", json!("https://example.org"), "servers[1].url", "other_server");
        refuses("/paths/~1ready/servers/0/url", json!("/api/x"), "paths./ready.servers", "other_server");
        let operation =
            json!({"operationId": "a", "x-required-modules": ["crm"], "servers": [{"url": "/x"}]});
        refuses("/paths/~1v1~1leads/get", operation, "paths./v1/leads.get.servers", "other_server");
    }

    #[test]
    fn paths_are_relative() {
        for bad in ["v1/leads", "/api/crm/v1/leads", "/api"] {
            let mut file = sample();
            let paths = file.pointer_mut("/paths").and_then(Value::as_object_mut).expect("paths");
            paths.insert(bad.to_owned(), json!({}));
            assert_eq!(problems(&file), [(format!("paths.{bad}"), "relative_path".to_owned())]);
        }
        refuses("/paths/~1v1~1leads", json!({"$ref": "#/x"}), "paths./v1/leads", "path_reference");
        refuses("/paths/~1v1~1leads", json!(1), "paths./v1/leads", "type");
    }

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        refuses(
            "/paths/~1v1~1leads/get/operationId",
            json!("createLead"),
            "paths./v1/leads.post.operationId",
            "unique",
        );
        refuses(
            "/paths/~1v1~1leads/get/operationId",
            json!(""),
            "paths./v1/leads.get.operationId",
            "required",
        );
        refuses("/paths/~1health/get", json!({}), "paths./health.get.operationId", "required");
    }

    #[test]
    fn every_operation_but_the_probes_names_modules_that_there_are() {
        let at = "/paths/~1v1~1leads/get/x-required-modules";
        let path = "paths./v1/leads.get.x-required-modules";
        refuses(at, json!([]), path, "required_modules");
        refuses(at, json!("crm"), path, "required_modules");
        refuses(at, json!(["crm", "billing"]), &format!("{path}[1]"), "required_modules");
        let mut file = sample();
        let health = file.pointer_mut("/paths/~1health").and_then(Value::as_object_mut).expect("health");
        health.insert("post".to_owned(), json!({"operationId": "poke"}));
        assert_eq!(
            problems(&file),
            [("paths./health.post.x-required-modules".to_owned(), "required_modules".to_owned())]
        );
    }
}
