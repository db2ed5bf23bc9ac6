//! `GET /realms/{realm}/account` and the change of the password.

use axum::extract::{Request, State};
use axum::response::Response;
use service::Correlation;

use super::visitor::{self, Asked, Entry, Login, Posted, Visitor};
use crate::browser_sessions;
use crate::login::credentials;
use crate::login::http::redirect;
use crate::login::ticket::AccountPage;
use crate::pages;
use crate::pages::account::{Account, FormName, Passkey, Problem, Session};
use crate::pages::texts::Texts;
use crate::passkeys;
use crate::refusal::PageError;
use crate::second_factors;
use crate::state::App;
use crate::users::change::{self, Entitled, NewPassword};
use crate::users::policy::Unfit;

/// One of the pages' texts.
type Text = fn(&Texts) -> &'static str;

/// Texts that the account page shows after a change, by the word in its address.
const DONE: [(&str, Text); 5] = [
    ("password", |texts| texts.saved_password),
    ("session", |texts| texts.ended_sessions),
    ("second-factor-removed", |texts| texts.removed_second_step),
    ("passkey-added", |texts| texts.added_passkey),
    ("passkey-removed", |texts| texts.removed_passkey),
];

/// The account page.
pub(crate) async fn account(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let asked = Asked::of(&request)?;
    match visitor::of(&app, &asked, AccountPage::Account, Login::Any, &correlation).await? {
        Entry::SignIn(form) => Ok(form),
        Entry::Visitor(visitor) => {
            let done = asked.query.get("done").unwrap_or_default();
            show(&app, &visitor, Some(done), None).await
        }
    }
}

/// `POST …/account/password`.
pub(crate) async fn change_password(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let posted = visitor::posted(&app, request, AccountPage::Account, Login::Any, &correlation).await?;
    let (visitor, form) = match posted {
        Posted::SignIn(form) => return Ok(form),
        Posted::Form(visitor, form) => (visitor, form),
    };
    let typed = form.get("password").unwrap_or_default();
    let present = credentials::check_again(&app, &visitor.headers, visitor.user.id, typed).await?;
    let changed = match present {
        None => Err(Unfit::NotPresent),
        Some(present) => {
            let entitled = Entitled::InSession { password: present, session: visitor.session.id };
            change::change(&app, &visitor.user, entitled, &NewPassword::of(&form), &correlation).await?
        }
    };
    match changed {
        Ok(password) => {
            let mut response = redirect(&visitor.done("password"));
            if let Some(device) = visitor.device(&app, present) {
                device.with_password(password).remember(&app, &mut response)?;
            }
            Ok(response)
        }
        Err(unfit) => {
            let text = unfit.message(visitor.lang.texts());
            show(&app, &visitor, None, Some(Problem { form: FormName::Password, text })).await
        }
    }
}

/// Shows the account page in its current state.
pub(super) async fn show(
    app: &App,
    visitor: &Visitor,
    done: Option<&str>,
    problem: Option<Problem>,
) -> Result<Response, PageError> {
    let listed =
        browser_sessions::store::of_user(&app.core.pool, visitor.user.id, app.core.clock.now()).await?;
    let sessions: Vec<Session> = listed
        .into_iter()
        .map(|listed| Session {
            id: listed.id,
            is_this: listed.id == visitor.session.id,
            agent: listed.agent,
            address: listed.address,
            authenticated_at: listed.authenticated_at,
            clients: listed.clients,
        })
        .collect();
    let methods = second_factors::store::find(&app.core.pool, visitor.user.id).await?;
    let listed = passkeys::store::of_user(&app.core.pool, visitor.user.id).await?;
    let passkeys: Vec<Passkey> = listed.into_iter().map(shown).collect();
    let done = DONE.iter().find(|(word, _)| Some(*word) == done);
    let page = pages::account::account(&Account {
        frame: visitor.frame(),
        username: &visitor.user.username,
        totp: methods.totp,
        passkeys: &passkeys,
        has_ceremonies: app.passkeys.is_some(),
        codes_left: methods.any().then_some(methods.codes_left),
        sessions: &sessions,
        done: done.map(|(_, text)| text(visitor.lang.texts())),
        problem,
    });
    Ok(pages::answer_account(page))
}

fn shown(passkey: passkeys::store::Listed) -> Passkey {
    let passkeys::store::Listed { id, name, created_at, last_used_at } = passkey;
    Passkey { id, name, created_at, last_used_at }
}
