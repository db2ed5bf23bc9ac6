//! Clients and what they may do. Pure.

/// Longest `client_id`.
pub(crate) const MAX_CLIENT_ID_BYTES: usize = 255;
/// Longest `redirect_uri`.
pub(crate) const MAX_REDIRECT_URI_BYTES: usize = 2_048;

/// The purpose of a client; decides its grants and its tokens' claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientKind {
    /// A public client, with logins and PKCE.
    Frontend,
    /// An app's backend: a secret and a service account, tokens for the platform.
    Service,
    /// Reads account state through the administration routes; its tokens are not for the platform.
    Administration,
}

impl ClientKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Frontend => "frontend",
            Self::Service => "service",
            Self::Administration => "administration",
        }
    }

    /// Parses the stored name; the table's check constraint allows no other.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Frontend, Self::Service, Self::Administration].into_iter().find(|kind| kind.name() == name)
    }
}

/// A registered client.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// `client_id` of the protocol.
    pub(crate) id: String,
    pub(crate) kind: ClientKind,
    /// Keyed digest of its secret; `None` for a public client.
    pub(crate) secret_tag: Option<Vec<u8>>,
    pub(crate) redirect_uris: Vec<String>,
    pub(crate) web_origins: Vec<String>,
    pub(crate) enabled: bool,
}

impl Client {
    /// Whether a login may redirect to `uri`. Compares the whole string byte by byte, without decoding or normalising,
    /// because parsers normalise differently.
    pub(crate) fn allows_redirect(&self, uri: &str) -> bool {
        uri.len() <= MAX_REDIRECT_URI_BYTES && self.redirect_uris.iter().any(|registered| registered == uri)
    }

    /// The username of its service account.
    pub(crate) fn service_account(&self) -> String {
        service_account_of(&self.id)
    }
}

/// The username of a client's service account.
pub(crate) fn service_account_of(client_id: &str) -> String {
    format!("service-account-{client_id}")
}

/// The input of a client secret's digest, bound to the client so that equal secrets have different digests.
pub(crate) fn secret_material(client_id: &str, secret: &str) -> Vec<u8> {
    [client_id.as_bytes(), b"\0", secret.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_the_registered_text_or_none() {
        let client = Client {
            id: "platform-frontend".to_owned(),
            kind: ClientKind::Frontend,
            secret_tag: None,
            redirect_uris: vec!["https://app.test/".to_owned(), "https://app.test/callback".to_owned()],
            web_origins: vec!["https://app.test".to_owned()],
            enabled: true,
        };
        for good in ["https://app.test/", "https://app.test/callback"] {
            assert!(client.allows_redirect(good), "{good}");
        }
        for bad in [
            "",
            "https://app.test",
            "https://app.test/callback/",
            "https://app.test/callback?x=1",
            "https://app.test/callback?",
            "https://app.test/callback#x",
            "https://app.test:443/callback",
            "https://app.test:8443/callback",
            "http://app.test/callback",
            "HTTPS://app.test/callback",
            "https://APP.test/callback",
            "https://app.test/Callback",
            "https://app.test/%63allback",
            "https://app.test/a/../callback",
            "https://app.test/./callback",
            "https://app.test//callback",
            "https://app.test/callback/../evil",
            "https://user@app.test/callback",
            "https://app.test@evil.test/callback",
            "https://app.test.evil.test/callback",
            "https://evil.test/https://app.test/callback",
            "//app.test/callback",
            "/callback",
            " https://app.test/callback",
            "https://app.test/callback ",
            "https://app.test\\callback",
            "javascript:alert(1)",
            "*",
        ] {
            assert!(!client.allows_redirect(bad), "{bad}");
        }
    }

    #[test]
    fn every_kind_is_read_back_from_its_name() {
        for kind in [ClientKind::Frontend, ClientKind::Service, ClientKind::Administration] {
            assert_eq!(ClientKind::parse(kind.name()), Some(kind));
        }
        assert_eq!(ClientKind::parse("other"), None);
    }
}
