//! The signed-in user's own pages. `visitor.rs` identifies the browser's user or shows the login form; `proof.rs`
//! refuses forms that did not come from these pages; each section of the page has its own file.

pub(crate) mod http;
pub(crate) mod passkeys;
mod proof;
pub(crate) mod second_factor;
pub(crate) mod sessions;
mod visitor;

use crate::login::ticket::AccountPage;
use crate::state::App;

/// Address of an account page, in the language that the request chose.
pub(crate) fn address(app: &App, page: AccountPage, ui_locales: Option<&str>) -> String {
    let path = match page {
        AccountPage::Account => "",
        AccountPage::SecondFactor => "/totp",
        AccountPage::Passkeys => "/passkeys",
    };
    format!("{}/account{path}{}", app.realm.issuer, query(&[("ui_locales", ui_locales)]))
}

/// Encodes the pairs that have a value as a query with its `?`; empty if there are none.
fn query(pairs: &[(&str, Option<&str>)]) -> String {
    let there: Vec<_> = pairs.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
    let encoded = serde_urlencoded::to_string(&there).unwrap_or_default();
    if encoded.is_empty() { encoded } else { format!("?{encoded}") }
}
