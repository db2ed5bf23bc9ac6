//! Validates logout requests (OpenID Connect RP-Initiated Logout 1.0). Pure.

use crate::clients::rules::Client;
use crate::form::Params;
use crate::tokens::hint::Hint;

/// Parameters that are read here.
const READ: [&str; 5] = ["id_token_hint", "client_id", "post_logout_redirect_uri", "state", "session_code"];
/// Longest `state`, as on the authorization route.
const MAX_STATE_BYTES: usize = 2_048;

/// Why a logout is refused, in Keycloak's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    #[error("Duplicated parameter: {0}")]
    Repeated(&'static str),
    #[error("Invalid parameter: {0}")]
    Invalid(&'static str),
    #[error("Missing parameters: id_token_hint")]
    NoHint,
    #[error("Client not found.")]
    UnknownClient,
    #[error("Invalid redirect uri")]
    RedirectUri,
}

/// Checks that every parameter appears once and that the state can be sent back.
pub(super) fn check(params: &Params) -> Result<(), Unfit> {
    if let Some(name) = READ.into_iter().find(|name| params.repeats_any(&[name])) {
        return Err(Unfit::Repeated(name));
    }
    let printable =
        params.get("state").is_none_or(|state| state.bytes().all(|byte| (0x20..=0x7e).contains(&byte)));
    if params.exceeds("state", MAX_STATE_BYTES) || !printable {
        return Err(Unfit::Invalid("state"));
    }
    Ok(())
}

/// The requesting client: that of the ID token, which a `client_id` must not contradict.
pub(super) fn client_id<'a>(params: &'a Params, hint: Option<&'a Hint>) -> Result<Option<&'a str>, Unfit> {
    match (params.get("client_id"), hint.map(|hint| hint.azp.as_str())) {
        (Some(asked), Some(hinted)) if asked != hinted => Err(Unfit::Invalid("client_id")),
        (asked, hinted) => Ok(hinted.or(asked)),
    }
}

/// Where the browser goes afterwards: nowhere, or to an address that the client has registered, compared byte by byte.
pub(super) fn target(params: &Params, client: Option<&Client>) -> Result<Option<String>, Unfit> {
    let Some(uri) = params.get("post_logout_redirect_uri") else { return Ok(None) };
    let client = client.ok_or(Unfit::NoHint)?;
    if !client.allows_redirect(uri) {
        return Err(Unfit::RedirectUri);
    }
    let Some(state) = params.get("state") else { return Ok(Some(uri.to_owned())) };
    let mark = if uri.contains('?') { '&' } else { '?' };
    let state = serde_urlencoded::to_string([("state", state)]).unwrap_or_default();
    Ok(Some(format!("{uri}{mark}{state}")))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::clients::rules::ClientKind;

    fn params(query: &str) -> Params {
        Params::of_query(Some(query)).expect("a query")
    }

    fn client() -> Client {
        Client {
            id: "app".to_owned(),
            kind: ClientKind::Frontend,
            secret_tag: None,
            redirect_uris: vec!["https://app.test/".to_owned(), "https://app.test/?a=b".to_owned()],
            web_origins: Vec::new(),
            enabled: true,
        }
    }

    #[test]
    fn the_browser_goes_to_a_registered_address_with_its_state() {
        let to = |query: &str| target(&params(query), Some(&client()));
        assert_eq!(to(""), Ok(None));
        assert_eq!(
            to("post_logout_redirect_uri=https://app.test/"),
            Ok(Some("https://app.test/".to_owned()))
        );
        assert_eq!(
            to("post_logout_redirect_uri=https://app.test/?a=b&state=x"),
            Ok(Some("https://app.test/?a=b".to_owned() + "&state=x"))
        );
        assert_eq!(
            to("post_logout_redirect_uri=https://app.test/&state=x+%26"),
            Ok(Some("https://app.test/?state=x+%26".to_owned()))
        );
        for bad in ["https://app.test", "https://app.test/x", "https://evil.test/", "//app.test/"] {
            assert_eq!(to(&format!("post_logout_redirect_uri={bad}")), Err(Unfit::RedirectUri), "{bad}");
        }
        assert_eq!(target(&params("post_logout_redirect_uri=https://app.test/"), None), Err(Unfit::NoHint));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        assert_eq!(check(&params("state=a&state=b")), Err(Unfit::Repeated("state")));
        assert_eq!(check(&params("state=%0a")), Err(Unfit::Invalid("state")));
        assert_eq!(check(&params(&format!("state={}", "x".repeat(2_049)))), Err(Unfit::Invalid("state")));
        let hint = Hint {
            iss: String::new(),
            typ: "ID".to_owned(),
            sub: Uuid::nil(),
            azp: "app".to_owned(),
            sid: None,
        };
        assert_eq!(client_id(&params("client_id=other"), Some(&hint)), Err(Unfit::Invalid("client_id")));
        assert_eq!(client_id(&params(""), Some(&hint)), Ok(Some("app")));
        assert_eq!(client_id(&params("client_id=other"), None), Ok(Some("other")));
    }
}
