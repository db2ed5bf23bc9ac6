//! The last step of a login with a password that an operator set: the user chooses another one.

use axum::response::Response;

use super::steps::Login;
use super::ticket::{Proof, Proved};
use crate::form::Params;
use crate::refusal::PageError;
use crate::users;
use crate::users::change::{self, Entitled, NewPassword};
use crate::users::policy::Unfit;

/// Takes the form of this step.
pub(super) async fn take(login: Login<'_>, proved: Proved, form: &Params) -> Result<Response, PageError> {
    let app = login.app;
    let user = users::store::find_proved(&app.core.pool, proved).await?;
    let Some(user) = user.filter(|user| user.must_change_password) else {
        let message = login.texts().too_slow;
        return login.ask_password("", Some(message));
    };
    let wanted = NewPassword::of(form);
    match change::change(app, &user, Entitled::AtLogin(proved), &wanted, login.correlation).await? {
        Ok(password) => login.finish(&user, Proof::Password(Proved { password, ..proved })).await,
        // The password or the second factor is another one meanwhile.
        Err(Unfit::NotPresent) => {
            let message = login.texts().too_slow;
            login.ask_password("", Some(message))
        }
        Err(unfit) => {
            let message = unfit.message(login.texts());
            login.ask_new_password(proved, &user.username, Some(message))
        }
    }
}
