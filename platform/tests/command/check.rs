//! `platform check`, and the shipped migrations against their checksums.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};
use serde_json::Value;

use crate::fixture::Platform;

#[test]
fn what_ships_has_no_problems_and_nothing_is_written() {
    let platform = Platform::new();
    let run = platform.run(&["check"]);
    run.succeeded();
    assert!(run.out.contains("no problems"), "{}", run.out);
    assert!(!platform.data_dir.exists());
}

#[test]
fn the_example_of_a_module_has_no_problems() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/module");
    let run = Platform::new().run(&["check", "--module", example.to_str().expect("a UTF-8 path")]);
    run.succeeded();
    assert_eq!(run.out.trim(), "no problems");
}

#[test]
fn a_module_folder_that_is_missing_is_one_problem() {
    let run = Platform::new().run(&["check", "--module", "/nowhere/module"]);
    run.refused(&["/nowhere/module: is not a folder"]);
    let lines: Vec<&str> = run.err.lines().chain(run.out.lines()).collect();
    assert_eq!(lines.iter().filter(|line| line.contains("/nowhere/module")).count(), 1, "{lines:?}");
}

#[test]
fn every_problem_is_printed() {
    let run = Platform::new()
        .with("PLATFORM_DRAIN_TIMEOUT", "soon")
        .with("IDP_JWKS_REFRESH_INTERVAL", "x")
        .run(&["check"]);
    run.refused(&["PLATFORM_DRAIN_TIMEOUT", "IDP_JWKS_REFRESH_INTERVAL"]);
}

/// Regardless of which part reads the variable, and of other problems.
#[test]
fn each_wrong_variable_is_a_problem_of_its_own() {
    for (name, value) in [
        ("IDP_JWKS_REFRESH_INTERVAL", "x"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "x"),
        ("PLATFORM_EDGE_ADDR", "x"),
        ("PLATFORM_LISTEN_ADDR", "x"),
        ("PLATFORM_LOG_FORMAT", "xml"),
        ("PLATFORM_TLS_CERT", "/nowhere.pem"),
    ] {
        let run = Platform::new()
            .with(name, value)
            .with("PLATFORM_DRAIN_TIMEOUT", "soon")
            .run(&["check", "--json"]);
        assert_eq!(run.code, Some(2), "{}", run.err);
        let answer: Value = serde_json::from_str(&run.out).expect("JSON on standard output");
        let mut paths: Vec<&str> = answer["problems"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|one| one["path"].as_str())
            .collect();
        paths.sort_unstable();
        let missing = if name == "PLATFORM_TLS_CERT" { "PLATFORM_TLS_KEY" } else { name };
        let mut expected = ["PLATFORM_DRAIN_TIMEOUT", missing];
        expected.sort_unstable();
        assert_eq!(paths, expected, "{}", run.out);
        assert!(run.err.contains("2 problems"), "{}", run.err);
    }
}

/// Covers problems that `up` would notice only after it has started the database, or could not check at all.
#[test]
fn files_and_folders_that_a_start_cannot_use_are_found_before() {
    let [first, second] = [(); 2]
        .map(|()| rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate"));
    let platform = Platform::new()
        .with_file("a.pem", &first.cert.pem())
        .with_file("a.key", &first.signing_key.serialize_pem())
        .with_file("b.pem", &second.cert.pem())
        .with_file("b.key", &second.signing_key.serialize_pem());
    let path = |name: &str| platform.data_dir.join(name).to_string_lossy().into_owned();
    let with = |chain: &str, key: &str| {
        platform.beside().with("PLATFORM_TLS_CERT", &path(chain)).with("PLATFORM_TLS_KEY", &path(key))
    };
    with("a.pem", "a.key").run(&["check"]).succeeded();
    with("a.pem", "b.key").run(&["check"]).refused(&["PLATFORM_TLS_KEY", "b.key is not the key of", "a.pem"]);
    let pairs = |pair: String| with("a.pem", "a.key").with("PLATFORM_TLS_PAIRS", &pair).run(&["check"]);
    pairs(format!("{}:{}", path("b.pem"), path("b.key"))).succeeded();
    for pair in ["/nowhere:/nowhere".to_owned(), format!("{}:{}", path("b.pem"), path("a.key"))] {
        pairs(pair).refused(&["configuration: PLATFORM_TLS_PAIRS: "]);
    }
    let check = |name: &str, value: &str| Platform::new().with(name, value).run(&["check"]);
    check("PLATFORM_PG_BIN", "/nowhere").refused(&["configuration: PLATFORM_PG_BIN: ", "/nowhere"]);
    check("PLATFORM_DATA_DIR", &path("a.pem")).refused(&["PLATFORM_DATA_DIR", "is not a folder"]);
}

#[test]
fn files_of_the_gateway_that_cannot_be_used_are_told_by_variable_path_and_reason() {
    let run = Platform::new()
        .with("PLATFORM_GATEWAY_UPSTREAM_CA", "/nowhere/upstreams.pem")
        .with("PLATFORM_TLS_CLIENT_CA", "/nowhere/clients.pem")
        .with("PLATFORM_GATEWAY_UPGRADES", "*")
        .run(&["check"]);
    run.refused(&[
        "PLATFORM_GATEWAY_UPSTREAM_CA",
        "/nowhere/upstreams.pem",
        "PLATFORM_TLS_CLIENT_CA",
        "/nowhere/clients.pem",
        "No such file",
        "PLATFORM_GATEWAY_UPGRADES",
    ]);
}

#[test]
fn shipped_migrations_have_not_changed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let listed = fs::read_to_string(root.join("migrations/CHECKSUMS")).expect("migrations/CHECKSUMS");
    let lines: Vec<String> = shipped(&root).iter().map(|(path, hash)| format!("{hash}  {path}")).collect();
    let found = lines.join("\n") + "\n";
    assert_eq!(
        found, listed,
        "a shipped migration never changes: add a new one; and list it: \
         sha256sum migrations/*/*.sql modules/*/migrations/*.sql | LC_ALL=C sort -k2 > migrations/CHECKSUMS"
    );
}

/// Returns the hash of every migration, by path.
fn shipped(root: &Path) -> BTreeMap<String, String> {
    let folders = |parent: &str| -> Vec<PathBuf> {
        let entries = fs::read_dir(root.join(parent)).expect(parent);
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect()
    };
    let modules = folders("modules").into_iter().map(|module| module.join("migrations"));
    let all = folders("migrations").into_iter().chain(modules).filter(|folder| folder.is_dir());
    let files = all
        .flat_map(|folder| fs::read_dir(folder).expect("a folder"))
        .map(|entry| entry.expect("an entry").path());
    files
        .filter(|file| file.extension().is_some_and(|extension| extension == "sql"))
        .map(|file| {
            (file.strip_prefix(root).expect("below the root").to_string_lossy().into_owned(), hash(&file))
        })
        .collect()
}

fn hash(file: &Path) -> String {
    let digest = digest(&SHA256, &fs::read(file).expect("a readable file"));
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}
