//! The files of the module contract agree with each other and with the program.

use docs::{BUNDLE, PORT, operations};
use testkit::module::contract_files;

/// Of operations that are not there yet.
const LATER: &[&str] = &[
    "docs.access.manage",
    "docs.documents.create",
    "docs.documents.delete",
    "docs.documents.edit",
    "docs.documents.read",
    "docs.history.read",
    "docs.ownership.transfer",
    "docs.shares.manage",
    "docs.shares.read",
    "docs.versions.read",
];

#[test]
fn they_say_what_the_program_does() {
    contract_files::check(&BUNDLE, PORT, operations().table(), &[], LATER);
}
