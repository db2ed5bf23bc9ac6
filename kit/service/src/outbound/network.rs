//! The operating system's part of outbound calls: resolving a name, and connecting to one address. Tests substitute
//! their own: a resolver that rebinds, a connector that records the dialled addresses.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::pin::Pin;

use tokio::net::TcpStream;

use crate::fair_share::FairLimit;

/// Most concurrent look-ups, including abandoned ones. The system's resolver cannot be interrupted: without a bound,
/// names whose servers never answer would take up the process's blocking threads.
const MAX_LOOKUPS: usize = 128;
/// Most of them for one tenant. The names of one whose servers never answer must not hold up another's.
const MAX_LOOKUPS_PER_TENANT: usize = MAX_LOOKUPS / 8;
/// Most concurrent look-ups beside those, one for each tenant: a tenant whose names are answered goes on with one at a
/// time, however many other tenants' names are not.
const MAX_SINGLE_LOOKUPS: usize = MAX_LOOKUPS;

/// A boxed future of an I/O result.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// Resolves names and opens connections. It checks nothing: the caller checks the addresses between the two.
pub trait Network: Send + Sync + 'static {
    /// Every address of a name, looked up for this tenant.
    fn resolve<'a>(&'a self, name: &'a str, tenant: &'a str) -> Pending<'a, Vec<IpAddr>>;

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
    lookups: FairLimit,
    singles: FairLimit,
    look_up: LookUp,
}

/// Looks a name up. It blocks the thread.
type LookUp = fn(&str) -> io::Result<Vec<IpAddr>>;

impl SystemNetwork {
    fn with(look_up: LookUp) -> Self {
        let lookups = FairLimit::new(MAX_LOOKUPS, MAX_LOOKUPS_PER_TENANT);
        Self { lookups, singles: FairLimit::new(MAX_SINGLE_LOOKUPS, 1), look_up }
    }
}

impl Default for SystemNetwork {
    fn default() -> Self {
        Self::with(|name| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
    }
}

impl Network for SystemNetwork {
    fn resolve<'a>(&'a self, name: &'a str, tenant: &'a str) -> Pending<'a, Vec<IpAddr>> {
        Box::pin(async move {
            let permit = tokio::select! {
                biased;
                single = self.singles.acquire(tenant, usize::MAX) => single,
                permit = self.lookups.acquire(tenant, usize::MAX) => permit,
            };
            let permit = permit.map_err(io::Error::other)?;
            let permit = permit.ok_or_else(|| io::Error::other("too many tenants look names up"))?;
            let (name, look_up) = (name.to_owned(), self.look_up);
            let looked_up = tokio::task::spawn_blocking(move || {
                let found = look_up(&name);
                drop(permit);
                found
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
    use std::sync::{Arc, Condvar, Mutex, PoisonError};

    use super::*;

    /// Whether the names of `hang.test` are answered, and who waits for that.
    static ANSWERED: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

    fn slow_look_up(name: &str) -> Vec<IpAddr> {
        if name.contains("hang.test") {
            let (answered, told) = &ANSWERED;
            let answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
            drop(told.wait_while(answered, |answered| !*answered));
        }
        vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn names_that_hang_do_not_hold_up_a_tenant_whose_names_are_answered() {
        let network = Arc::new(SystemNetwork::with(|name| Ok(slow_look_up(name))));
        let hang = |at: usize, tenant: String| {
            let network = Arc::clone(&network);
            tokio::spawn(async move { network.resolve(&format!("{at}.hang.test"), &tenant).await })
        };
        let mut hanging: Vec<_> = (0..2 * MAX_LOOKUPS).map(|at| hang(at, "one".to_owned())).collect();
        while network.lookups.free() > MAX_LOOKUPS - MAX_LOOKUPS_PER_TENANT {
            tokio::task::yield_now().await;
        }
        network.resolve("good.test", "another").await.expect("it is looked up beside one tenant's");
        // Together, enough tenants take every look-up but one for each other tenant.
        hanging.extend((0..2 * MAX_LOOKUPS).map(|at| hang(at, format!("tenant {}", at % 10))));
        while network.lookups.free() > 0 {
            tokio::task::yield_now().await;
        }
        let both = [network.resolve("a.test", "another"), network.resolve("b.test", "another")];
        for found in futures_util::future::join_all(both).await {
            found.expect("it is looked up beside those of many tenants");
        }
        let first = hanging.first().expect("there is one");
        assert!(!first.is_finished(), "control: the first still hangs");
        *ANSWERED.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        ANSWERED.1.notify_all();
        for one in hanging {
            one.await.expect("no panic").expect("looked up after all");
        }
    }

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
