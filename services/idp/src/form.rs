//! Parameters of a query or a form body: limited, decoded, and looked up by name; and the queries of addresses. Their
//! meaning is decided elsewhere.

use axum::extract::Request;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, ORIGIN};
use http_body_util::{BodyExt, Limited};

/// Largest form body; a login or a token request is under 2 KiB.
pub(crate) const MAX_FORM_BYTES: usize = 32 << 10;
/// Longest query; the gateway accepts URIs of 16 KiB.
const MAX_QUERY_BYTES: usize = 16 << 10;
/// More parameters than any request of the protocol has.
const MAX_PARAMETERS: usize = 64;

/// Why parameters were not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FormProblem {
    #[error("the content type must be application/x-www-form-urlencoded")]
    ContentType,
    #[error("the parameters are larger than the limit")]
    TooLarge,
    #[error("the body did not arrive completely")]
    Broken,
    #[error("the parameters are not UTF-8 form data")]
    Malformed,
    #[error("more than {MAX_PARAMETERS} parameters")]
    TooMany,
}

/// Decoded parameters. An empty value counts as absent.
#[derive(Debug, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Reads a query.
    pub(crate) fn of_query(query: Option<&str>) -> Result<Self, FormProblem> {
        let query = query.unwrap_or_default();
        if query.len() > MAX_QUERY_BYTES { Err(FormProblem::TooLarge) } else { Self::parse(query.as_bytes()) }
    }

    /// Reads a form body.
    pub(crate) async fn of_body(request: Request) -> Result<Self, FormProblem> {
        if !declares_form(&request) {
            return Err(FormProblem::ContentType);
        }
        Self::parse(&whole_body(request).await?)
    }

    /// The first value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// Every value of a name.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether one of `names` appears more than once.
    pub(crate) fn repeats_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.all(name).count() > 1)
    }

    /// Whether a value is longer than `max` bytes.
    pub(crate) fn exceeds(&self, name: &str, max: usize) -> bool {
        self.all(name).any(|value| value.len() > max)
    }

    fn parse(encoded: &[u8]) -> Result<Self, FormProblem> {
        let pairs: Vec<(String, String)> =
            serde_urlencoded::from_bytes(encoded).map_err(|_| FormProblem::Malformed)?;
        if pairs.len() > MAX_PARAMETERS {
            return Err(FormProblem::TooMany);
        }
        // PostgreSQL cannot store U+0000, and no parameter of the protocol may contain it; bytes that are not UTF-8
        // decode to the replacement character.
        let unusable = |text: &String| text.contains(['\0', char::REPLACEMENT_CHARACTER]);
        if pairs.iter().any(|(name, value)| unusable(name) || unusable(value)) {
            return Err(FormProblem::Malformed);
        }
        Ok(Self(pairs))
    }
}

/// Encodes the pairs that have a value as a query with its `?`; empty if there are none.
pub(crate) fn query(pairs: &[(&str, Option<&str>)]) -> String {
    let there: Vec<_> = pairs.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
    let encoded = serde_urlencoded::to_string(&there).unwrap_or_default();
    if encoded.is_empty() { encoded } else { format!("?{encoded}") }
}

/// A text as the description of an error may hold it (RFC 6749, section 5.2): printable ASCII without `"` and `\\`.
pub(crate) fn printable(text: &str) -> String {
    let is_printable = |letter: char| matches!(letter, ' '..='~') && !matches!(letter, '"' | '\\');
    text.chars().map(|letter| if is_printable(letter) { letter } else { '?' }).collect()
}

/// Reads a body within the limit.
pub(crate) async fn whole_body(request: Request) -> Result<Bytes, FormProblem> {
    match Limited::new(request.into_body(), MAX_FORM_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(FormProblem::TooLarge),
        Err(_) => Err(FormProblem::Broken),
    }
}

/// Whether the browser says that the form came from a page of the provider. A request with neither header is refused:
/// every current browser sends one of them. The form's page must not have the referrer policy `no-referrer`, with which
/// browsers send `Origin: null`.
pub(crate) fn is_same_origin(headers: &HeaderMap, issuer: &str) -> bool {
    let origin = issuer.split("/realms/").next().unwrap_or_default();
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    match (text("sec-fetch-site"), text(ORIGIN.as_str())) {
        (Some(site), _) if site != "same-origin" => false,
        (_, Some(sent)) => sent == origin,
        (site, None) => site.is_some(),
    }
}

fn declares_form(request: &Request) -> bool {
    let declared = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = declared.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn values_are_decoded_and_empty_ones_are_absent() {
        let params = Params::of_query(Some("a=b+c%26d&e=&f=1&f=2")).expect("good");
        assert_eq!(params.get("a"), Some("b c&d"));
        assert_eq!(params.get("e"), None);
        assert!(params.repeats_any(&["a", "f"]) && !params.repeats_any(&["a", "e"]));
        assert!(Params::of_query(None).expect("empty").get("a").is_none());
    }

    #[test]
    fn what_cannot_be_stored_or_is_too_much_is_refused() {
        for bad in ["a=%00", "%00=a", "a=%ff"] {
            assert_eq!(Params::of_query(Some(bad)).err(), Some(FormProblem::Malformed), "{bad}");
        }
        let many = vec!["a=b"; MAX_PARAMETERS + 1].join("&");
        assert_eq!(Params::of_query(Some(&many)).err(), Some(FormProblem::TooMany));
        let long = format!("a={}", "x".repeat(MAX_QUERY_BYTES));
        assert_eq!(Params::of_query(Some(&long)).err(), Some(FormProblem::TooLarge));
    }

    #[test]
    fn a_form_comes_from_the_same_origin_or_is_refused() {
        let (origin, issuer) = ("https://localhost:8443", "https://localhost:8443/realms/platform");
        for (site, sent, expect) in [
            (Some("same-origin"), Some(origin), true),
            (Some("same-origin"), None, true),
            (None, Some(origin), true),
            (None, None, false),
            (Some("same-site"), Some(origin), false),
            (Some("cross-site"), None, false),
            (Some("none"), None, false),
            (Some("same-origin"), Some("https://evil.test"), false),
            (None, Some("null"), false),
            (None, Some("https://localhost"), false),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in [("sec-fetch-site", site), ("origin", sent)] {
                if let Some(value) = value {
                    headers.insert(name, HeaderValue::from_static(value));
                }
            }
            assert_eq!(is_same_origin(&headers, issuer), expect, "{site:?} {sent:?}");
        }
    }
}
