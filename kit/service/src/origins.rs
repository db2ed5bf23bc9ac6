//! The public base address and the addresses that the front end's client may use: pure text rules. The built-in
//! provider and a reconciled Keycloak receive the same lists, so they are built here once. Every entry is an exact
//! string: with a prefix or a wildcard, an unvetted page of the same origin could receive codes.

use std::net::IpAddr;

use crate::config::offset_port;
use contract::settings::Kind;
use contract::{Reader, Variable, ports};
use http::Uri;
use http::uri::Authority;

/// The public domain.
pub const DOMAIN: Variable = Variable::new(
    "PLATFORM_DOMAIN",
    Kind::Text,
    None,
    "Public host or host:port; the public base address is https:// and this",
);
/// Additional origins that may log in and call the platform from a browser.
pub const EXTRA_ORIGINS: Variable = Variable::new(
    "PLATFORM_EXTRA_ORIGINS",
    Kind::List,
    None,
    "More web origins (https://host[:port]) that may log in and call the platform from a browser",
);

/// Paths, below each allowed origin, to which a login may return.
///
/// `/` suits a page that handles the response wherever it starts; `/callback` suits a separate route and command-line
/// tools.
pub const REDIRECT_PATHS: [&str; 2] = ["/", "/callback"];

/// Most extra origins: more than any front end is served from.
const MAX_EXTRA_ORIGINS: usize = 32;

/// Redirect URIs and web origins of the front end's client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontendAccess {
    /// Exact redirect URIs.
    pub redirect_uris: Vec<String>,
    /// Exact web origins.
    pub web_origins: Vec<String>,
}

impl FrontendAccess {
    /// The lists for the base address's origin and the extra ones, and nothing else.
    #[must_use]
    pub fn new(base_url: &str, extra_origins: &[String]) -> Self {
        let mut web_origins = vec![base_url.to_owned()];
        for origin in extra_origins {
            if !web_origins.contains(origin) {
                web_origins.push(origin.clone());
            }
        }
        let below = |origin: &String| REDIRECT_PATHS.map(|path| format!("{origin}{path}"));
        Self { redirect_uris: web_origins.iter().flat_map(below).collect(), web_origins }
    }
}

/// `https://{PLATFORM_DOMAIN}`, or the gateway's address on this machine. An origin: no path, no trailing slash.
pub fn base_url(reader: &mut Reader<'_>) -> String {
    let right = "a host or host:port without https://, a path, or the default port 443";
    let domain = reader.parsed(&DOMAIN, parse_domain, right);
    let local = offset_port(reader, ports::EDGE);
    domain.map_or_else(|| format!("https://localhost:{local}"), |domain| format!("https://{domain}"))
}

/// The validated extra origins.
pub fn extra_origins(reader: &mut Reader<'_>) -> Vec<String> {
    let listed = reader.list(&EXTRA_ORIGINS);
    if listed.len() > MAX_EXTRA_ORIGINS {
        reader.refuse(EXTRA_ORIGINS.name, format!("at most {MAX_EXTRA_ORIGINS} origins"));
    }
    for origin in &listed {
        if !is_origin(origin) {
            let message = format!("\"{origin}\" is not an origin such as https://app.example.com");
            reader.refuse(EXTRA_ORIGINS.name, message);
        }
    }
    listed
}

