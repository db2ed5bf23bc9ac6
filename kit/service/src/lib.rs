//! The chassis of the axum services. The path of a request through a service:
//!
//! ```text
//! serve -> layers (correlation, meter, limits, timeout, panic, contention) -> the crate's routes.rs
//!   -> extractors Caller, Superadmin, Operator, PathParams, RawBody -> <resource>/http.rs
//!   -> rules.rs (pure) -> store.rs(tx.conn(), …)                       (schema-qualified SQL)
//!   -> tx.commit(AuditEvent) -> Data<T>            errors: ApiError, rendered only in reply.rs
//!
//! modules: the crate's operations.rs (one row per operation) -> Permit asks for the decision -> Body is read
//!   -> http.rs -> rules.rs (pure) -> permit.begin(&core) -> CompanyTx -> store.rs(&mut tx, …)
//!   -> tx.commit(action, subject, payload)
//! ```
//!
//! The gateway must never import this crate.

mod abandoned;
mod account;
pub mod audit;
pub mod body;
mod budget;
pub mod bundle;
pub mod caller;
pub mod client;
pub mod clients;
mod coalesced_wake;
pub mod company;
pub mod company_rules;
pub mod company_tx;
pub mod config;
pub mod contention;
pub mod core;
pub mod db;
pub mod error;
mod fair_share;
pub mod forgetting;
pub mod idempotency;
pub mod inside;
pub mod layers;
pub mod migrate;
pub mod module;
pub mod operation;
pub mod operator;
pub mod origins;
pub mod outbound;
pub mod page;
mod panics;
pub mod path;
pub mod permit;
pub mod probes;
pub mod pseudonym;
pub mod query;
pub mod read_limit;
pub mod readiness;
pub mod reads;
pub mod refusal;
pub mod reply;
pub mod scram;
pub mod sealed;
pub mod serve;
pub mod superadmin;
pub mod transaction;
pub mod two_store;
pub mod workers;

pub use audit::{Around, AuditEvent, AuditedTx, Hidden, HistoryEntry, changes};
pub use body::{Body, RawBody, UnreadBody};
pub use bundle::Bundle;
pub use caller::{Caller, Correlation};
pub use client::{Client, Unavailable};
pub use company::CompanyCall;
pub use company_tx::CompanyTx;
pub use config::ServiceConfig;
pub use core::{Core, CoreParts};
pub use error::ApiError;
pub use fair_share::{FairLimit, FairPermit};
pub use inside::{Inside, Insider, OwnCall, Reader};
pub use module::ModuleConfig;
pub use operation::{Operation, Operations};
pub use operator::{Operator, OperatorKey};
pub use path::PathParams;
pub use permit::{Feature, ObjectPermit, Permit, Permits, SubjectPermit, SystemPermit};
pub use pseudonym::{name_digest, pseudonymise};
pub use query::Query;
pub use read_limit::{Asker, LimitedRead, LongRead, LongReads, ReadLimit, ReadPermit};
pub use reads::Reads;
pub use reply::{Created, Data};
pub use serve::{ServeError, serve};
pub use superadmin::{PlatformRole, RoleAnswer, Superadmin};
pub use workers::Workers;
