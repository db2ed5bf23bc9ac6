//! API tests of the example module: each starts it on a new database, with authz and org scripted.

mod contract_files;
mod gates;
mod people;
mod settling;
mod tasks;

testkit::module_api!(example_tasks);
