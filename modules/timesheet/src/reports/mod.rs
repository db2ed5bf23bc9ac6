//! Hours of a company over some days, summed by member, project and day, as JSON pages or as one CSV file.

mod csv;
pub(crate) mod http;
pub mod rules;
mod store;
