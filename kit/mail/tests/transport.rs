//! Connections to the mail server: kept after a whole exchange, closed after a broken one.

#![expect(clippy::expect_used, reason = "a broken premise fails the test that has it")]

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use lettre::Message;
use mail::{MailSettings, Reply, SmtpUrl, Transport};
use testkit::{SmtpReceiver, Step, TestAuthority};

/// Longest wait for the server.
const PATIENCE: Duration = Duration::from_secs(10);

fn mail_to(to: &str) -> Message {
    let message = Message::builder().from("a@example.com".parse().expect("an address"));
    message.to(to.parse().expect("an address")).body(format!("for {to}")).expect("a mail")
}

fn transport(server: &SmtpReceiver) -> Transport {
    transport_of(&format!("smtp://{}?tls=none", server.address()), None)
}

fn transport_of(url: &str, authority: Option<&TestAuthority>) -> Transport {
    let settings = MailSettings {
        server: SmtpUrl::parse(url).expect("a URL"),
        authorities: authority.map(TestAuthority::certificate).into_iter().collect(),
        from: "a@example.com".parse().expect("an address"),
        domain: "platform.example".to_owned(),
    };
    Transport::new(&settings, 4).expect("no certificates")
}

fn count(server: &SmtpReceiver, verb: &str) -> usize {
    server.commands().iter().filter(|command| command.starts_with(verb)).count()
}

#[tokio::test]
async fn a_connection_carries_several_mails() {
    let server = SmtpReceiver::start().await;
    let transport = transport(&server);
    for n in 1..=3 {
        transport.send(&mail_to("b@example.com")).await.expect("sent");
        assert_eq!((count(&server, "EHLO"), count(&server, "NOOP")), (1, n - 1));
    }
    assert_eq!(server.mails().len(), 3);
}

/// The late replies to the first mail must not be taken for those to the second.
#[tokio::test]
async fn a_mail_that_was_given_up_takes_its_connection_along() {
    let server = SmtpReceiver::start().await;
    let transport = transport(&server);
    transport.send(&mail_to("b@example.com")).await.expect("sent");
    server.hang(Step::Recipient);
    let mail = mail_to("hold@example.com");
    {
        let mut sending = pin!(transport.send(&mail));
        let asked = poll_fn(|context| {
            let early = sending.as_mut().poll(context);
            assert!(early.is_pending(), "the server answers nothing");
            if count(&server, "RCPT TO:<hold") == 1 {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        });
        tokio::time::timeout(PATIENCE, asked).await.expect("the server was asked");
    }
    server.behave(Step::Recipient);
    let before = (count(&server, "EHLO"), count(&server, "NOOP"));
    transport.send(&mail_to("c@example.com")).await.expect("sent");
    assert_eq!(
        (count(&server, "EHLO"), count(&server, "NOOP")),
        (before.0 + 1, before.1),
        "a new connection"
    );
    let to: Vec<String> = server.mails().into_iter().flat_map(|mail| mail.to).collect();
    assert_eq!(to, ["b@example.com", "c@example.com"]);
}

#[tokio::test]
async fn a_refused_mail_leaves_no_connection() {
    let server = SmtpReceiver::start().await;
    let transport = transport(&server);
    transport.send(&mail_to("b@example.com")).await.expect("sent");
    server.answer(Step::Recipient, 550, "no such user");
    assert!(transport.send(&mail_to("b@example.com")).await.is_err());
    server.behave(Step::Recipient);
    transport.send(&mail_to("b@example.com")).await.expect("sent");
    assert_eq!(count(&server, "EHLO"), 2);
}

#[tokio::test]
async fn a_positive_reply_that_is_none_to_its_command_ends_the_connection_without_the_mail() {
    let server = SmtpReceiver::start().await;
    let transport = transport(&server);
    for (step, status) in [
        (Step::Sender, 354),
        (Step::Recipient, 354),
        (Step::Recipient, 300),
        (Step::Data, 250),
        (Step::Data, 220),
        (Step::Mail, 354),
    ] {
        transport.send(&mail_to("b@example.com")).await.expect("sent");
        let (connections, mails) = (count(&server, "EHLO"), server.mails().len());
        server.answer(step, status, "word");
        let reply = transport.send(&mail_to("c@example.com")).await.expect("a positive reply");
        assert_eq!(reply, Reply { status, is_taken: false }, "{step:?}");
        // This server keeps each mail that it receives in full, even if its reply says otherwise.
        let sent = usize::from(step == Step::Mail);
        assert_eq!(server.mails().len(), mails + sent, "{step:?} {status}");
        server.behave(step);
        let reply = transport.send(&mail_to("b@example.com")).await.expect("sent");
        assert!(reply.is_taken, "{step:?} {status}");
        assert_eq!(count(&server, "EHLO"), connections + 1, "{step:?} {status}: a new connection");
    }
}

/// An attacker on the way could add it, and every reply inside TLS would be taken for that to the next command.
#[tokio::test]
async fn plain_text_behind_the_reply_to_starttls_ends_the_connection() {
    let authority = TestAuthority::new();
    let server = SmtpReceiver::start_tls(authority.server(&["127.0.0.1"])).await;
    let transport = transport_of(&format!("smtp://{}", server.address()), Some(&authority));
    server.answer(Step::Mail, 451, "later");
    for added in ["250 added\r\n", "250 added\r\n250 twice\r\n", "2"] {
        server.answer_raw(Step::StartTls, &format!("220 go ahead\r\n{added}"));
        let sent = transport.send(&mail_to("b@example.com")).await;
        assert!(sent.is_err(), "{added:?} {sent:?}");
        assert_eq!(count(&server, "MAIL"), 0, "{added:?}");
    }
    server.behave(Step::StartTls);
    let error = transport.send(&mail_to("b@example.com")).await.expect_err("refused");
    assert_eq!(error.status().map(u16::from), Some(451), "control: the server's own reply");
    server.behave(Step::Mail);
    transport.send(&mail_to("b@example.com")).await.expect("sent");
    assert!(server.mails().iter().all(|mail| mail.tls), "control: over TLS");
}

#[tokio::test]
async fn a_server_with_starttls_that_cannot_be_reached_is_an_error() {
    let free = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let url = format!("smtp://{}", free.local_addr().expect("bound"));
    drop(free);
    let authority = TestAuthority::new();
    let error = transport_of(&url, Some(&authority))
        .send(&mail_to("b@example.com"))
        .await
        .expect_err("nothing listens there");
    assert!(error.status().is_none() && !error.is_timeout(), "{error}");
    assert!(format!("{error:?}").contains("Connection refused"), "{error:?}");
}
