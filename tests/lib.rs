//! The package of the end-to-end tests; all of them are in `e2e/`.
