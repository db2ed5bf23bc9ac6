//! Properties of the design about arbitrary histories, each a test named after its number. Histories are random:
//! [`history`] plays steps on the module and on [`model`], which knows the rules but nothing of the module, and
//! compares every response. Properties 1, 5, 6, 8, 11, 12, 13 and 14 are about single operations and are tested in
//! their files.

mod administrators;
mod histories;
mod history;
mod keys;
mod model;
