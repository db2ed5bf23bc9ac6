//! `module.manifest.json`: who a module is, where it listens and what it needs.

pub(crate) mod strict;
