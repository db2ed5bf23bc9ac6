//! Properties of the design that speak of any history or any list, each a test named after its number. Histories are
//! random: [`history`] plays steps on the module and on [`model`], which knows the rules and nothing of the module, and
//! compares every answer and every week. Properties 2, 3, 7, 10 and 13 speak of one operation each and stand in its file.

mod clock;
mod histories;
mod history;
mod lists;
mod model;
mod rights;
