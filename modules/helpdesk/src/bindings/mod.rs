//! Bindings: who administers the module in a company and who works on its tickets. A binding makes a member, the holder
//! of a position, or the members of a group `admin` or `editor` of the company's module. It is a row that mirrors a
//! tuple (`service::two_store`); `guard.rs` keeps the last administrator, and `relinked.rs` removes bindings whose
//! member row has another login.

pub(crate) mod guard;
pub(crate) mod http;
pub mod relinked;
pub mod row;
pub mod rules;
pub(crate) mod store;
