//! Properties of the design about arbitrary histories or lists, each a test named after its number. Histories are
//! random: [`history`] plays steps on the module and on [`model`], which knows the rules but nothing of the module, and
//! compares every response and every week. Properties 2, 3, 7, 10 and 13 are about single operations and are tested in
//! their files.

mod clock;
mod histories;
mod history;
mod lists;
mod model;
mod rights;
