//! Effective access: the decision routes with the audit of their denials, lists, explanations, and the decision in the
//! terms of AuthZEN.

pub mod authzen;
pub mod explain;
pub mod guards;
pub mod http;
pub mod objects;
