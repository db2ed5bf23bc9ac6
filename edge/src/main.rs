//! The gateway as a program of its own: configuration, sockets, [`edge::serve`] and signals, nothing else. `platform
//! serve gateway` does the same with development certificates and its own variables. Arguments are ignored.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::{Context, bail};
use contract::Settings;
use edge::{EdgeConfig, ListenAddresses};
use mimalloc::MiMalloc;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    edge::start_tuned();
    let settings = settings();
    let telemetry = match telemetry::install(&settings) {
        Ok(telemetry) => telemetry,
        Err(problems) => {
            // The log is not set up yet.
            drop(writeln!(std::io::stderr(), "{problems}"));
            return ExitCode::FAILURE;
        }
    };
    let ended = run(&settings).inspect_err(|error| tracing::error!("the edge cannot serve: {error:#}"));
    // After the last log line.
    drop(telemetry);
    if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn settings() -> Settings {
    let readable = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    Settings::from_pairs(std::env::vars_os().filter_map(readable))
}

fn run(settings: &Settings) -> anyhow::Result<()> {
    let config = EdgeConfig::read(settings)?;
    let addresses = ListenAddresses::read(settings)?;
    // Requests run on the workers' threads; this one runs the watch tasks and merges metrics.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(config, addresses))
}

async fn serve(config: EdgeConfig, addresses: ListenAddresses) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let at_once = tokio::spawn(requests_to_end(
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        stop.clone(),
    ));
    let handed = edge::handed_over().context("the sockets of LISTEN_FDS cannot be used")?;
    let tls = match handed.tls {
        Some(socket) => socket,
        None => bind(addresses.tls).await?,
    };
    let plain = match (handed.plain, addresses.plain) {
        (Some(socket), _) => Some(socket),
        (None, Some(address)) => Some(bind(address).await?),
        (None, None) => None,
    };
    tokio::select! {
        served = edge::serve(config, tls, plain, stop) => Ok(served?),
        _ = at_once => bail!("second signal before the drain was over"),
    }
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

/// The first signal starts the drain; the future resolves at the second, which ends everything at once.
async fn requests_to_end(mut terminate: Signal, mut interrupt: Signal, drain: CancellationToken) {
    for _ in 0..2 {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        drain.cancel();
    }
}
