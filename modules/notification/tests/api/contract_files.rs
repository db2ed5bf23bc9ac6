//! The files of the module contract agree with each other and with the program.

use notification::operations::CHANNELS_MANAGE;
use notification::{BUNDLE, PORT, operations};
use testkit::module::contract_files;

/// Of operations that are not there yet.
const LATER: &[&str] = &[
    "notification.dispatch.run",
    "notification.events.post",
    "notification.messages.create",
    "notification.messages.read",
    "notification.messages.read_all",
    "notification.secrets.manage",
    "notification.subscriptions.write",
];

#[test]
fn they_say_what_the_program_does() {
    contract_files::check(&BUNDLE, PORT, operations().table(), &[CHANNELS_MANAGE], LATER);
}
