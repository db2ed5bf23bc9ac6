//! Sends mail over SMTP, several mails on a connection.
//!
//! A connection is kept only when its last mail was answered to the end. A send that is dropped half-way, at a time
//! limit for example, closes its connection: the late replies would be taken for those to the next mail, which may be
//! another company's. lettre's own pool takes such connections back.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lettre::Message;
use lettre::transport::smtp;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Noop, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::{Response, Severity};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::lines::Lines;
use crate::server::Security;
use crate::settings::MailSettings;

/// Closes an idle connection before the server does (five minutes, RFC 5321).
const IDLE: Duration = Duration::from_mins(1);
/// Time limit for connecting, and for the reply that shows that an idle connection still works.
const REPLY: Duration = Duration::from_secs(10);

/// Sends mail to the mail server; connects on demand. Cheap to clone.
#[derive(Clone)]
pub struct Transport(Arc<Inner>);

struct Inner {
    host: String,
    port: u16,
    security: Security,
    tls: Option<TlsParameters>,
    login: Option<Credentials>,
    hello: ClientId,
    max_idle: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Connections without a mail, the latest used last.
    idle: Vec<(AsyncSmtpConnection, Instant)>,
    /// Whether a task closes the connections that stay idle.
    has_closer: bool,
}

impl Transport {
    /// Keeps at most `max_idle` connections between mails; each concurrent mail has a connection of its own, whose number
    /// the caller bounds.
    ///
    /// # Errors
    /// One of the operator's certificates is invalid.
    pub fn new(settings: &MailSettings, max_idle: usize) -> Result<Self, smtp::Error> {
        let server = &settings.server;
        let tls = match server.security {
            Security::None => None,
            Security::StartTls | Security::Implicit => Some(tls(settings)?),
        };
        let login = server.login.as_ref();
        let login = login.map(|(user, word)| Credentials::new(user.clone(), word.as_str().to_owned()));
        Ok(Self(Arc::new(Inner {
            host: server.host.clone(),
            port: server.port,
            security: server.security,
            tls,
            login,
            hello: ClientId::Domain(settings.domain.clone()),
            max_idle,
            state: Mutex::default(),
        })))
    }

    /// An idle connection that still works, or a new one.
    ///
    /// # Errors
    /// The server cannot be reached, turns the connection away or refuses the login.
    pub async fn connection(&self) -> Result<Connection, smtp::Error> {
        let connection = match self.0.idle().await {
            Some(connection) => connection,
            None => self.0.connect().await?,
        };
        Ok(Connection { connection, pool: Arc::clone(&self.0) })
    }

    /// Sends one mail and returns the server's last reply. Has no time limit of its own after connecting: the caller
    /// drops it at the end of its time, which closes the connection.
    ///
    /// # Errors
    /// As [`Self::connection`] and [`Connection::send`].
    pub async fn send(&self, mail: &Message) -> Result<Reply, smtp::Error> {
        self.connection().await?.send(mail).await
    }
}

/// A connection to the mail server that is ready for a mail.
pub struct Connection {
    connection: AsyncSmtpConnection,
    pool: Arc<Inner>,
}

/// The mail server's last reply to a mail that it did not refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status, 200 to 399.
    pub status: u16,
    /// Whether the server took the mail. Otherwise the reply was none to its command, such as 250 to `DATA`: the server
    /// is out of step, and its connection is closed.
    pub is_taken: bool,
}

impl Connection {
    /// Sends one mail, whose head and body are ASCII, and returns the server's last reply. Has no time limit of its own;
    /// dropping it closes the connection.
    ///
    /// # Errors
    /// The server refuses the mail or breaks off.
    pub async fn send(mut self, mail: &Message) -> Result<Reply, smtp::Error> {
        match deliver(&mut self.connection, mail).await {
            Ok(last) => {
                if last.is_taken {
                    Inner::keep(&self.pool, self.connection);
                }
                Ok(last)
            }
            Err(error) => {
                self.connection.abort().await;
                Err(error)
            }
        }
    }
}

