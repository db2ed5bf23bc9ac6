//! notification
