//! The realm's own documents: description, discovery, signing keys.

pub(crate) mod http;
