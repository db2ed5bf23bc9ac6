//! The migrations of the shipped modules, and the same files checked as another module's.

use std::fs;
use std::path::Path;

use contract::fence::{File, check};

fn migrations(key: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../modules").join(key).join("migrations");
    let entries = fs::read_dir(folder).expect("a module's migrations");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<(String, String)> = paths
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).expect("a readable file"))
        })
        .collect();
    files.sort();
    files
}

#[test]
fn shipped_migrations_pass_and_would_not_for_another_module() {
    for key in ["timesheet", "notification", "helpdesk", "docs"] {
        let texts = migrations(key);
        let files: Vec<File<'_>> = texts.iter().map(|(name, text)| File { name, text }).collect();
        assert!(!files.is_empty(), "{key}");
        assert_eq!(check(key, &files), [], "{key}");
        assert!(!check("demo", &files).is_empty(), "{key} as demo");
    }
}
