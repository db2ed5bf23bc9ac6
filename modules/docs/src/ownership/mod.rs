//! Ownership transfers: the new owner's tuple is granted, then the row changes, then the former owner's tuple is
//! removed. In between, both pass as the owner; this is acceptable because the audit rows name both.
//!
//! A transfer that is interrupted before the row changes is settled by the next request about the document, as the sweep
//! would settle it later: it takes place if the new owner's tuple exists. One that is interrupted after the row changes
//! leaves the former owner's tuple and a row in `revoking`. The next request about the document removes the tuple before
//! it is decided (`unfinished.rs`), so the tuple never affects a decision. Without such a request, the sweep removes it
//! with the services' credential.

pub(crate) mod http;
pub mod row;
pub(crate) mod unfinished;
