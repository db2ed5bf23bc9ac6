//! API tests of the example: each starts it on a fresh database, with authz and org scripted.

mod contract_files;
mod gates;
mod people;
mod settling;
mod tasks;

testkit::module_api!(example_tasks);
