//! The files of the module contract agree with each other and with the program.

use testkit::module::contract_files;
use timesheet::{BUNDLE, PORT, features};

#[test]
fn they_say_what_the_program_does() {
    let asked = [
        features::SETTINGS_READ,
        features::SETTINGS_UPDATE,
        features::PROJECTS_READ,
        features::PROJECTS_MANAGE,
        features::APPROVERS_READ,
        features::APPROVERS_MANAGE,
        features::ENTRIES_READ,
        features::ENTRIES_WRITE,
        features::SUBMISSIONS_READ,
        features::SUBMISSIONS_READ_ALL,
        features::SUBMIT,
        features::DECIDE_ANY,
        features::DECIDE,
        features::REVERT,
    ];
    contract_files::check(&BUNDLE, PORT, &asked);
}
