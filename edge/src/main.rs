//! The edge as a program of its own: configuration, sockets, [`edge::serve`], signals; nothing else. `platform serve gateway`
//! is the same with development certificates and the other variables. Arguments are not read.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context;
use contract::settings::Kind;
use contract::{Reader, Settings, Variable, ports};
use edge::EdgeConfig;
use mimalloc::MiMalloc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const TLS_ADDR: Variable =
    Variable::new("PLATFORM_EDGE_ADDR", Kind::Address, None, "Address of the TLS edge");
const PLAIN_ADDR: Variable =
    Variable::new("PLATFORM_EDGE_PLAIN_ADDR", Kind::Address, None, "Address of the edge without TLS");

fn main() -> ExitCode {
    edge::start_tuned();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("the edge cannot serve: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let readable = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let settings = Settings::from_pairs(std::env::vars_os().filter_map(readable));
    let _traces = telemetry::install(&settings)?;
    let config = EdgeConfig::read(&settings)?;
    let mut reader = settings.reader();
    let (tls, plain) =
        (address(&mut reader, &TLS_ADDR, ports::EDGE), address(&mut reader, &PLAIN_ADDR, ports::EDGE_PLAIN));
    let (tls, plain) = reader.finish((tls, plain))?;
    // The requests have threads of their own; this one watches and merges metrics.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(config, tls, plain))
}

fn address(reader: &mut Reader<'_>, variable: &Variable, port: u16) -> SocketAddr {
    let parse = |text: &str| text.parse::<SocketAddr>().ok();
    let default = SocketAddr::from(([127, 0, 0, 1], port));
    reader.parsed(variable, parse, "an address and port such as 127.0.0.1:8443").unwrap_or(default)
}

async fn serve(config: EdgeConfig, tls: SocketAddr, plain: SocketAddr) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let asked = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        asked.cancel();
    });
    let handed = edge::handed_over().context("the sockets of LISTEN_FDS cannot be used")?;
    let tls = match handed.tls {
        Some(socket) => socket,
        None => TcpListener::bind(tls).await.with_context(|| format!("cannot listen on {tls}"))?,
    };
    let plain = match handed.plain {
        Some(socket) => socket,
        None => TcpListener::bind(plain).await.with_context(|| format!("cannot listen on {plain}"))?,
    };
    edge::serve(config, tls, Some(plain), stop).await?;
    Ok(())
}
