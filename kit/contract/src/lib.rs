//! The nouns of the specification, pure: ids, error envelope, decision, pages, settings, and the files a module
//! or an app author writes. Everybody may import this crate, so it does no I/O and has no async: all of it is
//! testable without a runtime, and all of it is total (a bad input is a value, never a panic).

pub mod catalog;
pub mod clock;
pub mod correlation;
pub mod day;
pub mod decision;
pub mod envelope;
pub mod fence;
pub mod fields;
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
