//! `platform check`, and the shipped migrations against their checksums.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};

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

/// Hash of every migration by its path.
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
