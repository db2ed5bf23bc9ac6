//! Extracts the token from request headers: exactly one `Authorization` header, scheme `Bearer` in any case.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::Refused;

pub(crate) const NO_TEXT: Refused = Refused::Invalid("Authorization is not visible ASCII");

/// The bearer token of a request.
///
/// # Errors
/// [`Refused::Missing`] without a bearer, [`Refused::Ambiguous`] with two `Authorization` headers, [`Refused::Invalid`]
/// when the token is empty or not ASCII.
pub fn token_of(headers: &HeaderMap) -> Result<&str, Refused> {
    // A header value has no control characters, so checking for ASCII suffices.
    str::from_utf8(raw_token_of(headers)?).ok().filter(|text| text.is_ascii()).ok_or(NO_TEXT)
}

/// The unvalidated bytes of the token, for [`VerifiedTokens`](crate::VerifiedTokens): a token that it knows was text
/// when it was verified.
///
/// # Errors
/// Those of [`token_of`], except for a token that is not text.
pub fn raw_token_of(headers: &HeaderMap) -> Result<&[u8], Refused> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(Refused::Missing)?.as_bytes();
    if values.next().is_some() {
        return Err(Refused::Ambiguous);
    }
    let (scheme, token) = value.split_at(value.iter().position(|byte| *byte == b' ').unwrap_or(value.len()));
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Err(Refused::Missing);
    }
    let begin = token.iter().position(|byte| *byte != b' ');
    let end = token.iter().rposition(|byte| *byte != b' ');
    let token = begin.zip(end).and_then(|(begin, end)| token.get(begin..=end));
    token.ok_or(Refused::Invalid("the scheme Bearer without a token"))
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
        let other = HeaderValue::from_bytes(b"Bearer a.\xc3\xa4.c").expect("a value");
        let other = HeaderMap::from_iter([(AUTHORIZATION, other)]);
        assert_eq!(token_of(&other), Err(NO_TEXT));
        assert_eq!(raw_token_of(&other), Ok(b"a.\xc3\xa4.c".as_slice()), "for callers that only compare it");
        for empty in ["Bearer", "Bearer  "] {
            assert!(matches!(token_of(&headers(&[empty])), Err(Refused::Invalid(_))), "{empty}");
        }
    }
}
