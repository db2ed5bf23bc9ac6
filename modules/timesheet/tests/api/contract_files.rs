//! The files of the module contract agree with each other and with the program.

use testkit::module::contract_files;
use timesheet::{BUNDLE, PORT, operations};

#[test]
fn they_say_what_the_program_does() {
    contract_files::check(&BUNDLE, PORT, operations().table(), operations::SECOND, &[]);
}
