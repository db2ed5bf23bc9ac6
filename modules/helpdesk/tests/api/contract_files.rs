//! The files of the module contract agree with each other and with the program.

use helpdesk::operations::{TIER_ADMIN, TIER_EDITOR};
use helpdesk::{BUNDLE, PORT, operations};
use testkit::module::contract_files;

/// Of operations that are not there yet.
const LATER: &[&str] = &[
    "helpdesk.assignables.read",
    "helpdesk.bindings.manage",
    "helpdesk.bindings.read",
    "helpdesk.comments.create",
    "helpdesk.comments.read",
    "helpdesk.tickets.assign",
    "helpdesk.tickets.create",
    "helpdesk.tickets.transition",
    "helpdesk.tickets.work",
];

#[test]
fn they_say_what_the_program_does() {
    contract_files::check(&BUNDLE, PORT, operations().table(), &[TIER_ADMIN, TIER_EDITOR], LATER);
}
