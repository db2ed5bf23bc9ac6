//! org
