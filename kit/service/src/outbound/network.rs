//! The operating system's part of outbound calls: resolving a name, and connecting to one address. Tests substitute
//! their own: a resolver that rebinds, a connector that records the dialled addresses.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Most concurrent look-ups, including abandoned ones. The system's resolver cannot be interrupted: without a bound,
/// names whose servers never answer would take up the process's blocking threads.
const MAX_LOOKUPS: usize = 32;

/// A boxed future of an I/O result.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// Resolves names and opens connections. It checks nothing: the caller checks the addresses between the two.
pub trait Network: Send + Sync + 'static {
    /// Every address of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> Pending<'a, Vec<IpAddr>>;

    /// Connects to exactly this address.
    fn connect(&self, address: SocketAddr) -> Pending<'_, TcpStream>;

    /// Whether the address is one of this machine's own. What listens there need not be open to others, because a
    /// connection from this machine passes no firewall.
    fn is_own(&self, address: IpAddr) -> bool {
        is_of_this_machine(address)
    }
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

/// Whether this machine has the address. Only such an address can be bound, unless the kernel allows any address to be
/// bound (`ip_nonlocal_bind`, for addresses that move between machines): then the address is compared with the source
/// address of a connection to it.
fn is_of_this_machine(address: IpAddr) -> bool {
    let (nobodys, any) = match address {
        IpAddr::V4(_) => (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        IpAddr::V6(_) => {
            let documentation = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
            (IpAddr::V6(documentation), IpAddr::V6(Ipv6Addr::UNSPECIFIED))
        }
    };
    let binds = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    if !binds(address) {
        return false;
    }
    // Connecting a datagram socket sends nothing; it only looks up the route. The port is the discard port.
    let source = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((address, 9))?;
        socket.local_addr()
    };
    !binds(nobodys) || source().is_ok_and(|source: SocketAddr| source.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_knows_its_own_addresses_from_others() {
        for own in ["127.0.0.1", "127.5.6.7"] {
            assert!(is_of_this_machine(own.parse().expect("an address")), "{own}");
        }
        for other in ["192.0.2.7", "93.184.216.34", "2001:db8::7", "2606:2800:220:1::34"] {
            assert!(!is_of_this_machine(other.parse().expect("an address")), "{other}");
        }
        let outwards = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
            socket.connect("192.0.2.7:9")?;
            socket.local_addr()
        });
        // Without a network, the only address is the loopback's.
        if let Ok(outwards) = outwards {
            assert!(is_of_this_machine(outwards.ip()), "{outwards}");
        }
    }
}
