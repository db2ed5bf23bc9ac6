//! `platform identity suspend|activate|close SUBJECT`; what concerns the built-in provider's users is in `users.rs`.

use contract::{Settings, ports};
use http::Method;
use serde_json::{Value, json};
use service::client::{Call, encode_segment};

use super::{account_name, call, data, error_member, users};
use crate::cli::{IdentityCommand, LifecycleRequest, SubjectRequest};
use crate::console;
use crate::stop::Stop;

/// Moves the subject and says where it stands.
pub(crate) async fn run(command: &IdentityCommand, settings: &Settings) -> Result<(), Stop> {
    let (state, LifecycleRequest { subject, reason }) = match command {
        IdentityCommand::Suspend(request) => ("suspended", request),
        IdentityCommand::Activate(request) => ("active", request),
        IdentityCommand::Close(request) => ("closed", request),
        IdentityCommand::Export(SubjectRequest { subject }) => return users::export(subject, settings).await,
        IdentityCommand::User(command) => return users::run(command, settings).await,
    };
    let path = format!("/internal/identity/users/{}/lifecycle", encode_segment(subject));
    let body = json!({ "state": state, "reason": reason, "operator": account_name(settings)? });
    let request = Call::new(Method::PUT, path).json(&body);
    let (status, body) = call(settings, "identity", ports::IDENTITY, request).await?;
    // Closed before: the provider may not have answered then, so it is asked again.
    let is_again = state == "closed" && error_member(&body, "code") == "LIFECYCLE_TRANSITION_INVALID";
    if !is_again {
        let user = data(status, &body)?;
        let lifecycle = user.get("lifecycle").and_then(Value::as_str).unwrap_or_default();
        console::result(&format!("{subject} is {lifecycle}"));
    }
    let has_forgotten =
        state == "closed" && users::are_built_in(settings) && users::forget(subject, settings).await?;
    if is_again && !has_forgotten { data(status, &body).map(drop) } else { Ok(()) }
}
