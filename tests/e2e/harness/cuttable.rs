//! A relay of TCP connections that can be cut: open connections break off and new ones are refused until it is
//! restored.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// The relay; lives as long as the test's runtime.
pub(crate) struct Cuttable {
    address: SocketAddr,
    /// Cancelled while the relay is cut.
    line: Arc<Mutex<CancellationToken>>,
}

impl Cuttable {
    /// Relays to `to`.
    pub(crate) async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let line = Arc::new(Mutex::new(CancellationToken::new()));
        tokio::spawn(accept(listener, to, Arc::clone(&line)));
        Self { address, line }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn cut(&self) {
        present(&self.line).cancel();
    }

    pub(crate) fn mend(&self) {
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = CancellationToken::new();
    }
}

fn present(line: &Mutex<CancellationToken>) -> CancellationToken {
    line.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

async fn accept(listener: TcpListener, to: SocketAddr, line: Arc<Mutex<CancellationToken>>) {
    while let Ok((mut near, _)) = listener.accept().await {
        let line = present(&line);
        tokio::spawn(async move {
            // Either end may break off at any time, as seen by a relay on a cut line.
            let relayed = line.run_until_cancelled(async {
                let mut far = TcpStream::connect(to).await?;
                copy_bidirectional(&mut near, &mut far).await
            });
            drop(relayed.await);
        });
    }
}
