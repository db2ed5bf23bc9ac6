//! Every rule of the module contract, with a file that satisfies it and a file that violates it. The cases are JSON
//! files next to this one, so that registry, the gateway and the JSON Schemas are tested with the same ones.

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
mod slow;
mod table;
