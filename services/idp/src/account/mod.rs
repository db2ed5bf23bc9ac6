//! The signed-in user's own pages. A request's way: `visitor.rs` finds whose browser it is, or shows the login;
//! `proof.rs` refuses forms that did not come from these pages; the rest is one file a section of the page.

pub(crate) mod http;
pub(crate) mod passkeys;
mod proof;
pub(crate) mod second_factor;
pub(crate) mod sessions;
mod visitor;

use crate::login::ticket::AccountPage;
use crate::state::App;

/// Address of a page of the account, in the language that the request chose.
pub(crate) fn address(app: &App, page: AccountPage, ui_locales: Option<&str>) -> String {
    let path = match page {
        AccountPage::Account => "",
        AccountPage::SecondFactor => "/totp",
        AccountPage::Passkeys => "/passkeys",
    };
    format!("{}/account{path}{}", app.realm.issuer, query(&[("ui_locales", ui_locales)]))
}

/// A query with its mark, of those that are there.
fn query(pairs: &[(&str, Option<&str>)]) -> String {
    let there: Vec<_> = pairs.iter().filter_map(|(name, value)| Some((*name, (*value)?))).collect();
    let encoded = serde_urlencoded::to_string(&there).unwrap_or_default();
    if encoded.is_empty() { encoded } else { format!("?{encoded}") }
}
