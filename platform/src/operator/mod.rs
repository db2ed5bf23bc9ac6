//! Operator commands without a public route: company administrators, deactivation, a subject's lifecycle. Each makes
//! one call to the service that owns the rows, at its internal address, with the operator's credential. The audit row
//! names the operator's account.

mod export;
pub(crate) mod identity;
pub(crate) mod org;
mod users;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use contract::Settings;
use http::{Method, StatusCode};
use serde_json::Value;
use service::client::{Call, Client};
use service::config::offset_port;
use service::operator::{self, TOKEN};

use crate::plan::listeners::listen_host;
use crate::plan::reached_at;
use crate::secrets::{OPERATOR, Secrets};
use crate::stop::Stop;
use crate::variables::DATA_DIR;

/// Time limit of one call; a lifecycle change may wait for the guard of the platform role.
const BUDGET: Duration = Duration::from_secs(10);
/// Advice for a credential that the service refuses.
const OTHER_CREDENTIAL: &str = ". The operator's credential is not the one of the platform that runs: run this in the folder \
                                that it was started in, or set PLATFORM_DATA_DIR or PLATFORM_OPERATOR_TOKEN as it has them";

/// Calls one service and returns the `data` of its response.
async fn put(
    settings: &Settings,
    service: &'static str,
    port: u16,
    path: &str,
    body: &Value,
) -> Result<Value, Stop> {
    let (status, body) = call(settings, service, port, Call::new(Method::PUT, path).json(body)).await?;
    data(status, &body)
}

/// Returns the `data` of a response.
fn data(status: StatusCode, body: &Value) -> Result<Value, Stop> {
    if status.is_success() {
        return Ok(body.get("data").cloned().unwrap_or_default());
    }
    let said = |name| error_member(body, name);
    Err(refused(status, &format!("{} ({} {})", said("message"), status.as_u16(), said("code"))))
}

/// A member of the error envelope.
fn error_member<'a>(body: &'a Value, name: &str) -> &'a str {
    body.pointer(&format!("/error/{name}")).and_then(Value::as_str).unwrap_or_default()
}

/// Calls one service, at `PLATFORM_<NAME>_BASE_URL` or at its port on this machine. An empty body becomes `null`.
async fn call(
    settings: &Settings,
    service: &'static str,
    port: u16,
    call: Call,
) -> Result<(StatusCode, Value), Stop> {
    let variable = format!("PLATFORM_{}_BASE_URL", service.to_uppercase());
    let local = format!(
        "http://{}:{}",
        reached_at(listen_host(settings)?),
        offset_port(&mut settings.reader(), port)
    );
    let url = settings.raw(&variable).map_or(local, ToOwned::to_owned);
    let client = Client::new(service, &url, BUDGET);
    let unanswered =
        |error: &dyn std::fmt::Display| Stop::Failed(format!("{error}; is the platform running at {url}?"));
    let sent = client.send(call.bearer(&credential(settings)?)).await;
    let answer = sent.map_err(|error| unanswered(&error))?;
    if answer.body.is_empty() {
        return Ok((answer.status, Value::Null));
    }
    let body = client.json(&answer).map_err(|error| unanswered(&error))?;
    Ok((answer.status, body))
}

fn refused(status: StatusCode, said: &str) -> Stop {
    let hint = if status == StatusCode::UNAUTHORIZED { OTHER_CREDENTIAL } else { "" };
    Stop::Failed(format!("refused: {said}{hint}"))
}

/// Returns the operator's credential from its variable, else from the data directory.
fn credential(settings: &Settings) -> Result<String, Stop> {
    let mut reader = settings.reader();
    let read = (operator::read(&mut reader, &TOKEN), reader.text(&DATA_DIR));
    let (token, data_dir) = reader.finish(read)?;
    if let Some(token) = token {
        return Ok(token);
    }
    let kept = Secrets::in_dir(Path::new(&data_dir)).find(OPERATOR)?;
    kept.ok_or_else(|| {
        Stop::Unfit(format!(
            "{}: is required, because no operator's credential is kept in the data directory: run this in the folder \
             that the platform was started in, or set PLATFORM_DATA_DIR, or the variable as the services have it",
            TOKEN.name
        ))
    })
}

/// The account that runs this command; under sudo, the account that called sudo.
fn account_name(settings: &Settings) -> Result<String, Stop> {
    if let Some(caller) = settings.raw("SUDO_USER").filter(|_| rustix::process::getuid().is_root()) {
        return Ok(caller.to_owned());
    }
    let unknown =
        || Stop::Unfit("the name of the account that runs this command cannot be determined".to_owned());
    let told = Command::new("id").arg("-un").output().map_err(|_| unknown())?;
    let name = String::from_utf8(told.stdout).map_err(|_| unknown())?;
    if told.status.success() && !name.trim().is_empty() { Ok(name.trim().to_owned()) } else { Err(unknown()) }
}
