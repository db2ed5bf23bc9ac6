//! Header names that some servers read as other names, treating `_` and `.` as `-`. Headers on which the gateway
//! decides, or which it writes itself, must not appear a second time in such a spelling. Pure.

use http::header::{CONNECTION, HeaderMap, TE};
use http::{HeaderName, HeaderValue};

/// Headers that frame a body.
const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];
/// Headers on which upstreams rely: `Connection` may remove only hop-by-hop headers.
const RESTED_ON: [&str; 13] = [
    "authorization",
    "content-length",
    "content-type",
    "cookie",
    "forwarded",
    "host",
    "idempotency-key",
    "origin",
    "transfer-encoding",
    "x-correlation-id",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
];

/// Names, in their usual spelling, that servers and frameworks trust as set by a proxy in front of them: the client's
/// identity, address or certificate, and the original method, host and path. `proxy` becomes `HTTP_PROXY` where headers
/// become variables; `script-name` and `path-info` split the path there; services identify themselves to each other by
/// `x-platform-service`.
const CLAIMS: [&str; 56] = [
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-pseudo-ipv4",
    "client-cert",
    "client-cert-chain",
    "client-ip",
    "fastly-client-ip",
    "fly-client-ip",
    "forwarded",
    "front-end-https",
    "iv-groups",
    "iv-user",
    "path-info",
    "proxy",
    "proxy-client-ip",
    "proxy-remote-user",
    "script-name",
    "sm-user",
    "true-client-ip",
    "wl-proxy-client-cert",
    "wl-proxy-client-ip",
    "x-accel-mapping",
    "x-anonymous-consumer",
    "x-apigateway-api-userinfo",
    "x-arr-clientcert",
    "x-authenticated-groups",
    "x-authenticated-user",
    "x-authenticated-userid",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-client-cert",
    "x-client-dn",
    "x-client-ip",
    "x-client-verify",
    "x-cluster-client-ip",
    "x-credential-identifier",
    "x-endpoint-api-userinfo",
    "x-envoy-external-address",
    "x-envoy-internal",
    "x-envoy-original-path",
    "x-forwarded",
    "x-goog-iap-jwt-assertion",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-middleware-subrequest",
    "x-platform-service",
    "x-proxyuser-ip",
    "x-real-ip",
    "x-rewrite-url",
    "x-scheme",
    "x-sendfile-type",
    "x-url-scheme",
    "x-verified-user",
];
/// Prefixes of such names.
const CLAIMING_FAMILIES: [&str; 19] = [
    "oidc-claim-",
    "remote-",
    "ssl-client-",
    "tailscale-user-",
    "x-amzn-oidc-",
    "x-appengine-",
    "x-auth-request-",
    "x-authentik-",
    "x-consumer-",
    "x-forwarded-",
    "x-goog-authenticated-user-",
    "x-hasura-",
    "x-ms-client-principal",
    "x-original-",
    "x-pomerium-claim-",
    "x-remote-",
    "x-ssl-",
    "x-vouch-",
    "x-webauth-",
];

/// Bytes of a name that are folded: more than any name or prefix that it is compared with.
const MAX_FOLDED: usize = 64;
/// The maximum number of options in all hop-by-hop lists. Honest clients send three; each one is looked up, so an
/// unlimited list would cost a hundred times what its bytes cost.
pub(crate) const MAX_OPTIONS: usize = 64;

/// Whether a name would be mistaken for a framing header.
pub(crate) fn is_taken_for_framing(name: &HeaderName) -> bool {
    folded(name).is_some_and(|folded| FRAMING.contains(&folded.as_str()))
}

/// Whether a name would be mistaken for one that the gateway writes, or that clients may not claim.
pub(crate) fn is_taken_for_the_edges(name: &HeaderName) -> bool {
    folded(name).is_some_and(|folded| folded == "x-correlation-id" || claims(&folded))
}

/// Whether a name, in its usual spelling, claims an identity, an address, a certificate, a host, a scheme, a method or
/// a path.
pub(crate) fn claims(name: &str) -> bool {
    let begins = |family: &&str| name.starts_with(family);
    may_claim(name) && (CLAIMS.contains(&name) || CLAIMING_FAMILIES.iter().any(begins))
}

/// Whether a name starts like one that claims something, in any spelling. Apart from `x-…` hardly any other name does,
/// so only these are looked up.
pub(crate) const fn may_claim(name: &str) -> bool {
    matches!(
        name.as_bytes(),
        [b'x', ..]
            | [b'c', b'f' | b'l', ..]
            | [b'f', b'a' | b'l' | b'o' | b'r', ..]
            | [b'i', b'v', ..]
            | [b'o', b'i', ..]
            | [b'p', b'a', b't', ..]
            | [b'p', b'r', b'o', ..]
            | [b'r', b'e', b'm', ..]
            | [b's', b'c' | b'm' | b's', ..]
            | [b't', b'a' | b'r', ..]
            | [b'w', b'l', ..]
    )
}

