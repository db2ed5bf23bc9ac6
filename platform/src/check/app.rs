//! `platform check --app FILE`: checks an app's manifest by the rules of its registration, beside the shipped modules.

use std::path::Path;

use super::module::read;
use crate::bundle::Problem;
use crate::catalog;

/// Returns every problem of the manifest.
pub(super) fn check(file: &Path) -> Vec<Problem> {
    let name = file.display().to_string();
    match read(file) {
        Ok(text) => {
            let found = registry::check_app(&text, &catalog::bundles()).into_iter();
            found.map(|problem| Problem::field(name.clone(), problem)).collect()
        }
        Err(error) => vec![Problem::new(name, "readable", format!("cannot be read: {error}"))],
    }
}
