//! docs: documents of a company's members, each shared one by one. `operations.rs` is the table of operations; a request's
//! way is `service`'s: permit, query, the caller's place in the company, `rules.rs` (pure), `store.rs` (SQL). Every
//! statement names the company of the permit, so another company's id is an unknown one.
//!
//! Operations that are not in `openapi.json` are not there: their paths are unknown. Their tables are.

pub mod documents;
pub mod operations;

pub use operations::operations;
pub use service::module::Parts as App;

service::declare_module! { key: "docs", port: 8170, operations: operations }
