//! Identifies the user of the browser that sent a request. A browser that is not signed in, or whose login is too old
//! for the request, gets the login form, which leads back.

use axum::extract::Request;
use axum::response::Response;
use contract::CorrelationId;
use http::HeaderMap;
use time::Duration;

use super::proof;
use crate::browser_sessions::{self, BrowserSession};
use crate::form::{Params, is_same_origin};
use crate::login;
use crate::login::device::{Account, Device};
use crate::login::ticket::{AccountPage, Destination};
use crate::pages::Lang;
use crate::pages::account::{Frame, PROOF_FIELD};
use crate::pages::lang::MAX_LOCALES_BYTES;
use crate::refusal::PageError;
use crate::state::App;
use crate::users;
use crate::users::passwords::CredentialDigest;
use crate::users::rules::User;

/// How old a login may be for a change of the user's credentials.
const RECENT: Duration = Duration::minutes(5);

/// A signed-in user on an account page.
pub(super) struct Visitor {
    pub(super) user: User,
    pub(super) session: BrowserSession,
    pub(super) headers: HeaderMap,
    pub(super) lang: Lang,
    ui_locales: Option<String>,
    query: String,
    proof: String,
    base: String,
}

/// The visitor, or the response that asks for a login first.
pub(super) enum Entry {
    Visitor(Box<Visitor>),
    SignIn(Response),
}

/// The visitor and the posted form, or the response that asks for a login first.
pub(super) enum Posted {
    Form(Box<Visitor>, Params),
    SignIn(Response),
}

/// The login that a page requires.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Login {
    Any,
    /// A login at most [`RECENT`] ago.
    Recent,
}

impl Visitor {
    pub(super) fn frame(&self) -> Frame<'_> {
        Frame { lang: self.lang, base: &self.base, query: &self.query, proof: &self.proof }
    }

    /// Shows the login form because the session has ended meanwhile.
    pub(super) fn sign_in(
        &self,
        app: &App,
        page: AccountPage,
        correlation: &CorrelationId,
    ) -> Result<Response, PageError> {
        let destination = Destination::Account { page, ui_locales: self.ui_locales.clone() };
        login::http::begin(app, destination, &self.headers, correlation)
    }

    /// The visitor's device, if it has signed in with the user's current password.
    pub(super) fn device(&self, app: &App, password: Option<CredentialDigest>) -> Option<Device> {
        let account = Account { user: self.user.id, password };
        Device::of(&app.keys, &self.headers, account, app.core.clock.unix_seconds())
    }

    /// Address of the account page, in the visitor's language.
    pub(super) fn account(&self) -> String {
        format!("{}{}", self.base, self.query)
    }

    /// Address of the account page with a message about what was done.
    pub(super) fn done(&self, what: &str) -> String {
        let pairs = [("done", Some(what)), ("ui_locales", self.ui_locales.as_deref())];
        format!("{}{}", self.base, crate::form::query(&pairs))
    }
}

/// Headers and query of a request.
pub(super) struct Asked {
    headers: HeaderMap,
    pub(super) query: Params,
}

impl Asked {
    pub(super) fn of(request: &Request) -> Result<Self, PageError> {
        Ok(Self { headers: request.headers().clone(), query: Params::of_query(request.uri().query())? })
    }
}

/// Identifies the user behind a request for `page`.
pub(super) async fn of(
    app: &App,
    asked: &Asked,
    page: AccountPage,
    needs: Login,
    correlation: &CorrelationId,
) -> Result<Entry, PageError> {
    let Asked { headers, query } = asked;
    if query.exceeds("ui_locales", MAX_LOCALES_BYTES) {
        return Err(PageError::bad("Invalid parameter: ui_locales"));
    }
    let now = app.core.clock.now();
    let ui_locales = query.get("ui_locales").map(ToOwned::to_owned);
    let session = browser_sessions::of(app, headers).await?;
    let fresh = session.filter(|session| needs == Login::Any || now - session.authenticated_at <= RECENT);
    let user = match &fresh {
        Some(session) => users::store::find(&app.core.pool, session.user_id).await?,
        None => None,
    };
    let (Some(session), Some(user)) = (fresh, user) else {
        let destination = Destination::Account { page, ui_locales };
        return Ok(Entry::SignIn(login::http::begin(app, destination, headers, correlation)?));
    };
    Ok(Entry::Visitor(Box::new(Visitor {
        lang: Lang::of(ui_locales.as_deref(), headers),
        query: crate::form::query(&[("ui_locales", ui_locales.as_deref())]),
        proof: proof::seal(&app.keys, session.id, now.unix_timestamp())?,
        base: super::address(app, AccountPage::Account, None),
        user,
        session,
        headers: headers.clone(),
        ui_locales,
    })))
}

/// Identifies the user who posted a form to `page`, and reads the form.
pub(super) async fn posted(
    app: &App,
    request: Request,
    page: AccountPage,
    needs: Login,
    correlation: &CorrelationId,
) -> Result<Posted, PageError> {
    let asked = Asked::of(&request)?;
    match of(app, &asked, page, needs, correlation).await? {
        Entry::SignIn(answer) => Ok(Posted::SignIn(answer)),
        Entry::Visitor(visitor) => {
            let form = form(app, &visitor, request).await?;
            Ok(Posted::Form(visitor, form))
        }
    }
}

/// Reads the form that the visitor posted; refuses one that did not come from an account page.
async fn form(app: &App, visitor: &Visitor, request: Request) -> Result<Params, PageError> {
    if !is_same_origin(&visitor.headers, &app.realm.issuer) {
        return Err(PageError::foreign_form());
    }
    let form = Params::of_body(request).await?;
    let value = form.get(PROOF_FIELD).unwrap_or_default();
    if !proof::is_own(&app.keys, value, visitor.session.id, app.core.clock.unix_seconds()) {
        return Err(PageError::foreign_form());
    }
    Ok(form)
}
