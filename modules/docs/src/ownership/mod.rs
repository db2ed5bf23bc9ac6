//! Ownership changes hands: the new owner's tuple is granted, then the row says so, then the former owner's is taken. In
//! between both pass as the owner, which is acceptable because both are told of in the audit rows; a crash leaves the
//! former owner's tuple to the next transfer call.

pub(crate) mod http;
pub mod row;
