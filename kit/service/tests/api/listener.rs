//! The socket on which a service listens.

use std::net::TcpStream;
use std::time::Duration;

use crate::app::TestApp;

/// More than the default backlog of a socket.
const AT_ONCE: usize = 300;
/// A client whose connection attempt is dropped retries after a second.
const AT_THE_FIRST_TRY: Duration = Duration::from_millis(900);

#[tokio::test]
async fn many_may_come_at_once_while_nobody_accepts() {
    let app = TestApp::start().await;
    assert_eq!(app.api.get("/health").send().await.status, 200);
    // The service runs on this thread, so it accepts nothing before all of them are connected.
    let connect = |_| TcpStream::connect_timeout(&app.address, AT_THE_FIRST_TRY).expect("finds its place");
    let _all: Vec<TcpStream> = (0..AT_ONCE).map(connect).collect();
    assert_eq!(app.api.get("/health").send().await.status, 200);
}
