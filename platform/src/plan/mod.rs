//! What a run needs, decided before anything is started: the configuration of `up`, the settings of every server, the
//! logins of their roles, and the sockets. Commands that reach a running platform read its addresses here.

mod config;
pub(crate) mod listeners;
mod wiring;

pub(crate) use config::{UpConfig, makes_certificates};
pub(crate) use wiring::{Plan, Urls, reached_at};
