//! Deliveries: what is told about the outbox. The worker that empties it is not there yet, so every figure stays what
//! the tables say.

pub mod meter;
mod store;

pub use meter::Meter;
