//! Effective access: the decision routes, and the audit of what they deny.

mod denials;
pub mod http;

pub use denials::{Denial, DenialLog};
