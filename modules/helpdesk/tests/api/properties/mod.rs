//! Properties of the design that speak of any history, each a test named after its number. Histories are random:
//! [`history`] plays steps on the module and on [`model`], which knows the rules and nothing of the module, and compares
//! every answer. Properties 1, 5, 6, 8, 11, 12, 13 and 14 speak of one operation each and stand in its file.

mod administrators;
mod histories;
mod history;
mod keys;
mod model;
