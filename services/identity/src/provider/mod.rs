//! The identity provider's admin routes, as far as identity reads them (Keycloak's and the built-in provider's are the
//! same). Read only: nothing here changes an account.

mod account;
mod admin;
mod token;

pub use account::Account;
pub use admin::{Provider, ProviderConfig};