/// Whether other machines can reach the base address by its name.
#[must_use]
pub fn is_public(base_url: &str) -> bool {
    let Some(host) = base_url.parse::<Uri>().ok().and_then(|uri| uri.host().map(ToOwned::to_owned)) else {
        return true;
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let local_name = bare == "localhost" || bare.ends_with(".localhost");
    !local_name && !bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Parses a domain in lower case, because browsers compare origins in lower case.
fn parse_domain(text: &str) -> Option<String> {
    let domain = text.to_ascii_lowercase();
    is_origin(&format!("https://{domain}")).then_some(domain)
}

/// `scheme://host[:port]` exactly as a browser writes it in `Origin`.
fn is_origin(text: &str) -> bool {
    let (authority, default_port) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(authority), _) => (authority, 443),
        (None, Some(authority)) => (authority, 80),
        (None, None) => return false,
    };
    let plain = authority.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#@\\*\"<>,%".contains(&byte));
    let Ok(parsed) = authority.parse::<Authority>() else { return false };
    let port_fits = match authority.strip_prefix(parsed.host()) {
        Some("") => true,
        Some(_) => parsed.port_u16().is_some_and(|port| port != default_port && port != 0),
        None => false,
    };
    plain && port_fits && !parsed.host().is_empty() && authority == authority.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use contract::Settings;

    use super::*;

    fn base(settings: &Settings) -> Result<String, String> {
        let mut reader = settings.reader();
        let base = base_url(&mut reader);
        reader.finish(base).map_err(|problems| problems.to_string())
    }

    #[test]
    fn the_base_address_follows_the_domain_or_the_port_offset() {
        let empty = Settings::default();
        assert_eq!(base(&empty).as_deref(), Ok("https://localhost:8443"));
        assert_eq!(
            base(&empty.clone().with("PLATFORM_PORT_OFFSET", "100")).as_deref(),
            Ok("https://localhost:8543")
        );
        let named = empty.clone().with("PLATFORM_DOMAIN", "Platform.Example.com");
        assert_eq!(base(&named).as_deref(), Ok("https://platform.example.com"));
        let ported = empty.with("PLATFORM_DOMAIN", "example.com:9443");
        assert_eq!(base(&ported).as_deref(), Ok("https://example.com:9443"));
    }

    #[test]
    fn a_domain_that_is_no_host_is_refused_by_name() {
        for bad in [
            "https://x",
            "x/y",
            "x:443",
            "x:0",
            "x:99999",
            "x:",
            "u@x",
            "a b",
            "*.x",
            "x?y",
            "x#y",
            "x\\y",
            "%",
        ] {
            let problem = base(&Settings::default().with("PLATFORM_DOMAIN", bad)).expect_err(bad);
            assert!(problem.starts_with("PLATFORM_DOMAIN: "), "{problem}");
        }
    }

    #[test]
    fn an_extra_origin_is_an_origin_as_a_browser_writes_it() {
        for good in ["https://app.example.com", "http://localhost:5173", "http://[::1]:3000"] {
            assert!(is_origin(good), "{good}");
        }
        for bad in [
            "app.example.com",
            "https://app.example.com/",
            "https://app.example.com:443",
            "http://x:80",
            "HTTPS://x",
            "https://X",
            "ftp://x",
            "https://*.x",
            "https://",
            "null",
            "*",
        ] {
            assert!(!is_origin(bad), "{bad}");
        }
        let settings = Settings::default().with("PLATFORM_EXTRA_ORIGINS", "https://a, https://b/, *");
        let mut reader = settings.reader();
        let listed = extra_origins(&mut reader);
        let problems = reader.finish(listed).expect_err("two are wrong");
        assert_eq!(problems.0.len(), 2);
    }

    #[test]
    fn the_lists_hold_two_exact_addresses_an_origin_and_no_doubles() {
        let base = "https://localhost:8443";
        let access = FrontendAccess::new(base, &["http://localhost:5173".to_owned(), base.to_owned()]);
        assert_eq!(access.web_origins, [base, "http://localhost:5173"]);
        assert_eq!(
            access.redirect_uris,
            [
                "https://localhost:8443/",
                "https://localhost:8443/callback",
                "http://localhost:5173/",
                "http://localhost:5173/callback"
            ]
        );
    }

    #[test]
    fn only_names_of_this_machine_are_not_public() {
        for local in
            ["https://localhost:8443", "https://a.localhost", "https://127.0.0.1:8443", "https://[::1]:8443"]
        {
            assert!(!is_public(local), "{local}");
        }
        for public in ["https://example.com", "https://10.0.0.1", "https://localhost.example.com"] {
            assert!(is_public(public), "{public}");
        }
    }
}
