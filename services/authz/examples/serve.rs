//! authz as a stand-alone program, for load and fault tests. It reads the variables of `platform serve authz`.

use contract::Settings;
use tokio_util::sync::CancellationToken;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings::from_pairs(std::env::vars());
    let _telemetry = telemetry::install(&settings)?;
    let config = authz::Config::read(&settings)?;
    let (host, port) = config.service.listen.clone();
    let listener = tokio::net::TcpListener::bind((host, port)).await?;
    authz::serve(config, listener, CancellationToken::new()).await?;
    Ok(())
}
