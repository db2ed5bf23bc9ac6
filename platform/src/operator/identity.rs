//! `platform identity suspend|activate|close SUBJECT`.

use contract::{Settings, ports};
use serde_json::{Value, json};
use service::client::encode_segment;

use super::{account_name, put};
use crate::cli::{IdentityCommand, LifecycleRequest};
use crate::console;
use crate::stop::Stop;

/// Moves the subject and says where it stands.
pub(crate) async fn run(command: &IdentityCommand, settings: &Settings) -> Result<(), Stop> {
    let (state, LifecycleRequest { subject, reason }) = match command {
        IdentityCommand::Suspend(request) => ("suspended", request),
        IdentityCommand::Activate(request) => ("active", request),
        IdentityCommand::Close(request) => ("closed", request),
    };
    let path = format!("/internal/identity/users/{}/lifecycle", encode_segment(subject));
    let body = json!({ "state": state, "reason": reason, "operator": account_name(settings)? });
    let user = put(settings, "identity", ports::IDENTITY, &path, &body).await?;
    let lifecycle = user.get("lifecycle").and_then(Value::as_str).unwrap_or_default();
    console::result(&format!("{subject} is {lifecycle}"));
    Ok(())
}
