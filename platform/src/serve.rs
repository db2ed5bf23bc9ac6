//! `platform serve NAME`: one server from the environment alone, as production runs it.

use std::path::Path;

use contract::Settings;
use edge::EdgeConfig;
use edge::ListenAddresses;
use service::config::offset_port;
use tokio::task::JoinHandle;

use crate::catalog::{self, GATEWAY, Part};
use crate::certificates::with_certificates;
use crate::console;
use crate::data_dir::DataDir;
use crate::plan::listeners::{self, EdgeListeners};
use crate::plan::makes_certificates;
use crate::signals::Signals;
use crate::stop::Stop;
use crate::variables::{DATA_DIR, MIN_FREE_DISK};

/// Serves one part until a signal.
pub(crate) async fn serve(name: &str, settings: &Settings) -> Result<(), Stop> {
    let signals = Signals::listen()?;
    let server = if name == GATEWAY {
        gateway(settings, &signals).await?
    } else {
        part(name, settings, &signals).await?
    };
    console::result(&format!("{name} serves"));
    tokio::select! {
        ended = server => ended.map_err(|error| Stop::Failed(format!("{name} died: {error}")))?,
        () = signals.at_once.cancelled() => Err(Stop::Failed("stopped at once; requests in flight were cut off".to_owned())),
    }
}

type Server = JoinHandle<Result<(), Stop>>;

async fn gateway(settings: &Settings, signals: &Signals) -> Result<Server, Stop> {
    let addresses = ListenAddresses::read(settings)?;
    let (settings, data_dir) = certified(settings, addresses.tls.port())?;
    let config = EdgeConfig::read(&settings)?;
    let EdgeListeners { tls, plain } = EdgeListeners::bind(&addresses).await?;
    let stop = signals.drain.clone();
    Ok(tokio::spawn(async move {
        let _held = data_dir;
        edge::serve(config, tls, plain, stop)
            .await
            .map_err(|error| Stop::Failed(format!("{GATEWAY}: {error}")))
    }))
}

/// Returns the settings with the configured certificate, else with the development certificate of the data directory,
/// which is then locked as under `up`.
fn certified(settings: &Settings, port: u16) -> Result<(Settings, Option<DataDir>), Stop> {
    let mut reader = settings.reader();
    let (makes, path) = (makes_certificates(&mut reader), reader.text(&DATA_DIR));
    let min_free = u64::try_from(reader.size(&MIN_FREE_DISK)).unwrap_or(u64::MAX);
    if !reader.finish(makes)? {
        return Ok((settings.clone(), None));
    }
    let data_dir = DataDir::take(Path::new(&path), min_free)?;
    let domain =
        settings.raw("PLATFORM_DOMAIN").map_or_else(|| format!("localhost:{port}"), ToOwned::to_owned);
    Ok((with_certificates(settings.clone(), &data_dir, &domain)?, Some(data_dir)))
}

async fn part(name: &str, settings: &Settings, signals: &Signals) -> Result<Server, Stop> {
    let found = find(name)?;
    let start = (found.configure)(settings)?;
    let port = offset_port(&mut settings.reader(), found.port);
    let listener = listeners::bind_service(&listeners::listen_host(settings)?, port, found.name).await?;
    let (name, serving) = (found.name, start(listener, signals.drain.clone()));
    Ok(tokio::spawn(async move { serving.await.map_err(|error| Stop::Failed(format!("{name}: {error}"))) }))
}

fn find(name: &str) -> Result<Part, Stop> {
    let mut parts = catalog::parts();
    let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
    let known = format!("{GATEWAY}, {}", names.join(", "));
    let position = names.iter().position(|known| *known == name);
    let found = position.map(|index| parts.swap_remove(index));
    found.ok_or_else(|| Stop::Unfit(format!("\"{name}\" is not a service or module: choose one of {known}")))
}
