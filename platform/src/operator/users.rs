//! `platform identity user add|show|invite|reset|disable|enable`: manages the built-in provider's users through its
//! administration routes. A password is generated here, sent once and printed once; at the login its user must choose
//! another.

use contract::{Settings, ports};
use http::{Method, StatusCode};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};
use service::client::{Call, encode_segment};

use super::{account_name, call, data, refused};
use crate::cli::{Invitation, Language, NewUser, ResetRequest, UserCommand, UserName};
use crate::console;
use crate::stop::Stop;

/// Letters and digits without look-alikes. There are 32, so that a random byte selects each with the same probability.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// 100 random bits.
const PASSWORD_LETTERS: usize = 20;

/// Runs the command and prints the result.
pub(super) async fn run(command: &UserCommand, settings: &Settings) -> Result<(), Stop> {
    let provider = Provider::of(settings)?;
    match command {
        UserCommand::Add(user) => add(&provider, user).await,
        UserCommand::Show(user) => show(&provider, &user.name).await,
        UserCommand::Invite(Invitation { user, lang }) => invite(&provider, &user.name, *lang).await,
        UserCommand::Reset(request) => reset(&provider, request).await,
        UserCommand::Disable(user) => enable(&provider, user, false).await,
        UserCommand::Enable(user) => enable(&provider, user, true).await,
    }
}

async fn add(provider: &Provider<'_>, user: &NewUser) -> Result<(), Stop> {
    let password = temporary_password()?;
    let body = json!({
        "username": user.name,
        "email": user.email,
        "firstName": user.first_name,
        "lastName": user.last_name,
        "credentials": [credential(&password)],
    });
    provider.ask(Method::POST, "", Some(&body)).await?;
    let name = &user.name;
    // A failure here must not keep the password back, which is known nowhere else.
    let subject = provider.id_of(name).await.map(|id| format!(" (subject {id})")).unwrap_or_default();
    if user.invite {
        // The account's initial password is not disclosed.
        console::result(&format!("user {name} is added{subject}"));
        let invited = invite(provider, name, user.lang).await;
        return invited.map_err(|why| {
            Stop::Failed(format!(
                "{why}\nthe user has no password yet: \"platform identity user invite {name}\" sends the e-mail once that is possible, \
                 \"platform identity user reset {name}\" prints a password"
            ))
        });
    }
    console::result(&format!("user {name} is added{subject}; password for the first login: {password}"));
    Ok(())
}

async fn show(provider: &Provider<'_>, name: &str) -> Result<(), Stop> {
    console::result(&shown(&provider.find(name).await?).join("\n"));
    Ok(())
}

/// A user as the provider shows it, as lines of name and value.
fn shown(user: &Value) -> Vec<String> {
    let text = |name: &str| user.get(name).and_then(Value::as_str).unwrap_or("none").to_owned();
    let yes = |holds: bool| String::from(if holds { "yes" } else { "no" });
    let lists = |list: &str, word: &str| {
        let words = user.get(list).and_then(Value::as_array);
        yes(words.is_some_and(|words| words.iter().any(|known| known == word)))
    };
    let lines = [
        ("subject", text("id")),
        ("user name", text("username")),
        ("e-mail", text("email")),
        ("enabled", yes(user.get("enabled") == Some(&Value::Bool(true)))),
        ("must choose a password", lists("requiredActions", "UPDATE_PASSWORD")),
        ("one-time codes", lists("disableableCredentialTypes", "otp")),
        ("passkeys", lists("disableableCredentialTypes", "webauthn")),
    ];
    lines.into_iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

async fn invite(provider: &Provider<'_>, name: &str, lang: Language) -> Result<(), Stop> {
    let id = provider.id_of(name).await?;
    let path = format!("/{id}/execute-actions-email?lang={}", lang.as_str());
    provider.ask(Method::PUT, &path, Some(&json!(["UPDATE_PASSWORD"]))).await?;
    console::result(&format!(
        "an e-mail with a link for {name} is on its way; the link is valid for three days"
    ));
    Ok(())
}

async fn reset(provider: &Provider<'_>, request: &ResetRequest) -> Result<(), Stop> {
    let (name, password) = (&request.user.name, temporary_password()?);
    let id = provider.id_of(name).await?;
    // First, so that no passkey signs in after the reset.
    if request.second_factor {
        let path = format!("/{id}/disable-credential-types");
        provider.ask(Method::PUT, &path, Some(&json!(["otp", "webauthn"]))).await?;
    }
    provider.ask(Method::PUT, &format!("/{id}/reset-password"), Some(&credential(&password))).await?;
    console::result(&format!("user {name}: password for the next login: {password}"));
    Ok(())
}

async fn enable(provider: &Provider<'_>, user: &UserName, enabled: bool) -> Result<(), Stop> {
    let id = provider.id_of(&user.name).await?;
    provider.ask(Method::PUT, &format!("/{id}"), Some(&json!({ "enabled": enabled }))).await?;
    look_at(provider.settings, &id).await?;
    let is = if enabled { "enabled" } else { "disabled; its sessions have ended" };
    console::result(&format!("user {} is {is}", user.name));
    Ok(())
}

/// Has identity look at the account, so that decisions know of the change before the command reports it.
async fn look_at(settings: &Settings, id: &str) -> Result<(), Stop> {
    let path = format!("/internal/identity/users/{}/look", encode_segment(id));
    let (status, body) = call(settings, "identity", ports::IDENTITY, Call::new(Method::POST, path)).await?;
    // An account that has sent no request yet has no record; its first request asks the provider.
    if status == StatusCode::NOT_FOUND { Ok(()) } else { data(status, &body).map(drop) }
}

/// Whether the platform uses the built-in provider.
pub(super) fn are_built_in(settings: &Settings) -> bool {
    settings.raw("PLATFORM_IDP_URL").is_none()
}

fn credential(password: &str) -> Value {
    json!({ "type": "password", "value": password, "temporary": true })
}

fn temporary_password() -> Result<String, Stop> {
    let mut bytes = [0; PASSWORD_LETTERS];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Stop::Failed("the system's random source failed".to_owned()))?;
    let letters: Vec<char> = bytes.iter().map(|byte| letter(*byte)).collect();
    Ok(letters.chunks(5).map(|chunk| chunk.iter().collect()).collect::<Vec<String>>().join("-"))
}

