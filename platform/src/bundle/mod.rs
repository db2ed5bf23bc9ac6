//! Reads and checks what every part ships: the contract files of modules, and migrations. [`Problem`] reports a defect
//! in one of them. `check`, `new` and `up` build on this module.

pub(crate) mod migrations;
mod problem;

use contract::manifest::set::{self, ModuleContract};

pub(crate) use problem::Problem;

use crate::catalog;

/// Contracts of the modules whose files are valid; `platform check` reports the problems of the others.
pub(crate) fn contracts() -> Vec<ModuleContract> {
    let bundles = catalog::bundles().into_iter();
    bundles
        .filter_map(|bundle| set::parse_module(bundle.key, bundle.manifest, bundle.fragment).ok())
        .collect()
}

/// Encodes bytes as lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}
