//! Grants: relation tuples of one company, granted or revoked all together. Every rule is checked before anything is
//! written, in this order, and the first that refuses answers: shape (`request.rs`, 400), type (`types.rs`, 422, and
//! 403 for another app's type), decision (`admission.rs`, 403), anchor (`anchors.rs`, 422), `admin` on a module
//! (`admission.rs`, 403). `change.rs` holds the transaction: the tuples and their audit row commit together.
//! `revoke.rs` lets a module remove, without a bearer, tuples that its rows no longer justify. Base types cannot be
//! granted here: company, position and group tuples belong to org, and the platform role has its own routes.

mod admission;
mod anchors;
mod change;
pub mod http;
mod request;
pub mod revoke;
mod store;
mod types;

pub(crate) use store::lock_objects;
