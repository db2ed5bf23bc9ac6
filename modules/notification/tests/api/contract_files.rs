//! The files of the module contract agree with each other and with the program.

use notification::{BUNDLE, PORT, features};
use testkit::module::contract_files;

#[test]
fn they_say_what_the_program_does() {
    contract_files::check(&BUNDLE, PORT, &[features::CHANNELS_READ, features::CHANNELS_MANAGE]);
}
