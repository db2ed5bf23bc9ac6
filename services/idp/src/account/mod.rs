//! The signed-in user's own pages. `visitor.rs` identifies the browser's user or shows the login form; `proof.rs`
//! refuses forms that did not come from these pages; each section of the page has its own file.

pub(crate) mod http;
pub(crate) mod passkeys;
mod proof;
pub(crate) mod second_factor;
pub(crate) mod sessions;
mod visitor;

use crate::form::query;
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
