//! The steps of a login: decides the next one and shows its form. Each form carries what has been proved so far.

use axum::response::Response;
use contract::CorrelationId;
use http::HeaderMap;

use super::answer;
use super::credentials::{Failure, record_failure};
use super::guard::Source;
use super::http::set_cookie;
use super::ticket::{BROWSER_COOKIE, Browser, Destination, Proved, Stage, Ticket};
use crate::cookies::Keep;
use crate::letters;
use crate::pages::login::{self as page, Form};
use crate::pages::texts::Texts;
use crate::pages::{self, Lang};
use crate::refusal::PageError;
use crate::second_factors;
use crate::state::App;
use crate::users::rules::User;

/// A login in progress in one browser.
pub(crate) struct Login<'a> {
    pub(crate) app: &'a App,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) correlation: &'a CorrelationId,
    pub(crate) destination: Destination,
    pub(crate) browser: Browser,
}

impl Login<'_> {
    pub(super) fn texts(&self) -> &'static Texts {
        self.lang().texts()
    }

    fn lang(&self) -> Lang {
        Lang::of(self.destination.ui_locales(), self.headers)
    }

    /// Continues after the right password: asks for the second factor if there is one.
    pub(super) async fn after_password(
        self,
        user: &User,
        proved: Proved,
        source: Source,
    ) -> Result<Response, PageError> {
        let app = self.app;
        if second_factors::store::find(&app.core.pool, user.id).await?.is_some() {
            app.guard.passed(user.id, source);
            return self.ask_second_factor(proved, None);
        }
        app.guard.succeeded(user.id, source);
        self.after_factors(user, proved).await
    }

    /// Continues after all factors: asks for a new password if an operator set the current one.
    pub(super) async fn after_factors(self, user: &User, proved: Proved) -> Result<Response, PageError> {
        if user.must_change_password {
            return self.ask_new_password(proved, &user.username, None);
        }
        self.finish(user, proved).await
    }

    /// Answers the request of an authenticated user.
    pub(super) async fn finish(self, user: &User, proved: Proved) -> Result<Response, PageError> {
        let app = self.app;
        let answered =
            answer::to_login(app, &self.destination, self.headers, proved, self.correlation).await?;
        if let Some(response) = answered {
            return Ok(response);
        }
        self.fail(Some(user.id), Failure::Wrong, &user.username).await
    }

    /// Records the failure and shows the first form again.
    pub(super) async fn fail(
        self,
        user: Option<uuid::Uuid>,
        failure: Failure,
        username: &str,
    ) -> Result<Response, PageError> {
        record_failure(self.app, self.headers, self.destination.client_id(), user, failure).await?;
        let message = failure.message(self.texts());
        self.ask_password(username, Some(message))
    }

    /// Shows the first form.
    pub(crate) fn ask_password(self, username: &str, problem: Option<&str>) -> Result<Response, PageError> {
        let recovery = self.recovery();
        let write = |form: &Form<'_>| page::login(form, username, recovery.as_deref());
        self.show(Stage::Password, "authenticate", write, problem)
    }

    /// Address of the form for a forgotten password, if e-mails can be sent.
    fn recovery(&self) -> Option<String> {
        self.app.mailer.as_ref()?;
        let address = letters::http::address(&self.app.realm.issuer);
        let locales = self.destination.ui_locales().map(|locales| [("ui_locales", locales)]);
        let query = locales.and_then(|locales| serde_urlencoded::to_string(locales).ok());
        Some(query.map_or_else(|| address.clone(), |query| format!("{address}?{query}")))
    }

    pub(super) fn ask_second_factor(
        self,
        proved: Proved,
        problem: Option<&str>,
    ) -> Result<Response, PageError> {
        self.show(Stage::SecondFactor(proved), "authenticate", page::second_factor, problem)
    }

    pub(super) fn ask_new_password(
        self,
        proved: Proved,
        username: &str,
        problem: Option<&str>,
    ) -> Result<Response, PageError> {
        let write = |form: &Form<'_>| page::new_password(form, username);
        self.show(Stage::NewPassword(proved), "required-action", write, problem)
    }

    fn show(
        self,
        stage: Stage,
        route: &str,
        write: impl FnOnce(&Form<'_>) -> String,
        problem: Option<&str>,
    ) -> Result<Response, PageError> {
        let (app, lang) = (self.app, self.lang());
        let now = app.core.clock.unix_seconds();
        let ticket = Ticket::new(self.destination, stage, &self.browser, now)?;
        let session_code = ticket.seal(&app.keys)?;
        let query = [
            ("session_code", session_code.as_str()),
            ("execution", ticket.execution()),
            ("client_id", ticket.destination.client_id()),
            ("tab_id", &ticket.tab_id),
        ];
        let query = serde_urlencoded::to_string(query).map_err(service::ApiError::internal)?;
        let action = format!("{}/login-actions/{route}?{query}", app.realm.issuer);
        let mut response = pages::answer(write(&Form { lang, action: &action, problem }));
        set_cookie(app, &mut response, BROWSER_COOKIE, Keep::Session(self.browser.as_str()));
        Ok(response)
    }
}