/// Sends the commands of one mail. Unlike lettre's own, it ends at a reply that is positive but none to its command.
async fn deliver(connection: &mut AsyncSmtpConnection, mail: &Message) -> Result<Reply, smtp::Error> {
    let envelope = mail.envelope();
    let sender = connection.command(Mail::new(envelope.from().cloned(), Vec::new())).await?;
    if !completes(&sender) {
        return Ok(Reply::out_of_step(&sender));
    }
    for to in envelope.to() {
        let recipient = connection.command(Rcpt::new(to.clone(), Vec::new())).await?;
        if !completes(&recipient) {
            return Ok(Reply::out_of_step(&recipient));
        }
    }
    let data = connection.command(Data).await?;
    if data.code().severity != Severity::PositiveIntermediate {
        return Ok(Reply::out_of_step(&data));
    }
    let last = connection.message(&mail.formatted()).await?;
    Ok(Reply { is_taken: completes(&last), ..Reply::out_of_step(&last) })
}

fn completes(reply: &Response) -> bool {
    reply.code().severity == Severity::PositiveCompletion
}

impl Reply {
    fn out_of_step(reply: &Response) -> Self {
        Self { status: reply.code().into(), is_taken: false }
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle connection that still works. Those that do not are closed.
    async fn idle(&self) -> Option<AsyncSmtpConnection> {
        loop {
            let (mut connection, since) = self.state().idle.pop()?;
            let works = since.elapsed() < IDLE
                && timeout(REPLY, works(&mut connection)).await.is_ok_and(|works| works);
            if works {
                return Some(connection);
            }
        }
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, smtp::Error> {
        let server = (self.host.as_str(), self.port);
        let mut connection = match (self.security, self.tls.clone()) {
            (Security::StartTls, Some(tls)) => {
                let stream = timeout(REPLY, TcpStream::connect(server)).await;
                let stream = Lines::new(stream.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())));
                let mut plain =
                    AsyncSmtpConnection::connect_with_transport(Box::new(stream), &self.hello).await?;
                plain.starttls(tls, &self.hello).await?;
                plain
            }
            (_, tls) => {
                AsyncSmtpConnection::connect_tokio1(server, Some(REPLY), &self.hello, tls, None).await?
            }
        };
        if let Some(login) = &self.login {
            connection.auth(DEFAULT_MECHANISMS, login).await?;
        }
        Ok(connection)
    }

    /// Keeps a connection whose mail was answered.
    fn keep(this: &Arc<Self>, connection: AsyncSmtpConnection) {
        let mut state = this.state();
        if connection.has_broken() || state.idle.len() >= this.max_idle {
            return;
        }
        state.idle.push((connection, Instant::now()));
        if !state.has_closer {
            state.has_closer = true;
            tokio::spawn(close_idle(Arc::downgrade(this)));
        }
    }
}

/// Whether the server still answers, and in step.
async fn works(connection: &mut AsyncSmtpConnection) -> bool {
    connection.command(Noop).await.is_ok_and(|reply| completes(&reply))
}

/// Closes connections that stay idle, until there are none.
async fn close_idle(inner: Weak<Inner>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(inner) = inner.upgrade() else { return };
        let mut state = inner.state();
        state.idle.retain(|(_, since)| since.elapsed() < IDLE);
        if state.idle.is_empty() {
            state.has_closer = false;
            return;
        }
    }
}

fn tls(settings: &MailSettings) -> Result<TlsParameters, smtp::Error> {
    let mut tls = TlsParameters::builder(settings.server.host.clone());
    for authority in &settings.authorities {
        tls = tls.add_root_certificate(Certificate::from_der(authority.to_vec())?);
    }
    tls.build_rustls()
}

/// The text with every line end (CR, LF or CRLF) written as CRLF. A bare CR or LF is not allowed in a mail (RFC 5321,
/// section 2.3.8), and some relays take `<CR>.<CR>` for the end of the message.
#[must_use]
pub fn with_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n")
}
