//! Notices of what happens to tickets, through notification: an outbox. A notice is a row of the transaction whose change
//! it tells of; a queue posts it in the name of the subject that made the change, with the services' credential. No
//! request waits for it, and none fails with it.
//!
//! Everybody in the company may read the channel, so a notice holds the ticket's number and what happened to it, and
//! nothing that was written in it. Internal comments are not told at all.

mod queue;
pub mod rules;
pub(crate) mod store;

pub(crate) use queue::start;
