//! idp
