//! Socket activation (systemd's `LISTEN_FDS`): the service manager binds the sockets, and connections wait in them
//! while one gateway stops and the next starts, so a restart refuses no connection.

use std::io;

use listenfd::ListenFd;
use tokio::net::TcpListener;

/// The listeners passed by the service manager.
#[derive(Debug, Default)]
pub struct HandedOver {
    /// The first socket, which serves TLS.
    pub tls: Option<TcpListener>,
    /// The second socket, without TLS.
    pub plain: Option<TcpListener>,
}

/// Takes the sockets; none if none were passed, or if they are meant for another process.
///
/// # Errors
/// A descriptor that is not a listening TCP socket.
pub fn handed_over() -> io::Result<HandedOver> {
    let mut handed = ListenFd::from_env();
    let mut next = |index| -> io::Result<Option<TcpListener>> {
        if index >= handed.len() {
            return Ok(None);
        }
        let Some(socket) = handed.take_tcp_listener(index)? else { return Ok(None) };
        socket.set_nonblocking(true)?;
        TcpListener::from_std(socket).map(Some)
    };
    Ok(HandedOver { tls: next(0)?, plain: next(1)? })
}
