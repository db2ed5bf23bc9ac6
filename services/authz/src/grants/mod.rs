//! Grants: relation tuples of one company, given or taken all together. Every rule is asked before anything is written, in
//! this order, and the first that refuses answers: shape (`request.rs`, 400), type (`types.rs`, 422, and 403 for another
//! app's type), decision (`admission.rs`, 403), anchor (`anchors.rs`, 422), `admin` on a module (`admission.rs`, 403).
//! `change.rs` holds the transaction: the tuples and their audit row commit together. `revoke.rs` is a module's own removal of
//! what its rows no longer give, without a bearer. Base types are nobody's to grant
//! here: company, position and group tuples are org's, the platform role has routes of its own.

mod admission;
mod anchors;
mod change;
pub mod http;
mod request;
pub mod revoke;
mod store;
mod types;

pub(crate) use store::lock_objects;
