//! The variables of this module in addition to those of every module.

use contract::{Reader, Variable};
use service::ServiceConfig;
use service::clients::notification::{self, NotificationClient};
use service::module::OwnSettings;

/// The settings of helpdesk in addition to those of every module.
#[derive(Clone)]
pub struct Own {
    /// The client of notification, which receives notices.
    pub notification: NotificationClient,
}

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Own")
    }
}

impl OwnSettings for Own {
    const VARIABLES: &'static [Variable] = &[notification::BASE_URL];

    fn read(reader: &mut Reader<'_>, service: &ServiceConfig) -> Self {
        Self { notification: NotificationClient::read(reader).inside(&service.inside) }
    }
}
