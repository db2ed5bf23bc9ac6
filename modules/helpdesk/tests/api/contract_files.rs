//! The files of the module contract agree with each other and with the program.

use helpdesk::operations::SECOND;
use helpdesk::{BUNDLE, PORT, operations};
use testkit::module::contract_files;

#[test]
fn they_say_what_the_program_does() {
    contract_files::check(&BUNDLE, PORT, operations().table(), SECOND, &[]);
}
