//! A simulated network: names with scripted answers, public addresses that lead to servers on this machine, traps on
//! this machine's own addresses, and a record of everything that was resolved and dialled.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use service::outbound::{Network, OutboundClient, OutboundConfig, OutboundLimits, Pending};
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Stands for a receiver on the internet; connections to it go to one of the test's servers.
pub(crate) const PUBLIC: &str = "93.184.216.34";
pub(crate) const PUBLIC_V6: &str = "2606:2800:220:1::34";

/// Clones are the same network.
#[derive(Clone, Default)]
pub(crate) struct TestNetwork(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    names: HashMap<String, Vec<Vec<IpAddr>>>,
    routes: HashMap<IpAddr, SocketAddr>,
    unreachable: Vec<IpAddr>,
    own: Vec<IpAddr>,
    resolved: Vec<String>,
    dialled: Vec<SocketAddr>,
}

impl TestNetwork {
    /// The name's answers, one per look-up; the last one repeats.
    pub(crate) fn name(&self, name: &str, answers: &[&[&str]]) {
        let parse = |answer: &&[&str]| answer.iter().map(|ip| ip.parse().expect("an address")).collect();
        self.state().names.insert(name.to_owned(), answers.iter().map(parse).collect());
    }

    /// Routes connections to this address, on any port, to `server`. Connections to other addresses are made only if
    /// they are this machine's.
    pub(crate) fn route(&self, address: &str, server: SocketAddr) {
        self.state().routes.insert(address.parse().expect("an address"), server);
    }

    /// Connections to this address are never answered.
    pub(crate) fn unreachable(&self, address: &str) {
        self.state().unreachable.push(address.parse().expect("an address"));
    }

    /// This address is one of this machine's.
    pub(crate) fn own(&self, address: &str) {
        self.state().own.push(address.parse().expect("an address"));
    }

    pub(crate) fn resolved(&self) -> Vec<String> {
        self.state().resolved.clone()
    }

    pub(crate) fn dialled(&self) -> Vec<SocketAddr> {
        self.state().dialled.clone()
    }

    pub(crate) fn client(&self, config: OutboundConfig) -> OutboundClient {
        OutboundClient::with_network(config, OutboundLimits::default(), self.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Network for TestNetwork {
    fn resolve<'a>(&'a self, name: &'a str, _: &'a str) -> Pending<'a, Vec<IpAddr>> {
        let mut state = self.state();
        state.resolved.push(name.to_owned());
        let unknown = io::Error::other("unknown name");
        let answer = match state.names.get_mut(name) {
            Some(answers) if answers.len() > 1 => Ok(answers.remove(0)),
            Some(answers) => answers.first().cloned().ok_or(unknown),
            None => Err(unknown),
        };
        Box::pin(std::future::ready(answer))
    }

    fn connect(&self, address: SocketAddr) -> Pending<'_, TcpStream> {
        let mut state = self.state();
        state.dialled.push(address);
        let server = state.routes.get(&address.ip()).copied().unwrap_or(address);
        if state.unreachable.contains(&address.ip()) {
            return Box::pin(std::future::pending());
        }
        // A broken check must not make the test call the real network.
        let here = server.ip().to_canonical();
        if !here.is_loopback() && !here.is_unspecified() {
            return Box::pin(std::future::ready(Err(io::Error::other("the test dials this machine only"))));
        }
        Box::pin(TcpStream::connect(server))
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.state().own.contains(&address)
    }
}

/// Listens on every address of this machine, IPv4 and IPv6, and counts the connections.
pub(crate) struct Trap {
    pub(crate) port: u16,
    accepted: Arc<Mutex<usize>>,
}

impl Trap {
    pub(crate) fn set() -> Self {
        let everywhere = Socket::new(Domain::IPV6, Type::STREAM, None).expect("a socket");
        everywhere.set_only_v6(false).expect("both families");
        everywhere.set_nonblocking(true).expect("for the runtime");
        everywhere.bind(&SocketAddr::from(([0_u16; 8], 0)).into()).expect("a free port");
        everywhere.listen(16).expect("listening");
        let listener = TcpListener::from_std(everywhere.into()).expect("a listener");
        let port = listener.local_addr().expect("bound").port();
        let accepted = Arc::new(Mutex::new(0));
        tokio::spawn(count(listener, Arc::clone(&accepted)));
        Self { port, accepted }
    }

    pub(crate) fn accepted(&self) -> usize {
        *self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn count(listener: TcpListener, accepted: Arc<Mutex<usize>>) {
    while let Ok((mut socket, _)) = listener.accept().await {
        *accepted.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        tokio::spawn(async move {
            // Reading the head suffices: the requests of these tests have no body.
            let mut head = [0; 4096];
            if socket.read(&mut head).await.is_ok() {
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ntrap";
                drop(socket.write_all(answer).await);
            }
        });
    }
}
