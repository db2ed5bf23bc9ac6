//! From request headers to the token's text: exactly one `Authorization` header, scheme `Bearer` in any case.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::Refused;

/// The bearer token of a request.
///
/// # Errors
/// [`Refused::Missing`] without a bearer, [`Refused::Ambiguous`] with two `Authorization` headers,
/// [`Refused::Invalid`] when the header's value is no text or holds no token.
pub fn token_of(headers: &HeaderMap) -> Result<&str, Refused> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(Refused::Missing)?;
    if values.next().is_some() {
        return Err(Refused::Ambiguous);
    }
    // A header's value has no control characters, so ASCII is all there is to see to.
    let text = str::from_utf8(value.as_bytes()).ok().filter(|text| text.is_ascii());
    let text = text.ok_or(Refused::Invalid("Authorization is not visible ASCII"))?;
    let (scheme, token) = text.split_at(text.bytes().position(|byte| byte == b' ').unwrap_or(text.len()));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Refused::Missing);
    }
    match token.trim_matches(' ') {
        "" => Err(Refused::Invalid("the scheme Bearer without a token")),
        token => Ok(token),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (AUTHORIZATION, HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn one_header_of_the_scheme_bearer_in_any_case_yields_its_token() {
        for good in ["Bearer a.b.c", "bearer a.b.c", "BEARER  a.b.c "] {
            assert_eq!(token_of(&headers(&[good])), Ok("a.b.c"), "{good}");
        }
    }

    #[test]
    fn no_other_scheme_and_no_second_header() {
        for missing in ["", "Basic dTpw", "Bearera.b.c", "Token a.b.c"] {
            assert_eq!(token_of(&headers(&[missing])), Err(Refused::Missing), "{missing}");
        }
        assert_eq!(token_of(&HeaderMap::new()), Err(Refused::Missing));
        assert_eq!(token_of(&headers(&["Bearer a.b.c", "Bearer a.b.c"])), Err(Refused::Ambiguous));
        for empty in ["Bearer", "Bearer  "] {
            assert!(matches!(token_of(&headers(&[empty])), Err(Refused::Invalid(_))), "{empty}");
        }
    }
}
