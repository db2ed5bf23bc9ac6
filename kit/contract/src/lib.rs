//! The specification's domain types: ids, error envelope, decision, pages, settings, and the files that a module or app
//! author writes. Every crate may depend on this one, so it does no I/O and has no async: everything is testable
//! without a runtime, and every parser is total (bad input yields a value, never a panic).

pub mod catalog;
pub mod clock;
pub mod correlation;
pub mod day;
pub mod decision;
pub mod envelope;
pub mod fence;
pub mod fields;
pub mod forwarded;
pub mod fragment;
pub mod frontend;
pub mod grants;
pub mod id;
pub mod license;
pub mod manifest;
pub mod openapi;
pub mod page;
pub mod ports;
pub mod principal;
pub mod rules;
pub mod settings;
pub mod timestamp;
pub mod words;

pub use clock::Clock;
pub use correlation::CorrelationId;
pub use day::Day;
pub use envelope::{ErrorBody, FieldProblem};
pub use fields::Fields;
pub use id::Subject;
pub use principal::Principal;
pub use settings::{Problem, Reader, Settings, Variable};
pub use timestamp::Timestamp;
