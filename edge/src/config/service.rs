//! The foundation services, and the destinations of requests.

use std::sync::Arc;

/// A foundation service, or the identity provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Service {
    Authz,
    Org,
    Registry,
    Identity,
    Idp,
}

impl Service {
    /// The name in `details.dependency` and in metrics.
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

/// The upstream of an authorized request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Service(Service),
    Module(Arc<str>),
}

impl Destination {
    /// The upstream's name in logs and metrics.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Service(service) => service.name(),
            Self::Module(key) => key,
        }
    }
}
