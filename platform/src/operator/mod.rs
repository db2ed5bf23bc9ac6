//! What operators do that has no public route: company administrators, deactivation, a subject's lifecycle. Each is one
//! call of the service that owns the rows, at its internal address, with the operator's credential; its audit row names the
//! operator's account.

pub(crate) mod identity;
pub(crate) mod org;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use contract::Settings;
use http::Method;
use serde_json::Value;
use service::client::{Call, Client};
use service::config::offset_port;
use service::operator::{self, TOKEN};

use crate::plan::listeners::listen_host;
use crate::plan::reached_at;
use crate::secrets::{OPERATOR, Secrets};
use crate::stop::Stop;
use crate::variables::DATA_DIR;

/// One call; a lifecycle change may wait for the guard of the platform role.
const BUDGET: Duration = Duration::from_secs(10);
/// What to do about a credential that the service does not know.
const OTHER_CREDENTIAL: &str = ". The operator's credential is not the one of the platform that runs: run this in the folder \
                                that it was started in, or set PLATFORM_DATA_DIR or PLATFORM_OPERATOR_TOKEN as it has them";

/// Calls one service, at `PLATFORM_<NAME>_BASE_URL` or at its port of this machine.
async fn put(
    settings: &Settings,
    service: &'static str,
    port: u16,
    path: &str,
    body: &Value,
) -> Result<Value, Stop> {
    let variable = format!("PLATFORM_{}_BASE_URL", service.to_uppercase());
    let local = format!(
        "http://{}:{}",
        reached_at(listen_host(settings)?),
        offset_port(&mut settings.reader(), port)
    );
    let url = settings.raw(&variable).map_or(local, ToOwned::to_owned);
    let client = Client::new(service, &url, BUDGET);
    let call = Call::new(Method::PUT, path).bearer(&credential(settings)?).json(body);
    let unanswered =
        |error: &dyn std::fmt::Display| Stop::Failed(format!("{error}; is the platform running at {url}?"));
    let answer = client.send(call).await.map_err(|error| unanswered(&error))?;
    let body: Value = client.json(&answer).map_err(|error| unanswered(&error))?;
    if answer.status.is_success() {
        return Ok(body.get("data").cloned().unwrap_or_default());
    }
    let said =
        |name: &str| body.pointer(&format!("/error/{name}")).and_then(Value::as_str).unwrap_or_default();
    let status = answer.status.as_u16();
    let hint = if status == 401 { OTHER_CREDENTIAL } else { "" };
    Err(Stop::Failed(format!("refused: {} ({status} {}){hint}", said("message"), said("code"))))
}

/// Of its variable, else of the data directory of the `up` that runs.
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

/// The account that runs this command; under sudo, the one that called it.
fn account_name(settings: &Settings) -> Result<String, Stop> {
    if let Some(caller) = settings.raw("SUDO_USER").filter(|_| rustix::process::getuid().is_root()) {
        return Ok(caller.to_owned());
    }
    let unknown = || Stop::Unfit("the name of the account that runs this command is not known".to_owned());
    let told = Command::new("id").arg("-un").output().map_err(|_| unknown())?;
    let name = String::from_utf8(told.stdout).map_err(|_| unknown())?;
    if told.status.success() && !name.trim().is_empty() { Ok(name.trim().to_owned()) } else { Err(unknown()) }
}
