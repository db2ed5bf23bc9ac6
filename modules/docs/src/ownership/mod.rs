//! Ownership changes hands: the new owner's tuple is granted, then the row says so, then the former owner's is taken. In
//! between both pass as the owner, which is acceptable because both are told of in the audit rows.
//!
//! A transfer that breaks off after the row leaves the former owner's tuple. The row stays `revoking` then, and the next request
//! about the document takes the tuple before it is decided (`unfinished.rs`): no decision is ever made by it. Where no
//! request comes, the sweep takes it by the services' credential.

pub(crate) mod http;
pub mod row;
pub(crate) mod unfinished;
