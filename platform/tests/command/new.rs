//! `platform new module`: its output passes every check, and it never overwrites anything.

use std::fs;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::fixture::{Platform, Run};

/// The parts of a workspace that the command reads.
struct Workspace {
    folder: PathBuf,
}

impl Workspace {
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("workspace-{}", Uuid::now_v7()));
        fs::create_dir_all(folder.join("modules")).expect("a folder");
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        fs::copy(ours, folder.join("Cargo.toml")).expect("the workspace's file");
        Self { folder }
    }

    fn run(&self, arguments: &[&str]) -> Run {
        Platform::new().run_in(&self.folder, arguments)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.folder.join(path)).expect(path)
    }

    /// Every file below a folder, by path.
    fn files(&self) -> Vec<PathBuf> {
        fn below(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() { below(&path, found) } else { found.push(path) }
            }
        }
        let mut found = Vec::new();
        below(&self.folder, &mut found);
        found.sort();
        found
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).expect("the workspace can be removed");
    }
}

#[test]
fn what_it_writes_passes_every_check_and_is_a_member() {
    let workspace = Workspace::new();
    let run = workspace.run(&["new", "module", "demo"]);
    run.succeeded();
    for word in ["modules/demo is written; its port is 8200", "cargo test -p demo", "part!(demo, 8200)"] {
        assert!(run.out.contains(word), "no \"{word}\" in {}", run.out);
    }
    let check = workspace.run(&["check", "--module", "modules/demo"]);
    check.succeeded();
    assert_eq!(check.out.trim(), "no problems");
    let manifest = workspace.text("Cargo.toml");
    assert!(manifest.contains("    \"modules/demo\",\n"), "{manifest}");
    assert!(manifest.contains("\ndemo = { path = \"modules/demo\" }\n"), "{manifest}");
    let sources =
        workspace.files().into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "rs"));
    for source in sources {
        let text = fs::read_to_string(&source).expect("a source");
        assert!(text.starts_with("//!") && !text.contains("{{"), "{}", source.display());
    }
}

#[test]
fn a_module_that_was_thrown_away_can_be_written_again() {
    let workspace = Workspace::new();
    let before = workspace.text("Cargo.toml");
    workspace.run(&["new", "module", "demo"]).succeeded();
    let written = workspace.files();
    fs::remove_dir_all(workspace.folder.join("modules/demo")).expect("it can be removed");
    fs::write(workspace.folder.join("Cargo.toml"), before).expect("a file");
    workspace.run(&["new", "module", "demo"]).succeeded();
    assert_eq!(workspace.files(), written);
}

#[test]
fn each_module_gets_a_port_of_its_own_and_a_title() {
    let workspace = Workspace::new();
    workspace.run(&["new", "module", "demo"]).succeeded();
    workspace.run(&["new", "module", "sales_leads"]).succeeded();
    let manifest = workspace.text("modules/sales_leads/module.manifest.json");
    assert!(manifest.contains("\"port\": 8210") && manifest.contains("\"Sales leads\""), "{manifest}");
    workspace.run(&["check", "--module", "modules/sales_leads"]).succeeded();
}

#[test]
fn what_is_there_is_never_overwritten_and_a_bad_key_writes_nothing() {
    let workspace = Workspace::new();
    workspace.run(&["new", "module", "demo"]).succeeded();
    let (files, manifest) = (workspace.files(), workspace.text("Cargo.toml"));
    for (key, why) in [
        ("demo", "a crate has this name already"),
        ("docs", "a crate has this name already"),
        ("Demo", "a lower-case letter"),
        ("../demo", "a lower-case letter"),
        ("owner", "reserved by the platform"),
        ("match", "Rust reserves the word"),
        ("serde", "a crate has this name already"),
    ] {
        workspace.run(&["new", "module", key]).refused(&[key, why]);
    }
    let example = workspace.folder.join("examples/module");
    fs::create_dir_all(&example).expect("a folder");
    let manifest_of_example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/module/module.manifest.json");
    fs::copy(manifest_of_example, example.join("module.manifest.json")).expect("the example's manifest");
    workspace.run(&["new", "module", "tasks"]).refused(&["tasks", "another module has it"]);
    fs::remove_dir_all(workspace.folder.join("examples")).expect("it can be removed");
    fs::create_dir(workspace.folder.join("modules/taken")).expect("a folder");
    workspace.run(&["new", "module", "taken"]).refused(&["modules/taken exists already"]);
    assert_eq!((workspace.files(), workspace.text("Cargo.toml")), (files, manifest));
}

#[test]
fn it_runs_in_the_workspace_only() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("elsewhere-{}", Uuid::now_v7()));
    fs::create_dir_all(&folder).expect("a folder");
    Platform::new().run_in(&folder, &["new", "module", "demo"]).refused(&["root of its workspace"]);
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);
    fs::remove_dir(&folder).expect("it is empty");
}
