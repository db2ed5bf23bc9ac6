//! The identity provider's admin routes that identity needs; Keycloak and the built-in provider have the same.
//! `manage.rs` removes the account of a closed subject and changes the settings of the realm and the clients.

mod account;
mod admin;
mod client;
mod manage;
mod token;

pub use account::Account;
pub(crate) use account::SERVICE_PREFIX;
pub(crate) use admin::PAGE;
pub use admin::{Provider, ProviderConfig};
