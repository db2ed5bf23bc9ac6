//! The identity provider's admin routes, as far as identity needs them (Keycloak's and the built-in provider's are the
//! same). `manage.rs` removes the account of a closed subject and changes the realm's and the clients' settings.

mod account;
mod admin;
mod client;
mod manage;
mod token;

pub use account::Account;
pub(crate) use account::SERVICE_PREFIX;
pub(crate) use admin::PAGE;
pub use admin::{Provider, ProviderConfig};
