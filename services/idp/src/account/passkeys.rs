//! Adding and removing passkeys. The challenge of a new one is not stored: the form carries it, sealed for its session.

use axum::extract::{Request, State};
use axum::response::Response;
use contract::CorrelationId;
use contract::id::parse_uuid;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use service::{ApiError, Correlation};
use uuid::Uuid;

use super::http::show;
use super::second_factor::{Checked, show_codes, tags, with_password};
use super::visitor::{self, Asked, Entry, Login, Posted, Visitor};
use crate::browser_sessions;
use crate::keys::rules::Purpose;
use crate::login::http::redirect;
use crate::login::ticket::AccountPage;
use crate::pages;
use crate::pages::account::{FormName, NewPasskey, Problem};
use crate::passkeys::rules::{Ceremony, Challenge, MAX_PASSKEYS, RelyingParty};
use crate::passkeys::{self, rules, store};
use crate::refusal::PageError;
use crate::second_factors::{self, event};
use crate::state::App;
use crate::users;

/// A challenge that waits for the authenticator's answer.
#[derive(Serialize, Deserialize)]
struct Waiting {
    session: Uuid,
    challenge: Challenge,
}

/// `GET …/account/passkeys`.
pub(crate) async fn set_up(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let party = relying_party(&app)?;
    let asked = Asked::of(&request)?;
    match visitor::of(&app, &asked, AccountPage::Passkeys, Login::Recent, &correlation).await? {
        Entry::SignIn(form) => Ok(form),
        Entry::Visitor(visitor) => ask(&app, party, &visitor, "", None).await,
    }
}

/// `POST …/account/passkeys`.
pub(crate) async fn add(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let party = relying_party(&app)?;
    let posted = visitor::posted(&app, request, AccountPage::Passkeys, Login::Recent, &correlation).await?;
    let (visitor, form) = match posted {
        Posted::SignIn(form) => return Ok(form),
        Posted::Form(visitor, form) => (visitor, form),
    };
    let waiting: Option<Waiting> =
        form.get("passkeyChallenge").and_then(|sealed| app.keys.open(Purpose::PasskeySetUp, sealed));
    let challenge = waiting
        .filter(|waiting| waiting.session == visitor.session.id)
        .ok_or_else(PageError::foreign_form)?
        .challenge;
    let typed = form.get("passkeyName").unwrap_or_default();
    let texts = visitor.lang.texts();
    let Some(name) = rules::name(typed) else {
        return ask(&app, party, &visitor, typed, Some(texts.passkey_name_bad)).await;
    };
    let made =
        form.get("credential").map(|credential| party.check_new(credential, &challenge)).transpose()?;
    let Some((credential_id, credential)) = made.flatten() else {
        return ask(&app, party, &visitor, name, Some(texts.passkey_not_added)).await;
    };
    let made = Made { name, credential_id, credential, challenge };
    match save(&app, &visitor, &made, &correlation).await? {
        Saved::First(codes) => Ok(show_codes(&visitor, &codes)),
        Saved::Another => Ok(redirect(&visitor.done("passkey-added"))),
        Saved::SignedOut => visitor.sign_in(&app, AccountPage::Passkeys, &correlation),
        Saved::Not => ask(&app, party, &visitor, name, Some(texts.passkey_not_added)).await,
    }
}

/// A passkey that an authenticator made.
struct Made<'a> {
    name: &'a str,
    credential_id: Vec<u8>,
    credential: Value,
    challenge: Challenge,
}

/// The outcome of [`save`].
enum Saved {
    /// The user's first second factor, with the recovery codes that replace it.
    First(Vec<String>),
    Another,
    /// The session has ended.
    SignedOut,
    /// It is known already, or the user has the maximum.
    Not,
}

