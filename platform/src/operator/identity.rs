//! `platform identity suspend|activate|close SUBJECT`. `users.rs` has the commands for the built-in provider's users.

use contract::{Settings, ports};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use service::client::{Call, encode_segment};

use super::{account_name, call, data, export, put, users};
use crate::cli::{IdentityCommand, LifecycleRequest, SubjectRequest};
use crate::console;
use crate::stop::Stop;

/// Changes the subject's lifecycle state and prints the result.
pub(crate) async fn run(command: &IdentityCommand, settings: &Settings) -> Result<(), Stop> {
    let (state, LifecycleRequest { subject, reason }) = match command {
        IdentityCommand::Suspend(request) => ("suspended", request),
        IdentityCommand::Activate(request) => ("active", request),
        IdentityCommand::Close(request) => ("closed", request),
        IdentityCommand::Export(SubjectRequest { subject }) => return export::run(subject, settings).await,
        IdentityCommand::User(command) => return users::run(command, settings).await,
    };
    let name = if state == "closed" { configured_name(subject, settings).await? } else { None };
    let path = format!("/internal/identity/users/{}/lifecycle", encode_segment(subject));
    let body = json!({ "state": state, "reason": reason, "operator": account_name(settings)? });
    let user = put(settings, "identity", ports::IDENTITY, &path, &body).await?;
    let said = |name| user.get(name).and_then(Value::as_str).unwrap_or_default();
    console::result(&format!("{subject} is {}", said("lifecycle")));
    match said("accountRemoval") {
        "done" => console::result("the identity provider has removed the account"),
        "due" => console::result(
            "the identity provider has not removed the account yet; identity retries every minute until it succeeds",
        ),
        _ => {}
    }
    if let Some(name) = name {
        console::result(&format!(
            "PLATFORM_DEV_USERS still names {name}: remove it, or the next start creates a new account with that name"
        ));
    }
    Ok(())
}

/// The subject's user name, if the built-in provider would create an account with that name at its next start.
async fn configured_name(subject: &str, settings: &Settings) -> Result<Option<String>, Stop> {
    if !users::are_built_in(settings) {
        return Ok(None);
    }
    let path = format!("/internal/identity/users/{}", encode_segment(subject));
    let (status, body) = call(settings, "identity", ports::IDENTITY, Call::new(Method::GET, path)).await?;
    if status == StatusCode::NOT_FOUND {
        // The subject has sent no request yet; closing asks the provider.
        return Ok(None);
    }
    let user = data(status, &body)?;
    let Some(name) = user.get("preferredUsername").and_then(Value::as_str) else { return Ok(None) };
    let configured = settings.reader().text(&idp::config::DEV_USERS);
    let is_configured =
        configured.split(',').filter_map(|entry| entry.trim().split(':').next()).any(|known| known == name);
    Ok(is_configured.then(|| name.to_owned()))
}
