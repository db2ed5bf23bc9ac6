//! `id_token_hint`: an ID token that only names a login. It may have expired.

use serde::Deserialize;
use uuid::Uuid;

use crate::state::App;

/// The claims of such a token.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Hint {
    pub(crate) iss: String,
    pub(crate) typ: String,
    pub(crate) sub: Uuid,
    pub(crate) azp: String,
    /// `None` in a service account's token.
    pub(crate) sid: Option<Uuid>,
}

/// Reads a hint; `None` unless it is an ID token of this provider.
pub(crate) fn read(app: &App, token: &str) -> Option<Hint> {
    let hint: Option<Hint> = app.keys.verify_old(token);
    hint.filter(|hint| hint.iss == app.realm.issuer && hint.typ == "ID")
}
