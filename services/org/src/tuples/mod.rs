//! The tuples that follow from org's rows. Their definition is the view `org.derived_tuples`; `store.rs` makes
//! `authz.tuple` equal to it in the transaction of each change, `repair.rs` compares the whole after each start.

pub(crate) mod repair;
pub(crate) mod store;
