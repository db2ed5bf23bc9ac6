//! Effective access: the decision routes and the audit of what they deny, the lists, the explanations, and the decision under
//! the names of AuthZEN.

pub mod authzen;
pub mod explain;
pub mod guards;
pub mod http;
pub mod objects;
