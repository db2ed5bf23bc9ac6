//! Sockets that whoever started the process has bound for it (systemd's `LISTEN_FDS`): connections wait in them while one
//! edge ends and the next begins, so a restart refuses nobody.

use std::io;

use listenfd::ListenFd;
use tokio::net::TcpListener;

/// The listeners that were handed over.
#[derive(Debug, Default)]
pub struct HandedOver {
    /// The first socket: with TLS.
    pub tls: Option<TcpListener>,
    /// The second: without.
    pub plain: Option<TcpListener>,
}

/// Takes the sockets; none when nobody has handed any over, or when they are meant for another process.
///
/// # Errors
/// A descriptor that is no listening TCP socket.
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
