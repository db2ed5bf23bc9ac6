//! The login a person sees. A request's way: `rules.rs` checks the parameters, `ticket.rs` binds the accepted request
//! to the browser, `page.rs` shows the form, `guard.rs` slows who guesses, and the posted form becomes a session and a
//! code (`answer.rs`, `store.rs`).

mod answer;
pub(crate) mod guard;
pub(crate) mod http;
pub(crate) mod page;
pub(crate) mod rules;
mod store;
pub(crate) mod ticket;
