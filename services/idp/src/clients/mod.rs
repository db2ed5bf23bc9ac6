//! The clients that may request logins and tokens. `reconcile.rs` creates them at the start; everything else reads
//! them.

pub(crate) mod rules;
pub(crate) mod store;
