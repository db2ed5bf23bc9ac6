//! Derived tuples: the tuples that follow from org's rows. The view `org.derived_tuples` defines them. `store.rs` makes
//! `authz.tuple` equal to the view in the transaction of each change; `repair.rs` compares all tuples after each start.

pub(crate) mod repair;
pub(crate) mod store;
