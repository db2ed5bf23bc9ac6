//! The package of the end-to-end tests; everything is in `e2e/`.
