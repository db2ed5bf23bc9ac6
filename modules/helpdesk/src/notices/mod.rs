//! Notices about tickets, posted through notification: an outbox. A notice is written in the transaction of the change;
//! a queue posts it on behalf of the subject that made the change, with the services' credential. No request waits for
//! it or fails because of it.
//!
//! Everyone in the company may read the channel, so a notice contains the ticket's number and what happened, but no
//! text of the ticket. There are no notices of internal comments.

mod queue;
pub mod rules;
pub(crate) mod store;

pub(crate) use queue::start;
