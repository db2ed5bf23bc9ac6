//! The second step of a login: a one-time code or a recovery code, each valid once. Wrong codes count as failures of
//! the account at this step, whatever address they come from.

use axum::response::Response;
use http::HeaderMap;

use super::credentials::Failure;
use super::device::{Account, Device};
use super::guard::Source;
use super::steps::Login;
use super::ticket::Proved;
use crate::form::Params;
use crate::refusal::PageError;
use crate::second_factors::{self, Answer};
use crate::state::App;
use crate::users;

/// Takes the form of this step.
pub(super) async fn take(login: Login<'_>, proved: Proved, form: &Params) -> Result<Response, PageError> {
    let app = login.app;
    let Some(user) = users::store::find_proved(&app.core.pool, proved).await? else {
        let message = login.texts().too_slow;
        return login.ask_password("", Some(message));
    };
    let now = app.core.clock.unix_seconds();
    let source = step_source(app, login.headers, proved, now);
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
    login.fail_second_step(proved, failure).await
}

/// Returns the device if it has shown the second factor before, otherwise [`Source::SecondFactor`], which counts wrong
/// codes from all addresses together.
pub(super) fn step_source(app: &App, headers: &HeaderMap, proved: Proved, now: i64) -> Source {
    let account = Account { user: proved.user, password: Some(proved.password) };
    let device = Device::of(&app.keys, headers, account, now).filter(|device| device.has_second_factor);
    device.map_or(Source::SecondFactor, |device| Source::SecondFactorOn(device.id))
}
