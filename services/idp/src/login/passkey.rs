//! A passkey at the login, instead of user name and password or as the second step after them. Signatures cannot be
//! guessed, so failures cause no delay.

use axum::response::Response;

use super::credentials::Failure;
use super::second_factor::step_source;
use super::steps::Login;
use super::ticket::{Proof, Proved};
use crate::passkeys::rules::Challenge;
use crate::passkeys::{self, Signed};
use crate::refusal::PageError;
use crate::users;

/// Signs the user of a passkey in.
pub(super) async fn sign_in(
    login: Login<'_>,
    challenge: &Challenge,
    assertion: &str,
) -> Result<Response, PageError> {
    match passkeys::take(login.app, challenge, assertion, None, login.correlation).await? {
        Signed::By { user, .. } if user.must_change_password => {
            let message = login.texts().password_first;
            login.ask_password(&user.username, Some(message))
        }
        Signed::By { user, passkey } => {
            let proof = Proof::Passkey { user: user.id, passkey };
            login.finish(&user, proof).await
        }
        Signed::Disabled(user) => login.fail(Some(user), Failure::Disabled, "").await,
        Signed::Wrong(user) => login.fail(user, Failure::WrongPasskey, "").await,
    }
}

/// Takes a passkey of the user who has given the password.
pub(super) async fn second_step(
    login: Login<'_>,
    proved: Proved,
    challenge: &Challenge,
    assertion: &str,
) -> Result<Response, PageError> {
    let app = login.app;
    let Some(user) = users::store::find_proved(&app.core.pool, proved).await? else {
        let message = login.texts().too_slow;
        return login.ask_password("", Some(message));
    };
    match passkeys::take(app, challenge, assertion, Some(user.id), login.correlation).await? {
        Signed::By { passkey, .. } => {
            let source = step_source(app, login.headers, proved, app.core.clock.unix_seconds());
            app.guard.succeeded(user.id, source);
            login.after_factors(&user, Proved { second_factor: Some(passkey), ..proved }).await
        }
        Signed::Disabled(_) | Signed::Wrong(_) => login.fail_second_step(proved, Failure::WrongPasskey).await,
    }
}
