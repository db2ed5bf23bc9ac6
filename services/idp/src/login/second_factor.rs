//! The second step of a login: a one-time code or a recovery code, each valid once. Wrong codes count as failures of
//! the account at this step, whatever address they come from.

use axum::response::Response;

use super::credentials::{Failure, record_failure, source};
use super::guard::Source;
use super::steps::Login;
use super::ticket::Proved;
use crate::form::Params;
use crate::refusal::PageError;
use crate::second_factors::{self, Answer};
use crate::users;

/// Takes the form of this step.
pub(super) async fn take(login: Login<'_>, proved: Proved, form: &Params) -> Result<Response, PageError> {
    let app = login.app;
    let Some(user) = users::store::find_proved(&app.core.pool, proved).await? else {
        let message = login.texts().too_slow;
        return login.ask_password("", Some(message));
    };
    let now = app.core.clock.unix_seconds();
    let source = match source(app, login.headers, user.id, now) {
        device @ Source::Device(_) => device,
        Source::Address(_) | Source::SecondFactor => Source::SecondFactor,
    };
    let failure = if app.guard.admits(user.id, source, now) {
        let answer = Answer::of(form.get("otp"), form.get("recoveryCodeInput"));
        let taken = second_factors::take(app, user.id, &answer, login.correlation).await?;
        if let Some(second_factor) = taken {
            app.guard.succeeded(user.id, source);
            let proved = Proved { second_factor: Some(second_factor), ..proved };
            return login.after_factors(&user, proved).await;
        }
        Failure::WrongCode
    } else {
        Failure::DelayedCode
    };
    record_failure(app, login.headers, login.destination.client_id(), Some(user.id), failure).await?;
    let message = failure.message(login.texts());
    login.ask_second_factor(proved, Some(message))
}
