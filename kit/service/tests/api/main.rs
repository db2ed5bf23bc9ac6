//! The chassis from outside: a small service with one route for each habit, on a real database, as the role of `org`.

mod app;
mod audit;
mod layers;
mod probes;
mod requests;
