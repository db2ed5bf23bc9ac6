//! `platform check --app FILE`: the manifest that an app will register, judged as the registration will, beside the
//! modules that ship.

use std::path::Path;

use super::module::read;
use crate::bundle::Problem;
use crate::catalog;

/// Everything that is wrong with the manifest.
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
