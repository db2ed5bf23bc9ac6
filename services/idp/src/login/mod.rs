//! The login a person sees. A request's way: `rules.rs` checks the parameters, `ticket.rs` binds the accepted request
//! to the browser, `page.rs` shows the form, `guard.rs` slows guessing (but not on a device that `device.rs` knows), and the
//! posted form becomes a session and a code (`answer.rs`, `store.rs`).

mod answer;
mod device;
pub(crate) mod guard;
pub(crate) mod http;
pub(crate) mod page;
pub(crate) mod rules;
mod store;
pub(crate) mod ticket;
