//! The steps of a login: decides the next one and shows its form. Each form carries what has been proved so far.

use axum::response::Response;
use contract::CorrelationId;
use http::HeaderMap;
use service::ApiError;

use super::answer;
use super::credentials::{Failure, record_failure};
use super::guard::Source;
use super::http::{refuse, set_cookie};
use super::rules::Refused;
use super::ticket::{BROWSER_COOKIE, Browser, Destination, Proof, Proved, Stage, Ticket};
use crate::cookies::Keep;
use crate::letters;
use crate::pages::login::{self as page, Form};
use crate::pages::texts::Texts;
use crate::pages::{self, Lang};
use crate::passkeys::rules::{Ceremony, Challenge, RelyingParty};
use crate::refusal::PageError;
use crate::second_factors::{self, store::Methods};
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
        let methods = second_factors::store::find(&app.core.pool, user.id).await?;
        if methods.any() {
            app.guard.passed(user.id, source);
            return self.ask_second_factor(proved, methods, None);
        }
        app.guard.succeeded(user.id, source);
        self.after_factors(user, proved).await
    }

    /// Continues after all factors: asks for a new password if an operator set the current one.
    pub(super) async fn after_factors(self, user: &User, proved: Proved) -> Result<Response, PageError> {
        if user.must_change_password {
            return self.ask_new_password(proved, &user.username, None);
        }
        self.finish(user, Proof::Password(proved)).await
    }

    /// Answers the request of an authenticated user.
    pub(super) async fn finish(self, user: &User, proof: Proof) -> Result<Response, PageError> {
        let app = self.app;
        if let Destination::Client(request) = &self.destination
            && !request.admits(proof.user())
        {
            // OpenID Connect Core, section 3.1.2.2: no code of another user than the client asks for.
            return Ok(refuse(app, &request.target, &Refused::login_required()));
        }
        let answered =
            answer::to_login(app, &self.destination, self.headers, proof, self.correlation).await?;
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

    /// Writes the failure down and shows the second step again.
    pub(super) async fn fail_second_step(
        self,
        proved: Proved,
        failure: Failure,
    ) -> Result<Response, PageError> {
        let (app, user) = (self.app, proved.user);
        record_failure(app, self.headers, self.destination.client_id(), Some(user), failure).await?;
        let methods = second_factors::store::find(&app.core.pool, user).await?;
        let message = failure.message(self.texts());
        self.ask_second_factor(proved, methods, Some(message))
    }

    /// Shows the first form.
    pub(crate) fn ask_password(self, username: &str, problem: Option<&str>) -> Result<Response, PageError> {
        let (recovery, ceremony) = (self.recovery(), self.ceremony()?);
        let (challenge, passkey) = ceremony.map(|ceremony| (ceremony.challenge, ceremony.options)).unzip();
        let write = |form: &Form<'_>| page::login(form, username, recovery.as_deref(), passkey.as_deref());
        self.show(Stage::Password, challenge, "authenticate", write, problem)
    }

    /// Address of the form for a forgotten password, if e-mails can be sent.
    fn recovery(&self) -> Option<String> {
        self.app.mailer.as_ref()?;
        Some(letters::http::address(&self.app.realm.issuer, self.destination.ui_locales()))
    }

    /// What a passkey may sign instead of the form, where browsers know passkeys.
    fn ceremony(&self) -> Result<Option<Ceremony>, ApiError> {
        self.app.passkeys.as_ref().map(RelyingParty::ask).transpose()
    }

    pub(super) fn ask_second_factor(
        self,
        proved: Proved,
        methods: Methods,
        problem: Option<&str>,
    ) -> Result<Response, PageError> {
        let ceremony = if methods.passkey { self.ceremony()? } else { None };
        let (challenge, passkey) = ceremony.map(|ceremony| (ceremony.challenge, ceremony.options)).unzip();
        let write = |form: &Form<'_>| page::second_factor(form, methods.totp, passkey.as_deref());
        self.show(Stage::SecondFactor(proved), challenge, "authenticate", write, problem)
    }

    pub(super) fn ask_new_password(
        self,
        proved: Proved,
        username: &str,
        problem: Option<&str>,
    ) -> Result<Response, PageError> {
        let write = |form: &Form<'_>| page::new_password(form, username);
        self.show(Stage::NewPassword(proved), None, "required-action", write, problem)
    }

    fn show(
        self,
        stage: Stage,
        challenge: Option<Challenge>,
        route: &str,
        write: impl FnOnce(&Form<'_>) -> String,
        problem: Option<&str>,
    ) -> Result<Response, PageError> {
        let (app, lang) = (self.app, self.lang());
        let now = app.core.clock.unix_seconds();
        let ticket = Ticket::new(self.destination, stage, challenge, &self.browser, now)?;
        let session_code = ticket.seal(&app.keys)?;
        let query = [
            ("session_code", session_code.as_str()),
            ("execution", ticket.execution()),
            ("client_id", ticket.destination.client_id()),
            ("tab_id", &ticket.tab_id),
        ];
        let query = serde_urlencoded::to_string(query).map_err(ApiError::internal)?;
        let action = format!("{}/login-actions/{route}?{query}", app.realm.issuer);
        let mut response = pages::answer(write(&Form { lang, action: &action, problem }));
        if ticket.challenge.is_some() {
            pages::allow_script(&mut response);
        }
        set_cookie(app, &mut response, BROWSER_COOKIE, Keep::Session(self.browser.as_str()));
        Ok(response)
    }
}
