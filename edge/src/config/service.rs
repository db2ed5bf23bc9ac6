//! The foundation services, and where a request goes.

use std::sync::Arc;

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Service {
    Authz,
    Org,
    Registry,
    Identity,
    Idp,
}

impl Service {
    /// As `details.dependency` and the metrics name it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Authz => "authz",
            Self::Org => "org",
            Self::Registry => "registry",
            Self::Identity => "identity",
            Self::Idp => "idp",
        }
    }
}

/// Who answers an authorized request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Service(Service),
    Module(Arc<str>),
}

impl Destination {
    /// The upstream's name, as logs and metrics have it.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Service(service) => service.name(),
            Self::Module(key) => key,
        }
    }
}