async fn save(
    app: &App,
    visitor: &Visitor,
    made: &Made<'_>,
    correlation: &CorrelationId,
) -> Result<Saved, PageError> {
    let (user, now) = (visitor.user.id, app.core.clock.now());
    let codes = second_factors::rules::new_recovery_codes()?;
    let mut tx = app.core.begin_as(&user.to_string(), Some(correlation.as_str())).await?;
    // The login that it follows must not have ended by another password, or by the account's end.
    users::store::lock_password(tx.conn(), user).await?;
    if !browser_sessions::store::keep(tx.conn(), visitor.session.id, now).await? {
        tx.unchanged().await?;
        return Ok(Saved::SignedOut);
    }
    let is_first = !second_factors::store::find(&mut *tx.conn(), user).await?.any();
    let id = Uuid::now_v7();
    let passkey = store::NewPasskey {
        id,
        user,
        credential_id: &made.credential_id,
        credential: &made.credential,
        name: made.name,
        now,
    };
    let is_saved = store::of_user(&mut *tx.conn(), user).await?.len() < MAX_PASSKEYS
        && passkeys::use_up(tx.conn(), &made.challenge, now).await?
        && store::add(tx.conn(), &passkey).await?;
    if !is_saved {
        tx.unchanged().await?;
        return Ok(Saved::Not);
    }
    if is_first {
        let tags = tags(app, user, &codes);
        second_factors::store::replace_recovery_codes(tx.conn(), user, &tags).await?;
        users::store::end_sessions(tx.conn(), user, Some(visitor.session.id)).await?;
    }
    tx.commit(&event("passkey.added", user, json!({ "passkey": id }))).await?;
    Ok(if is_first { Saved::First(codes) } else { Saved::Another })
}

/// `POST …/account/passkeys/remove`.
pub(crate) async fn remove(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let checked = with_password(&app, request, FormName::Passkeys, &correlation).await?;
    let (visitor, form, mut tx) = match checked {
        Checked::Other(answer) => return Ok(answer),
        Checked::Right(visitor, form, tx) => (visitor, form, tx),
    };
    let user = visitor.user.id;
    let Some(passkey) = form.get("passkey").and_then(parse_uuid) else {
        tx.unchanged().await?;
        return Err(PageError::bad("Invalid parameter: passkey"));
    };
    if store::remove(tx.conn(), user, passkey).await? {
        // As after a change of the password: whoever signed in by it is signed out.
        users::store::end_sessions(tx.conn(), user, Some(visitor.session.id)).await?;
        second_factors::store::drop_spare_codes(tx.conn(), user).await?;
        tx.commit(&event("passkey.removed", user, json!({ "passkey": passkey, "reason": "user" }))).await?;
    } else {
        tx.unchanged().await?;
    }
    Ok(redirect(&visitor.done("passkey-removed")))
}

/// Shows the page that adds a passkey, or the account page if the user has the maximum.
async fn ask(
    app: &App,
    party: &RelyingParty,
    visitor: &Visitor,
    name: &str,
    problem: Option<&'static str>,
) -> Result<Response, PageError> {
    let known = store::credential_ids(&app.core.pool, visitor.user.id).await?;
    if known.len() >= MAX_PASSKEYS {
        let text = visitor.lang.texts().passkeys_full;
        return show(app, visitor, None, Some(Problem { form: FormName::Passkeys, text })).await;
    }
    let Ceremony { challenge, options } = party.ask_new(visitor.user.id, &visitor.user.username, known)?;
    let claims = serde_json::to_value(Waiting { session: visitor.session.id, challenge });
    let sealed = app.keys.seal(Purpose::PasskeySetUp, &claims.map_err(ApiError::internal)?)?;
    let page = NewPasskey { frame: visitor.frame(), options: &options, sealed: &sealed, name, problem };
    let mut response = pages::answer_account(pages::account::new_passkey(&page));
    pages::allow_script(&mut response);
    Ok(response)
}

fn relying_party(app: &App) -> Result<&RelyingParty, PageError> {
    app.passkeys.as_ref().ok_or_else(|| PageError::unfit(|texts| texts.no_passkeys_here))
}
