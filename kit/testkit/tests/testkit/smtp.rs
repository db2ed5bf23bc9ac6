//! The test mail server, used as a mail client would.

#![expect(clippy::expect_used, reason = "a broken premise fails the test that has it")]

use testkit::{SmtpReceiver, Step, TestAuthority};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

struct Client(BufReader<Box<dyn Stream>>);

impl Client {
    async fn connect(server: &SmtpReceiver) -> Self {
        let stream = TcpStream::connect(server.address()).await.expect("connected");
        Self(BufReader::new(Box::new(stream)))
    }

    /// The last line of one reply; empty when the server has gone.
    async fn reply(&mut self) -> String {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).await.unwrap_or_default();
            if line.as_bytes().get(3) != Some(&b'-') {
                return line.trim_end().to_owned();
            }
        }
    }

    async fn say(&mut self, text: &str) -> String {
        self.0.write_all(text.as_bytes()).await.expect("written");
        self.reply().await
    }

    /// Sends each line and returns the codes of the replies.
    async fn all(&mut self, lines: &[&str]) -> Vec<String> {
        let mut codes = Vec::new();
        for line in lines {
            codes.push(self.say(&format!("{line}\r\n")).await.chars().take(3).collect());
        }
        codes
    }
}

const MAIL: [&str; 5] =
    ["EHLO me", "MAIL FROM:<a@x.test> SIZE=9", "RCPT TO:<b@y.test>", "rcpt to:<c@y.test>", "DATA"];

#[tokio::test]
async fn a_mail_is_kept_as_it_came_with_its_envelope() {
    let server = SmtpReceiver::start().await;
    let mut client = Client::connect(&server).await;
    assert!(client.reply().await.starts_with("220 "));
    assert_eq!(client.all(&MAIL).await, ["250", "250", "250", "250", "354"]);
    let sent = "Subject: x\r\n\r\n..dot\r\nline\r\n.\r\n";
    assert!(client.say(sent).await.starts_with("250"));
    assert_eq!(client.all(&["QUIT"]).await, ["221"]);
    let mails = server.mails();
    assert_eq!((mails.len(), &mails[0].data[..]), (1, &b"Subject: x\r\n\r\n.dot\r\nline\r\n"[..]));
    assert_eq!((mails[0].from.as_str(), mails[0].to.join(",")), ("a@x.test", "b@y.test,c@y.test".to_owned()));
    assert_eq!((mails[0].tls, &mails[0].login), (false, &None));
    assert_eq!(server.commands()[..2], ["EHLO me", "MAIL FROM:<a@x.test> SIZE=9"]);
}

#[tokio::test]
async fn each_step_answers_as_told_and_takes_nothing_that_it_refused() {
    for (step, expected) in [
        (Step::Hello, vec!["451", "250", "250", "250", "354"]),
        (Step::Sender, vec!["250", "451", "503", "503", "503"]),
        (Step::Recipient, vec!["250", "250", "451", "451", "503"]),
        (Step::Data, vec!["250", "250", "250", "250", "451"]),
    ] {
        let server = SmtpReceiver::start().await;
        server.answer(step, 451, "later");
        let mut client = Client::connect(&server).await;
        client.reply().await;
        assert_eq!(client.all(&MAIL).await, expected, "{step:?}");
        assert_eq!(server.mails(), []);
    }
    let server = SmtpReceiver::start().await;
    for (code, kept) in [(550, 0), (452, 0), (250, 1)] {
        server.answer(Step::Mail, code, "so");
        let mut client = Client::connect(&server).await;
        client.reply().await;
        client.all(&MAIL).await;
        assert_eq!(client.say("x\r\n.\r\n").await, format!("{code} so"));
        assert_eq!(server.mails().len(), kept);
    }
    server.answer(Step::Connect, 421, "busy");
    let mut client = Client::connect(&server).await;
    assert_eq!((client.reply().await.as_str(), client.reply().await.as_str()), ("421 busy", ""));
    server.close(Step::Connect);
    assert_eq!(Client::connect(&server).await.reply().await, "");
    server.behave(Step::Connect);
    assert!(Client::connect(&server).await.reply().await.starts_with("220"));
}

#[tokio::test]
async fn mail_needs_the_login_that_the_test_asks_for() {
    let server = SmtpReceiver::start().await;
    server.require_login("me", "pw");
    // \0me\0pw, \0me\0no
    for (login, code) in [
        (["AUTH PLAIN AG1lAHB3"].as_slice(), "235"),
        (&["AUTH PLAIN AG1lAG5v"], "535"),
        (&["AUTH PLAIN", "AG1lAHB3"], "235"),
        (&["AUTH LOGIN", "bWU=", "cHc="], "235"),
        (&["AUTH LOGIN bWU=", "cHc="], "235"),
        (&["AUTH LOGIN", "bWU=", "bm8="], "535"),
        (&["AUTH OTHER"], "504"),
        (&["NOOP"], "250"),
    ] {
        let mut client = Client::connect(&server).await;
        client.reply().await;
        client.all(&["EHLO me"]).await;
        assert_eq!(client.all(login).await.last().map(String::as_str), Some(code), "{login:?}");
        let expected = if code == "235" { "250" } else { "530" };
        assert_eq!(client.all(&["MAIL FROM:<>"]).await, [expected], "{login:?}");
    }
    assert!(
        server.commands().iter().all(|command| !command.contains("AG1l")),
        "logins are not stored in clear text"
    );
}

#[tokio::test]
async fn starttls_begins_the_conversation_anew() {
    let authority = TestAuthority::new();
    let server = SmtpReceiver::start_tls(authority.server(&["mail.test"])).await;
    let mut client = Client::connect(&server).await;
    client.reply().await;
    assert_eq!(
        client.all(&["EHLO me", "MAIL FROM:<before@x.test>", "STARTTLS"]).await,
        ["250", "250", "220"]
    );
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.certificate()).expect("a root");
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.expect("versions").with_root_certificates(roots).with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let name = "mail.test".try_into().expect("a name");
    let secured = connector.connect(name, client.0.into_inner()).await.expect("a handshake");
    let mut client = Client(BufReader::new(Box::new(secured)));
    assert_eq!(
        client.all(&["RCPT TO:<b@y.test>", "MAIL FROM:<a@x.test>", "STARTTLS"]).await,
        ["503", "503", "502"]
    );
    assert_eq!(client.all(&MAIL).await.last().map(String::as_str), Some("354"));
    client.say("x\r\n.\r\n").await;
    assert_eq!(
        server.mails().iter().map(|mail| (mail.tls, mail.from.as_str())).collect::<Vec<_>>(),
        [(true, "a@x.test")]
    );

    // Data sent ahead of the handshake is discarded.
    let mut client = Client::connect(&server).await;
    client.reply().await;
    client.all(&["EHLO me"]).await;
    assert!(client.say("STARTTLS\r\nMAIL FROM:<evil@x.test>\r\n").await.starts_with("220"));
    assert_eq!(client.reply().await, "");
}

#[tokio::test]
async fn a_line_that_is_none_ends_the_conversation() {
    for bad in ["EHLO me\n".to_owned(), format!("EHLO {}\r\n", "x".repeat(3000))] {
        let server = SmtpReceiver::start().await;
        let mut client = Client::connect(&server).await;
        client.reply().await;
        assert!(client.say(&bad).await.starts_with("500"));
        assert_eq!(server.commands(), Vec::<String>::new());
    }
}
