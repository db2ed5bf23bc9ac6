//! A TCP proxy to the database that a test can shut, open and block.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How the proxy treats connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Connections are closed at once.
    Shut,
    /// Connections are forwarded to the database.
    Open,
    /// Connections are accepted but never answered, like a database that hangs.
    Hangs,
}

/// The proxy; initially shut.
pub(crate) struct Door {
    pub(crate) port: u16,
    state: watch::Sender<State>,
    inside: Arc<Mutex<JoinSet<()>>>,
}

impl Door {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let (own, state) = (listener.local_addr().expect("bound").port(), watch::Sender::new(State::Shut));
        let inside = Arc::new(Mutex::new(JoinSet::new()));
        tokio::spawn(relay(listener, port, state.clone(), Arc::clone(&inside)));
        Self { port: own, state, inside }
    }

    pub(crate) fn open(&self) {
        self.change(State::Open);
    }

    pub(crate) fn shut(&self) {
        self.change(State::Shut);
    }

    pub(crate) fn hang(&self) {
        self.state.send_replace(State::Hangs);
    }

    /// Changes the state and closes all connections.
    fn change(&self, state: State) {
        self.state.send_replace(state);
        self.inside.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

async fn relay(
    listener: TcpListener,
    port: u16,
    state: watch::Sender<State>,
    inside: Arc<Mutex<JoinSet<()>>>,
) {
    while let Ok((from, _)) = listener.accept().await {
        let now = *state.borrow();
        let states = state.subscribe();
        let mut inside = inside.lock().unwrap_or_else(PoisonError::into_inner);
        match now {
            State::Shut => {}
            State::Hangs => drop(inside.spawn(swallow(from))),
            State::Open => drop(inside.spawn(pass(from, port, states))),
        }
    }
}

/// Forwards a connection until the proxy hangs, then discards what the client sends.
async fn pass(mut from: TcpStream, port: u16, mut states: watch::Receiver<State>) {
    let mut to = TcpStream::connect(("127.0.0.1", port)).await.expect("the database");
    let hangs = async { states.wait_for(|state| *state == State::Hangs).await.is_ok() };
    tokio::select! {
        // Either side may end the connection in any way; the test checks how the service reacts.
        ended = copy_bidirectional(&mut from, &mut to) => drop(ended),
        true = hangs => swallow(from).await,
        else => {}
    }
}

async fn swallow(mut from: TcpStream) {
    let mut heard = [0; 1_024];
    while from.read(&mut heard).await.is_ok_and(|read| read > 0) {}
    drop(from.shutdown().await);
}
