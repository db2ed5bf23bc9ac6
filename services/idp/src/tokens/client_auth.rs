//! Authenticates the client of a token request: `client_id` alone for a public client, `client_secret_post` or
//! `client_secret_basic` for one with a secret.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};

use crate::clients;
use crate::clients::rules::{Client, MAX_CLIENT_ID_BYTES, secret_material};
use crate::config::Secret;
use crate::form::Params;
use crate::keys::rules::Purpose;
use crate::refusal::OauthError;
use crate::state::App;

const REFUSAL: &str = "Invalid client or Invalid client credentials";

/// The credentials that a client sent.
struct Presented {
    client_id: String,
    secret: Option<Secret>,
    basic: bool,
}

/// Authenticates the client.
pub(crate) async fn authenticate(
    app: &App,
    headers: &HeaderMap,
    params: &Params,
) -> Result<Client, OauthError> {
    if headers.contains_key(AUTHORIZATION) && params.get("client_secret").is_some() {
        return Err(OauthError::invalid_request("more than one way of client authentication"));
    }
    let presented = presented(headers, params).ok_or_else(|| unknown(app, headers))?;
    let client = clients::store::find(&app.core.pool, &presented.client_id).await?;
    let client = client.filter(|client| client.enabled).ok_or_else(|| unknown(app, headers))?;
    if has_proved_itself(app, &client, &presented) {
        return Ok(client);
    }
    let refusal = OauthError::new(StatusCode::UNAUTHORIZED, "unauthorized_client", REFUSAL);
    Err(if presented.basic { refusal.challenged(&app.realm.name) } else { refusal })
}

fn has_proved_itself(app: &App, client: &Client, presented: &Presented) -> bool {
    let Some(tag) = &client.secret_tag else { return true };
    presented.secret.as_ref().is_some_and(|secret| {
        let material = secret_material(&client.id, secret.expose());
        app.keys.matches(Purpose::ClientSecret, &material, tag)
    })
}

fn unknown(app: &App, headers: &HeaderMap) -> OauthError {
    let refusal = OauthError::new(StatusCode::UNAUTHORIZED, "invalid_client", REFUSAL);
    if headers.contains_key(AUTHORIZATION) { refusal.challenged(&app.realm.name) } else { refusal }
}

/// Reads the credentials; `None` if there are no usable ones, or header and form contradict each other.
fn presented(headers: &HeaderMap, params: &Params) -> Option<Presented> {
    let in_form = params.get("client_id");
    let presented = match headers.get(AUTHORIZATION) {
        Some(value) => basic(value.to_str().ok()?)?,
        None => Presented {
            client_id: in_form?.to_owned(),
            secret: params.get("client_secret").map(Secret::new),
            basic: false,
        },
    };
    let agrees = in_form.is_none_or(|client_id| client_id == presented.client_id);
    (agrees && presented.client_id.len() <= MAX_CLIENT_ID_BYTES).then_some(presented)
}

/// Parses Basic credentials, whose halves are form-encoded (RFC 6749, section 2.3.1).
fn basic(header: &str) -> Option<Presented> {
    let (scheme, encoded) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("basic").then_some(())?;
    let joined = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (client_id, secret) = joined.split_once(':')?;
    let (client_id, secret) = (form_decoded(client_id)?, form_decoded(secret)?);
    let usable = !client_id.is_empty() && !client_id.contains('\0');
    usable.then(|| Presented { client_id, secret: Some(Secret::new(&secret)), basic: true })
}

fn form_decoded(text: &str) -> Option<String> {
    // An encoded half never contains a bare `&` or `=`; take one literally, as lenient servers do.
    let escaped = text.replace('&', "%26").replace('=', "%3D");
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(&format!("v={escaped}")).ok()?;
    pairs.into_iter().next().map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(authorization: Option<&str>, form: &str) -> Option<(String, Option<String>)> {
        let mut headers = HeaderMap::new();
        if let Some(value) = authorization {
            headers.insert(AUTHORIZATION, HeaderValue::try_from(value).expect("ascii"));
        }
        let params = Params::of_query(Some(form)).expect("a form");
        let found = presented(&headers, &params)?;
        Some((found.client_id, found.secret.map(|secret| secret.expose().to_owned())))
    }

    fn basic_of(text: &str) -> String {
        format!("Basic {}", STANDARD.encode(text))
    }

    #[test]
    fn both_ways_are_read_and_must_agree() {
        let both = |id: &str, secret: &str| Some((id.to_owned(), Some(secret.to_owned())));
        assert_eq!(read(None, "client_id=a&client_secret=s"), both("a", "s"));
        assert_eq!(read(None, "client_id=a"), Some(("a".to_owned(), None)));
        assert_eq!(read(Some(&basic_of("a:s")), ""), both("a", "s"));
        assert_eq!(read(Some(&basic_of("a:s%3A1%2B+2")), "client_id=a"), both("a", "s:1+ 2"));
        assert_eq!(read(Some(&basic_of("a:x=y&z")), ""), both("a", "x=y&z"));
        assert_eq!(read(Some(&basic_of("a:s")), "client_id=b"), None);
        for bad in ["Basic", "Basic !", "Bearer x", &basic_of("a"), &basic_of(":s")] {
            assert_eq!(read(Some(bad), "client_id=a&client_secret=s"), None, "{bad}");
        }
        assert_eq!(read(None, "client_secret=s"), None);
    }
}
