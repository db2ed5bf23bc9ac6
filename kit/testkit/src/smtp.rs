//! A mail server for tests: accepts mail as in RFC 5321 (EHLO, STARTTLS, AUTH PLAIN and LOGIN, DATA), stores it, and
//! answers, hangs or breaks off at each step as scripted. It relays nothing.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use rustls::ServerConfig;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Longest line of a command or a mail, including its end (RFC 5321, section 4.5.3.1, allows 1000 for a mail's lines).
const MAX_LINE: u64 = 2000;
/// Largest mail; no test sends this much on purpose.
const MAX_MAIL: usize = 8 << 20;

/// The mail server; lives as long as the test's runtime. Clones are the same server.
#[derive(Clone)]
pub struct SmtpReceiver {
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    state: Arc<Mutex<State>>,
}

/// A step of an SMTP session that a test can script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The greeting.
    Connect,
    /// `EHLO` or `HELO`.
    Hello,
    /// `STARTTLS`.
    StartTls,
    /// The end of `AUTH`.
    Login,
    /// `MAIL FROM`.
    Sender,
    /// `RCPT TO`.
    Recipient,
    /// `DATA`.
    Data,
    /// The end of the mail.
    Mail,
}

/// An accepted mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// Whether it arrived over TLS.
    pub tls: bool,
    /// User and password, if the client logged in.
    pub login: Option<(String, String)>,
    /// The envelope's sender; empty for `<>`.
    pub from: String,
    /// The envelope's recipients.
    pub to: Vec<String>,
    /// Header and body exactly as received, after undoing SMTP's dot-stuffing.
    pub data: Bytes,
}

#[derive(Default)]
struct State {
    reactions: HashMap<Step, Reaction>,
    login: Option<(String, String)>,
    mails: Vec<Mail>,
    commands: Vec<String>,
}

#[derive(Clone)]
enum Reaction {
    Answer(u16, String),
    Raw(String),
    Hang,
    Close,
}

impl SmtpReceiver {
    /// Starts a server without TLS that accepts mail without a login.
    ///
    /// # Panics
    /// No loopback port is available.
    pub async fn start() -> Self {
        Self::listen(None).await
    }

    /// Starts a server that offers STARTTLS; [`crate::TestAuthority::server`] makes such a configuration.
    ///
    /// # Panics
    /// No loopback port is available.
    pub async fn start_tls(config: Arc<ServerConfig>) -> Self {
        Self::listen(Some(TlsAcceptor::from(config))).await
    }

    #[expect(clippy::expect_used, reason = "a test without a loopback port cannot run")]
    async fn listen(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free loopback port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let receiver = Self { address, tls, state: Arc::default() };
        tokio::spawn(receiver.clone().accept(listener));
        receiver
    }

    /// The address on which it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requires this login before mail.
    pub fn require_login(&self, user: &str, password: &str) {
        self.state().login = Some((user.to_owned(), password.to_owned()));
    }

    /// From now on, answers this at the step: 4xx and 5xx refuse, 421 also ends the session.
    pub fn answer(&self, step: Step, code: u16, text: &str) {
        self.state().reactions.insert(step, Reaction::Answer(code, text.to_owned()));
    }

    /// From now on, sends these raw bytes at the step and then continues as if it had accepted.
    pub fn answer_raw(&self, step: Step, bytes: &str) {
        self.state().reactions.insert(step, Reaction::Raw(bytes.to_owned()));
    }

    /// Never answers at this step.
    pub fn hang(&self, step: Step) {
        self.state().reactions.insert(step, Reaction::Hang);
    }

    /// Closes the connection at this step.
    pub fn close(&self, step: Step) {
        self.state().reactions.insert(step, Reaction::Close);
    }

    /// Restores the default behaviour at this step.
    pub fn behave(&self, step: Step) {
        self.state().reactions.remove(&step);
    }

    /// Every accepted mail, in order.
    #[must_use]
    pub fn mails(&self) -> Vec<Mail> {
        self.state().mails.clone()
    }

    /// Every command of all sessions, in order of arrival; logins by name only.
    #[must_use]
    pub fn commands(&self) -> Vec<String> {
        self.state().commands.clone()
    }

