//! Checks allowed imports (ARCHITECTURE.md): thin crates never depend on thick ones, services and modules never on each
//! other, and the gateway never on axum, sqlx or tower-http, not even transitively. Inside the crates of `FLOORS`,
//! folders are ordered and have no cycles.

#![expect(clippy::indexing_slicing, reason = "only JSON is indexed, where a missing member is null")]

mod folders;
mod imports;

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use folders::Floors;

const PURE: &[&str] = &["contract"];
const HARNESS: &[&str] = &["contract", "bearer", "telemetry", "service", "postgres"];
const THIN: &[&str] = &["contract", "bearer", "telemetry"];
const CHASSIS: &[&str] = &["contract", "bearer", "telemetry", "service"];
/// Crates that send their own mail.
const MAILING: &[&str] = &["contract", "bearer", "telemetry", "service", "mail"];
/// All crates except the modules, which are recognised by their folder.
const EVERYTHING: &[&str] = &[
    "contract",
    "bearer",
    "telemetry",
    "postgres",
    "service",
    "edge",
    "authz",
    "org",
    "registry",
    "identity",
    "idp",
];

/// Crates that the tests of every crate may use.
const TEST_ONLY: &[&str] = &["testkit", "postgres"];
/// Libraries on which the gateway must not depend.
const FOREIGN_TO_EDGE: &[&str] = &["axum", "axum-core", "tower-http", "sqlx", "sqlx-core"];

/// The workspace crates on which a workspace crate may depend.
fn allowed(package: &str, is_module: bool) -> Option<&'static [&'static str]> {
    match package {
        "notification" | "idp" => Some(MAILING),
        _ if is_module => Some(CHASSIS),
        "mail" => Some(&["contract", "service"]),
        "contract" | "xtask" => Some(&[]),
        "bearer" | "telemetry" | "postgres" => Some(PURE),
        "service" | "edge" => Some(THIN),
        "testkit" => Some(HARNESS),
        "authz" | "org" | "registry" | "identity" => Some(CHASSIS),
        "platform" => Some(EVERYTHING),
        // Besides the program, it starts a gateway and a registry with modules that are not shipped.
        "e2e" => Some(&["platform", "contract", "edge", "registry", "service"]),
        _ => None,
    }
}

/// The crates whose folders are ordered, lower layers first.
const FLOORS: &[Floors] = &[
    Floors {
        source: "edge/src",
        order: &[
            "config",
            "tuning",
            "http",
            "metrics",
            "tls",
            "body",
            "upstream",
            "response",
            "control",
            "aggregate",
            "pipeline",
            "server",
            "state",
            "reload",
            "bench",
        ],
    },
    Floors {
        source: "services/authz/src/engine",
        order: &["model", "facts", "answers", "database", "source", "sql", "graph", "feed", "memory"],
    },
    Floors {
        source: "services/authz/src",
        order: &[
            "config", "meter", "engine", "feed", "decision", "denials", "state", "access", "roles", "grants",
            "summary", "routes", "operate", "cases",
        ],
    },
    Floors {
        source: "platform/src",
        order: &[
            "console",
            "stop",
            "cli",
            "signals",
            "secrets",
            "data_dir",
            "certificates",
            "catalog",
            "variables",
            "bundle",
            "fetching",
            "database",
            "plan",
            "token",
            "config",
            "authorization",
            "operator",
            "demo",
            "doctor",
            "check",
            "migrate",
            "new",
            "serve",
            "up",
        ],
    },
];

pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut problems = workspace_edges(root)?;
    problems.extend(foreign_to_edge(root)?);
    for floors in FLOORS {
        let report = folders::check(root, floors)?;
        crate::say(&report.table(floors));
        problems.extend(report.problems);
    }
    Ok(problems)
}

fn workspace_edges(root: &Path) -> anyhow::Result<Vec<String>> {
    let text =
        crate::output(root, "cargo", &["metadata", "--no-deps", "--format-version", "1", "--offline"])?;
    let metadata: Value = serde_json::from_str(&text)?;
    let packages = metadata["packages"].as_array().context("packages")?;
    let names: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let modules: Vec<&str> = packages
        .iter()
        .filter(|package| lies_in(package, "modules"))
        .filter_map(|package| package["name"].as_str())
        .collect();
    let mut problems = Vec::new();
    for package in packages {
        let name = package["name"].as_str().context("a name")?;
        let Some(allowed) = allowed(name, is_module(package)) else {
            problems.push(format!("{name}: not in the table of `xtask arch`; add it"));
            continue;
        };
        for dependency in package["dependencies"].as_array().context("dependencies")? {
            let to = dependency["name"].as_str().context("a name")?;
            let test_only = dependency["kind"] == "dev";
            let fits = allowed.contains(&to)
                || (name == "platform" && modules.contains(&to))
                || (test_only && TEST_ONLY.contains(&to));
            if names.contains(&to) && !fits {
                problems.push(format!("{name} must not import {to}"));
            }
        }
    }
    Ok(problems)
}

/// Every crate in `modules/` or `examples/` is a module, so a new one needs no line here. Only the former are shipped.
fn is_module(package: &Value) -> bool {
    lies_in(package, "modules") || lies_in(package, "examples")
}

fn lies_in(package: &Value, parent: &str) -> bool {
    let manifest = package["manifest_path"].as_str().unwrap_or_default();
    Path::new(manifest).ancestors().nth(2).is_some_and(|folder| folder.ends_with(parent))
}

fn foreign_to_edge(root: &Path) -> anyhow::Result<Vec<String>> {
    let arguments = ["tree", "--package", "edge", "--edges", "normal", "--prefix", "none", "--offline"];
    let tree = crate::output(root, "cargo", &arguments)?;
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    let mut found: Vec<&str> = names.filter(|name| FOREIGN_TO_EDGE.contains(name)).collect();
    found.sort_unstable();
    found.dedup();
    Ok(found.into_iter().map(|name| format!("edge must not reach {name}")).collect())
}
