//! The realm's documents: description, discovery, signing keys.

pub(crate) mod http;
