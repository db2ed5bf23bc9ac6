//! The interactive login. `rules.rs` checks the parameters, `ticket.rs` binds the accepted request to the browser,
//! `steps.rs` shows the form of each step and decides the next, `credentials.rs` checks the password, `second_factor.rs`
//! the code and `passkey.rs` what a passkey signed, and `new_password.rs` replaces a password that an operator set.
//! `guard.rs` slows guessing (but not on a device that `device.rs` knows), and `failures.rs` counts it. The last step
//! creates a session and a code (`answer.rs`, `store.rs`).

mod answer;
pub(crate) mod credentials;
pub(crate) mod device;
pub(crate) mod failures;
pub(crate) mod guard;
pub(crate) mod http;
mod new_password;
mod passkey;
pub(crate) mod rules;
mod second_factor;
pub(crate) mod steps;
mod store;
pub(crate) mod ticket;