    async fn accept(self, listener: TcpListener) {
        while let Ok((socket, _)) = listener.accept().await {
            let conversation = Conversation::new(self.clone(), Box::new(socket));
            // Some tests provoke a session that breaks off.
            tokio::spawn(async move { drop(conversation.run().await) });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

struct Conversation {
    server: SmtpReceiver,
    stream: BufReader<Box<dyn Stream>>,
    said_hello: bool,
    tls: bool,
    login: Option<(String, String)>,
    from: Option<String>,
    to: Vec<String>,
}

/// Whether the session continues.
type Goes = io::Result<bool>;

impl Conversation {
    fn new(server: SmtpReceiver, stream: Box<dyn Stream>) -> Self {
        let stream = BufReader::new(stream);
        Self { server, stream, said_hello: false, tls: false, login: None, from: None, to: Vec::new() }
    }

    async fn run(mut self) -> io::Result<()> {
        let mut goes = self.step(Step::Connect, 220, "testkit ESMTP").await?;
        while goes {
            let Some(line) = self.line().await? else { return Ok(()) };
            let line = String::from_utf8_lossy(&line).into_owned();
            goes = self.command(&line).await?;
        }
        Ok(())
    }

    async fn command(&mut self, line: &str) -> Goes {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let verb = verb.to_ascii_uppercase();
        let noted = if verb == "AUTH" { "AUTH".to_owned() } else { line.to_owned() };
        self.server.state().commands.push(noted);
        match verb.as_str() {
            "EHLO" | "HELO" => self.hello(verb == "EHLO").await,
            "STARTTLS" => self.start_tls().await,
            "AUTH" => self.authenticate(rest).await,
            "MAIL" => self.sender(rest).await,
            "RCPT" => self.recipient(rest).await,
            "DATA" => self.data().await,
            "RSET" => {
                self.reset();
                self.reply(250, "ok").await
            }
            "NOOP" => self.reply(250, "ok").await,
            "QUIT" => self.reply(221, "bye").await.map(|_| false),
            _ => self.reply(500, "unknown command").await,
        }
    }

    async fn hello(&mut self, extended: bool) -> Goes {
        self.reset();
        let mut lines = vec!["testkit"];
        if extended {
            lines.extend(["8BITMIME", "AUTH PLAIN LOGIN"]);
            if self.server.tls.is_some() && !self.tls {
                lines.push("STARTTLS");
            }
        }
        let goes = self.step(Step::Hello, 250, &lines.join("\n")).await?;
        self.said_hello = true;
        Ok(goes)
    }

    async fn start_tls(&mut self) -> Goes {
        let acceptor = self.server.tls.clone().filter(|_| !self.tls);
        let Some(acceptor) = acceptor else { return self.reply(502, "no TLS").await };
        if !self.step(Step::StartTls, 220, "go ahead").await? || self.refuses(Step::StartTls) {
            return Ok(true);
        }
        // Data sent before the handshake could come from an attacker.
        if !self.stream.buffer().is_empty() {
            return Ok(false);
        }
        let nothing: Box<dyn Stream> = Box::new(tokio::io::empty());
        let plain = std::mem::replace(&mut self.stream, BufReader::new(nothing)).into_inner();
        self.stream = BufReader::new(Box::new(acceptor.accept(plain).await?));
        (self.tls, self.said_hello, self.login) = (true, false, None);
        self.reset();
        Ok(true)
    }

    async fn authenticate(&mut self, arguments: &str) -> Goes {
        let (mechanism, initial) = arguments.split_once(' ').unwrap_or((arguments, ""));
        let given = match mechanism.to_ascii_uppercase().as_str() {
            "PLAIN" => {
                let text = if initial.is_empty() { self.challenge("").await? } else { decoded(initial) };
                let mut parts = text.split('\0').skip(1);
                (parts.next().unwrap_or_default().to_owned(), parts.next().unwrap_or_default().to_owned())
            }
            "LOGIN" => {
                let user =
                    if initial.is_empty() { self.challenge("Username:").await? } else { decoded(initial) };
                (user, self.challenge("Password:").await?)
            }
            _ => return self.reply(504, "unknown mechanism").await,
        };
        let required = self.server.state().login.clone();
        if required.is_some_and(|required| required != given) {
            return self.reply(535, "wrong user or password").await;
        }
        let goes = self.step(Step::Login, 235, "welcome").await?;
        if !self.refuses(Step::Login) {
            self.login = Some(given);
        }
        Ok(goes)
    }

    async fn challenge(&mut self, text: &str) -> io::Result<String> {
        self.reply(334, &STANDARD.encode(text)).await?;
        let line = self.line().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(decoded(&String::from_utf8_lossy(&line)))
    }

    async fn sender(&mut self, arguments: &str) -> Goes {
        let needs_login = self.server.state().login.is_some() && self.login.is_none();
        match address(arguments, "FROM:") {
            _ if !self.said_hello || self.from.is_some() => self.reply(503, "out of order").await,
            _ if needs_login => self.reply(530, "log in first").await,
            None => self.reply(501, "no address").await,
            Some(from) => {
                let goes = self.step(Step::Sender, 250, "ok").await?;
                self.from = Some(from).filter(|_| !self.refuses(Step::Sender));
                Ok(goes)
            }
        }
    }

    async fn recipient(&mut self, arguments: &str) -> Goes {
        match address(arguments, "TO:") {
            _ if self.from.is_none() => self.reply(503, "out of order").await,
            None => self.reply(501, "no address").await,
            Some(to) => {
                let goes = self.step(Step::Recipient, 250, "ok").await?;
                self.to.extend(Some(to).filter(|_| !self.refuses(Step::Recipient)));
                Ok(goes)
            }
        }
    }

    async fn data(&mut self) -> Goes {
        if self.to.is_empty() {
            return self.reply(503, "out of order").await;
        }
        let goes = self.step(Step::Data, 354, "end with a dot").await?;
        if !goes || self.refuses(Step::Data) {
            return Ok(goes);
        }
        let mut data = Vec::new();
        loop {
            let line = self.line().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if line == b"." {
                break;
            }
            if data.len() > MAX_MAIL {
                return self.reply(552, "too much").await.map(|_| false);
            }
            data.extend_from_slice(line.strip_prefix(b".").unwrap_or(&line));
            data.extend_from_slice(b"\r\n");
        }
        if !self.refuses(Step::Mail) {
            let mail = Mail {
                tls: self.tls,
                login: self.login.clone(),
                from: self.from.clone().unwrap_or_default(),
                to: std::mem::take(&mut self.to),
                data: data.into(),
            };
            self.server.state().mails.push(mail);
        }
        self.reset();
        self.step(Step::Mail, 250, "taken").await
    }

    fn reset(&mut self) {
        self.from = None;
        self.to.clear();
    }

    /// A line without its end; `None` when the client has gone. Refuses a line that ends in a bare line feed.
    async fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        (&mut self.stream).take(MAX_LINE).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Ok(None);
        }
        if let Some(whole) = line.strip_suffix(b"\r\n") {
            return Ok(Some(whole.to_vec()));
        }
        self.reply(500, "a line ends in CR and LF and is not too long").await?;
        Err(io::ErrorKind::InvalidData.into())
    }

    /// Answers a step as scripted, else with `code` and `text`.
    async fn step(&mut self, step: Step, code: u16, text: &str) -> Goes {
        let reaction = self.server.state().reactions.get(&step).cloned();
        match reaction {
            None => self.reply(code, text).await,
            Some(Reaction::Answer(code, text)) => self.reply(code, &text).await,
            Some(Reaction::Raw(bytes)) => {
                self.stream.write_all(bytes.as_bytes()).await?;
                self.stream.flush().await?;
                Ok(true)
            }
            Some(Reaction::Hang) => std::future::pending().await,
            Some(Reaction::Close) => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Whether the step is scripted to refuse, hang or break off.
    fn refuses(&self, step: Step) -> bool {
        match self.server.state().reactions.get(&step) {
            None | Some(Reaction::Raw(_)) => false,
            Some(Reaction::Answer(code, _)) => *code >= 400,
            Some(Reaction::Hang | Reaction::Close) => true,
        }
    }

    /// Sends one reply, in several lines if the text has several.
    async fn reply(&mut self, code: u16, text: &str) -> Goes {
        let (before, last) = text.rsplit_once('\n').unwrap_or(("", text));
        for line in before.lines() {
            self.stream.write_all(format!("{code}-{line}\r\n").as_bytes()).await?;
        }
        self.stream.write_all(format!("{code} {last}\r\n").as_bytes()).await?;
        self.stream.flush().await?;
        Ok(code != 421)
    }
}

fn decoded(text: &str) -> String {
    let bytes = STANDARD.decode(text.trim()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The address between `<` and `>` after `FROM:` or `TO:`; ignores the parameters after it.
fn address(arguments: &str, keyword: &str) -> Option<String> {
    let (given, rest) = arguments.split_at_checked(keyword.len())?;
    let (address, _) = rest.trim_start().strip_prefix('<')?.split_once('>')?;
    given.eq_ignore_ascii_case(keyword).then(|| address.to_owned())
}
