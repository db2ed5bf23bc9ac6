//! The variables of token verification, the same in the gateway and in every service.

use std::time::Duration;

use contract::settings::Kind;
use contract::{Reader, Variable};
use http::Uri;

/// Address of the provider's signing keys.
pub const JWKS_URL: Variable =
    Variable::new("IDP_JWKS_URL", Kind::Url, None, "Address of the identity provider's signing keys (JWKS)");
/// The required `iss` of a token.
pub const ISSUER_URL: Variable = Variable::new(
    "IDP_ISSUER_URL",
    Kind::Url,
    None,
    "Issuer of accepted tokens: the public origin's realm address",
);
/// The required audience of a token.
pub const AUDIENCE: Variable =
    Variable::new("IDP_AUDIENCE", Kind::Text, Some("platform-api"), "Audience that a token must contain");
/// How often the signing keys are refetched.
pub const REFRESH_INTERVAL: Variable = Variable::new(
    "IDP_JWKS_REFRESH_INTERVAL",
    Kind::Duration,
    Some("10m"),
    "How often the signing keys are read again",
);

/// The variables of this crate.
pub const VARIABLES: &[Variable] = &[JWKS_URL, ISSUER_URL, AUDIENCE, REFRESH_INTERVAL];

/// The configuration of a verifier.
#[derive(Clone, Debug)]
pub struct BearerConfig {
    pub(crate) jwks_url: Uri,
    pub(crate) issuer: String,
    pub(crate) audience: String,
    pub(crate) refresh_interval: Duration,
}

impl BearerConfig {
    /// Reads the variables; the reader collects problems.
    pub fn read(reader: &mut Reader<'_>) -> Self {
        Self {
            jwks_url: jwks_url(reader),
            issuer: reader.required(&ISSUER_URL),
            audience: reader.text(&AUDIENCE),
            refresh_interval: refresh_interval(reader),
        }
    }
}

impl BearerConfig {
    /// The origin of the issuer's address: the platform's public address.
    #[must_use]
    pub fn public_origin(&self) -> &str {
        self.issuer.split_once("/realms/").map_or(self.issuer.as_str(), |(origin, _)| origin)
    }
}

fn jwks_url(reader: &mut Reader<'_>) -> Uri {
    let text = reader.required(&JWKS_URL);
    let parsed = text.parse::<Uri>().ok().filter(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
    });
    parsed.unwrap_or_else(|| {
        if !text.is_empty() {
            reader
                .refuse(JWKS_URL.name, format!("\"{text}\" is not an absolute http:// or https:// address"));
        }
        Uri::default()
    })
}

fn refresh_interval(reader: &mut Reader<'_>) -> Duration {
    let interval = reader.duration(&REFRESH_INTERVAL);
    if interval.is_zero() {
        reader.refuse(REFRESH_INTERVAL.name, "must be longer than 0s");
    }
    interval
}

#[cfg(test)]
mod tests {
    use contract::Settings;

    use super::*;

    fn problems(settings: &Settings) -> String {
        let mut reader = settings.reader();
        let config = BearerConfig::read(&mut reader);
        reader.finish(config).map_or_else(|problems| problems.to_string(), |_| String::new())
    }

    #[test]
    fn both_addresses_are_required_and_checked() {
        let none = problems(&Settings::default());
        assert!(
            none.contains("IDP_JWKS_URL: is required") && none.contains("IDP_ISSUER_URL: is required"),
            "{none}"
        );
        let good = Settings::default().with("IDP_ISSUER_URL", "https://localhost:8443/realms/platform");
        for bad in ["localhost:8190/certs", "ftp://h/x", "/certs", "http://"] {
            let found = problems(&good.clone().with("IDP_JWKS_URL", bad));
            assert!(found.starts_with("IDP_JWKS_URL: "), "{bad}: {found}");
        }
        assert_eq!(problems(&good.with("IDP_JWKS_URL", "http://127.0.0.1:8190/certs")), "");
    }
}
