//! Reports of a company's hours over a range of days, summed by member, project and day, as JSON pages or one CSV file.

mod csv;
pub(crate) mod http;
pub mod rules;
mod store;