fn letter(byte: u8) -> char {
    LETTERS.get(usize::from(byte) % LETTERS.len()).map_or('x', |letter| char::from(*letter))
}

/// The built-in provider's administration routes.
struct Provider<'a> {
    settings: &'a Settings,
    realm: String,
    operator: String,
}

impl<'a> Provider<'a> {
    fn of(settings: &'a Settings) -> Result<Self, Stop> {
        if !are_built_in(settings) {
            let message = "PLATFORM_IDP_URL is set: users are created in that provider, not by this command";
            return Err(Stop::Unfit(message.to_owned()));
        }
        let realm = settings.reader().text(&idp::config::REALM);
        Ok(Self { settings, realm, operator: account_name(settings)? })
    }

    /// The user of a user name.
    async fn find(&self, name: &str) -> Result<Value, Stop> {
        let query = format!("?exact=true&username={}", encode_segment(&name.to_lowercase()));
        let found = self.ask(Method::GET, &query, None).await?;
        let user = found.get(0).cloned();
        user.ok_or_else(|| Stop::Failed(format!("there is no user {name}")))
    }

    /// The subject of a user name.
    async fn id_of(&self, name: &str) -> Result<String, Stop> {
        let user = self.find(name).await?;
        let id = user.get("id").and_then(Value::as_str);
        id.map(ToOwned::to_owned).ok_or_else(|| Stop::Failed(format!("there is no user {name}")))
    }

    /// Calls a route below `users`.
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Stop> {
        let found = self.try_ask(method, path, body).await?;
        found.ok_or_else(|| Stop::Failed("refused: there is no such user (404)".to_owned()))
    }

    /// Calls a route below `users`; returns `None` if there is no such user.
    async fn try_ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Option<Value>, Stop> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let path = format!(
            "/admin/realms/{}/users{path}{mark}operator={}",
            encode_segment(&self.realm),
            encode_segment(&self.operator)
        );
        let request = Call::new(method, path);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let (status, body) = call(self.settings, "idp", ports::IDP, request).await?;
        if status.is_success() {
            return Ok(Some(body));
        }
        if status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        Err(refused(status, &format!("{} ({})", reason(status, &body), status.as_u16())))
    }
}

/// The provider's reason for a refusal.
fn reason(status: StatusCode, body: &Value) -> &str {
    let said = ["errorMessage", "error"].iter().find_map(|name| body.get(name)?.as_str());
    said.or_else(|| status.canonical_reason()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_shown_as_lines_of_name_and_value() {
        let ada = json!({
            "id": "5f0a", "username": "ada", "email": "ada@example.test", "enabled": true,
            "requiredActions": [], "disableableCredentialTypes": ["otp"],
        });
        assert_eq!(
            shown(&ada),
            [
                "subject: 5f0a",
                "user name: ada",
                "e-mail: ada@example.test",
                "enabled: yes",
                "must choose a password: no",
                "one-time codes: yes",
                "passkeys: no",
            ]
        );
        let bare = json!({ "id": "5f0b", "username": "bo", "requiredActions": ["UPDATE_PASSWORD"] });
        let lines = shown(&bare);
        for line in ["e-mail: none", "enabled: no", "must choose a password: yes", "passkeys: no"] {
            assert!(lines.iter().any(|shown| shown == line), "{line} in {lines:?}");
        }
    }

    #[test]
    fn a_temporary_password_is_four_groups_of_plain_letters_and_never_the_same() {
        let (one, other) = (temporary_password().expect("random"), temporary_password().expect("random"));
        assert_ne!(one, other);
        assert_eq!(one.split('-').map(str::len).collect::<Vec<_>>(), [5; 4]);
        assert!(one.bytes().all(|byte| byte == b'-' || LETTERS.contains(&byte)), "{one}");
    }
}
