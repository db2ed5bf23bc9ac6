//! Overview of a week of the whole company: who has submitted, and how much was worked.

pub(crate) mod http;
pub mod rules;
mod store;
