//! The socket that a service listens on.

use std::net::TcpStream;
use std::time::Duration;

use crate::app::TestApp;

/// More than a socket's queue holds unless it is told otherwise.
const AT_ONCE: usize = 300;
/// Whoever is not heard tries again after a second.
const AT_THE_FIRST_TRY: Duration = Duration::from_millis(900);

#[tokio::test]
async fn many_may_come_at_once_while_nobody_accepts() {
    let app = TestApp::start().await;
    assert_eq!(app.api.get("/health").send().await.status, 200);
    // The service runs on this very thread, so nobody accepts before all of them are here.
    let connect = |_| TcpStream::connect_timeout(&app.address, AT_THE_FIRST_TRY).expect("finds its place");
    let _all: Vec<TcpStream> = (0..AT_ONCE).map(connect).collect();
    assert_eq!(app.api.get("/health").send().await.status, 200);
}
