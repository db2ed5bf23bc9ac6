//! What outbound calls ask of the operating system: the addresses of a name, and a connection to one address. Tests put
//! their own in its place: a resolver that rebinds, a connector that records whom it dials.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Look-ups at a time, those that nobody waits for any more too. The system's resolver cannot be interrupted: without a bound,
/// names whose servers never answer would take the threads that the process has for files.
const MAX_LOOKUPS: usize = 32;

/// A result that comes later.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// Resolves names and opens connections. It checks nothing: that is done between the two.
pub trait Network: Send + Sync + 'static {
    /// Every address of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> Pending<'a, Vec<IpAddr>>;

    /// Connects to exactly this address.
    fn connect(&self, address: SocketAddr) -> Pending<'_, TcpStream>;
}

/// The machine's own network: its configured resolver, no proxy.
#[derive(Debug)]
pub struct SystemNetwork {
    lookups: Arc<Semaphore>,
}

impl Default for SystemNetwork {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }
}

impl Network for SystemNetwork {
    fn resolve<'a>(&'a self, name: &'a str) -> Pending<'a, Vec<IpAddr>> {
        Box::pin(async move {
            let permit = Arc::clone(&self.lookups).acquire_owned().await.map_err(io::Error::other)?;
            let name = name.to_owned();
            let looked_up = tokio::task::spawn_blocking(move || {
                let found = (name.as_str(), 0).to_socket_addrs();
                drop(permit);
                found.map(|addresses| addresses.map(|address| address.ip()).collect())
            });
            looked_up.await.map_err(io::Error::other)?
        })
    }

    fn connect(&self, address: SocketAddr) -> Pending<'_, TcpStream> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        })
    }
}
