//! `authz.fragment.json`: what a module tells the platform of its objects, their relations and its features, and the
//! bare relations of an app's `authzFragment`. Parsers are total: any JSON gives a value or every problem it has.

pub mod base;
mod expression;
mod relations;

pub use base::{BASE_TYPES, base_model, is_base_type};
pub use expression::{Expression, MAX_NESTING};
pub use relations::{ANCHOR, MAX_NAME, MAX_RELATIONS, MAX_TYPES, Relations, missing_targets, parse_relations};
