//! What every part brings along, read and checked: the contract files of modules, migrations, and how a problem in one of
//! them is told. `check`, `new` and `up` stand on it.

pub(crate) mod migrations;
mod problem;

use contract::manifest::set::{self, ModuleContract};

pub(crate) use problem::Problem;

use crate::catalog;

/// The modules whose files are in order; `platform check` names the problems of the others.
pub(crate) fn contracts() -> Vec<ModuleContract> {
    let bundles = catalog::bundles().into_iter();
    bundles
        .filter_map(|bundle| set::parse_module(bundle.key, bundle.manifest, bundle.fragment).ok())
        .collect()
}

/// Two lower-case digits a byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}
