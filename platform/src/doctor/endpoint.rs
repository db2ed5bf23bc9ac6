//! What the settings say about this platform: its public address, its identity provider, its redirect URIs.

use contract::{Settings, ports};
use service::config::offset_port;
use service::origins::{self, FrontendAccess};

use crate::plan::{UpConfig, reached_at};
use crate::stop::Stop;

/// The settings that must match the running platform.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) up: UpConfig,
    pub(super) base_url: String,
    pub(super) realm: String,
    /// The issuer that tokens must name.
    pub(super) issuer: String,
    /// `IDP_ISSUER_URL`, if it is set: the issuer that separate services accept.
    pub(super) configured_issuer: Option<String>,
    pub(super) audience: String,
    /// The provider's internal address.
    pub(super) idp_url: String,
    pub(super) jwks_url: String,
    pub(super) is_built_in: bool,
    pub(super) allows_built_in: bool,
    /// Redirect URIs that the provider must accept.
    pub(super) registered: Vec<String>,
    /// Redirect URIs that the provider must refuse.
    pub(super) strangers: Vec<String>,
}

impl Endpoint {
    /// Reads the settings.
    pub(super) fn of(settings: &Settings) -> Result<Self, Stop> {
        let up = UpConfig::read(settings)?;
        let mut reader = settings.reader();
        let base_url = origins::base_url(&mut reader);
        let extra = origins::extra_origins(&mut reader);
        let local = format!("http://{}:{}", reached_at(up.listen), offset_port(&mut reader, ports::IDP));
        let audience = reader.text(&bearer::AUDIENCE);
        let idp_url = up.idp_url.clone().unwrap_or(local);
        let certs = format!("{idp_url}/realms/{}/protocol/openid-connect/certs", up.realm);
        let endpoint = Self {
            issuer: format!("{base_url}/realms/{}", up.realm),
            realm: up.realm.clone(),
            configured_issuer: settings.raw(bearer::ISSUER_URL.name).map(ToOwned::to_owned),
            audience,
            jwks_url: settings.raw(bearer::JWKS_URL.name).map_or(certs, ToOwned::to_owned),
            is_built_in: up.idp_url.is_none(),
            allows_built_in: settings.raw("PLATFORM_IDP_BUILTIN") == Some("allow"),
            registered: FrontendAccess::new(&base_url, &extra).redirect_uris,
            strangers: strangers(&base_url),
            idp_url,
            base_url,
            up,
        };
        reader.finish(endpoint).map_err(Stop::from)
    }

    /// The realm as browsers reach it.
    pub(super) fn public_realm(&self) -> String {
        format!("{}/auth/realms/{}", self.base_url, self.realm)
    }

    /// The realm as the services reach it.
    pub(super) fn internal_realm(&self) -> String {
        format!("{}/realms/{}", self.idp_url, self.realm)
    }
}

/// Redirect URIs that a wildcard would admit: another site, an unregistered page of the same origin, and a page below a
/// registered one.
fn strangers(base_url: &str) -> Vec<String> {
    vec![
        "https://platform-doctor.invalid/callback".to_owned(),
        format!("{base_url}/platform-doctor"),
        format!("{base_url}/callback/platform-doctor"),
    ]
}
