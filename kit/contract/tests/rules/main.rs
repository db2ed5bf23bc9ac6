//! Every rule of the module contract, with a file that keeps it and a file that breaks it. The cases of the JSON files
//! are data beside this one, so that registry, the edge and the JSON Schemas are held against the same ones.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken premise fails the test that has it"
)]

mod between;
mod cases;
mod listed;
mod migrations;
mod schemas;
mod table;