/// Whether `Connection` names a header on which an upstream relies.
pub(crate) fn takes_too_much_away(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONNECTION).iter();
    let mut names =
        values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    names.any(|name| RESTED_ON.iter().any(|rested_on| name.eq_ignore_ascii_case(rested_on.as_bytes())))
}

/// Whether hop-by-hop lists contain more options than any honest client sends.
pub(crate) fn lists_too_much(headers: &HeaderMap) -> bool {
    let lists = [CONNECTION, TE];
    let values = lists.iter().flat_map(|name| headers.get_all(name));
    let options = |value: &HeaderValue| 1 + memchr::memchr_iter(b',', value.as_bytes()).count();
    values.map(options).sum::<usize>() > MAX_OPTIONS
}

/// The start of the name as such a server reads it, as far as any rule compares it; `None` if it reads the same.
pub(crate) fn folded(name: &HeaderName) -> Option<String> {
    let name = name.as_str();
    let is_other = name.bytes().any(|byte| matches!(byte, b'_' | b'.'));
    is_other.then(|| name.get(..MAX_FOLDED).unwrap_or(name).replace(['_', '.'], "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HeaderName {
        HeaderName::from_bytes(text.as_bytes()).expect("a name")
    }

    #[test]
    fn other_spellings_are_known_and_the_right_one_is_none() {
        for text in ["Content_Length", "content.length", "transfer_encoding"] {
            assert!(is_taken_for_framing(&name(text)), "{text}");
        }
        for text in [
            "X_Forwarded_For",
            "x-forwarded_proto",
            "x.real.ip",
            "x_correlation_id",
            "x_host",
            "x-original_url",
            "Remote_User",
            "SM_USER",
            "ssl.client_verify",
            "X_HTTP_Method_Override",
            "SCRIPT_NAME",
            "path_info",
        ] {
            assert!(is_taken_for_the_edges(&name(text)), "{text}");
        }
        for text in ["content-length", "x-forwarded-for", "x-correlation-id", "x_custom", "content_type"] {
            assert!(!is_taken_for_framing(&name(text)) && !is_taken_for_the_edges(&name(text)), "{text}");
        }
    }

    #[test]
    fn what_claims_something_begins_so_and_stands_in_order() {
        for name in CLAIMS.iter().chain(&CLAIMING_FAMILIES) {
            assert!(may_claim(name), "{name}");
            assert!(CLAIMING_FAMILIES.contains(name) || claims(name), "{name}");
        }
        assert!(CLAIMS.is_sorted() && CLAIMING_FAMILIES.is_sorted());
        for name in
            ["remote", "ssl", "x-client", "x-http", "client-hint", "cf-ray", "x-requested-with", "proxy-x"]
        {
            assert!(!claims(name), "{name}");
        }
    }

    #[test]
    fn connection_takes_away_what_concerns_this_hop_only() {
        let takes = |value: &'static str| {
            takes_too_much_away(&HeaderMap::from_iter([(CONNECTION, HeaderValue::from_static(value))]))
        };
        for value in ["Authorization", "close,host", "te , X-Forwarded-For"] {
            assert!(takes(value), "{value}");
        }
        for value in ["close", "keep-alive, Upgrade, HTTP2-Settings", "x-secret", "TE", ""] {
            assert!(!takes(value), "{value}");
        }
    }

    #[test]
    fn a_name_of_any_length_is_folded_as_far_as_rules_look() {
        let long = format!("x_forwarded_{}", "_".repeat(60_000));
        assert!(is_taken_for_the_edges(&name(&long)));
        assert!(!is_taken_for_framing(&name(&format!("content_length{}", "_".repeat(60_000)))));
        let folded = folded(&name(&long)).expect("another spelling");
        assert_eq!(folded.len(), MAX_FOLDED, "and no further");
    }

    #[test]
    fn options_of_one_hop_are_counted_together() {
        let too_many = |connection: usize, te: usize| {
            let list = |count: usize| HeaderValue::from_str(&vec!["a"; count].join(",")).expect("a value");
            let mut map = HeaderMap::new();
            for (name, value) in [(CONNECTION, list(1)), (CONNECTION, list(connection)), (TE, list(te))] {
                map.append(name, value);
            }
            lists_too_much(&map)
        };
        assert!(!too_many(30, MAX_OPTIONS - 31), "at the limit");
        assert!(too_many(30, MAX_OPTIONS - 30) && too_many(MAX_OPTIONS, 0), "one past it");
        assert!(!lists_too_much(&HeaderMap::new()));
    }
}
