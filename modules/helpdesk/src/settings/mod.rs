//! The rules of a company's helpdesk, one row a company; a company that never changed them has the defaults and no row.

pub mod rules;
pub(crate) mod store;
