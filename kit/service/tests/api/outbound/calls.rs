//! What a call sends, what it accepts of a response, and how it ends when the other side misbehaves.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, TRANSFER_ENCODING, USER_AGENT};
use http::{HeaderName, HeaderValue, Method, Response};
use service::outbound::{
    FailureKind, Host, MAX_ANSWER_HEAD, MAX_ANSWER_HEADERS, MAX_ANSWER_HEADS, OutboundClient, OutboundConfig,
    OutboundLimits, OutboundRequest,
};
use testkit::{Stub, TestAuthority};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::network::{PUBLIC, PUBLIC_V6, TestNetwork};

/// Time limit of calls that must time out: long enough for a handshake on a busy machine.
const SHORT: Duration = Duration::from_secs(2);

struct Receiver {
    network: TestNetwork,
    config: OutboundConfig,
    limits: OutboundLimits,
}

impl Receiver {
    /// `hooks.test`, which leads to this server.
    fn at(server: SocketAddr) -> Self {
        let network = TestNetwork::default();
        network.name("hooks.test", &[&[PUBLIC]]);
        network.route(PUBLIC, server);
        let config = OutboundConfig { allow_http: true, ..OutboundConfig::default() };
        Self { network, config, limits: OutboundLimits::default() }
    }

    fn client(&self) -> OutboundClient {
        OutboundClient::with_network(self.config.clone(), self.limits, self.network.clone())
    }

    fn get(&self, url: &str) -> OutboundRequest {
        OutboundRequest::new(Method::GET, self.client().target(url).expect("a target"))
    }

    async fn failure(&self, request: OutboundRequest) -> FailureKind {
        self.client().send(request).await.expect_err("a failure").kind()
    }
}

/// Sends these bytes on every connection after the request head has arrived, and then nothing more.
async fn answering(bytes: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = [0; 4096];
            drop(socket.read(&mut head).await);
            // A client that has read enough closes the connection.
            drop(socket.write_all(&bytes).await);
            open.push(socket);
        }
    });
    address
}

#[tokio::test]
async fn a_request_goes_out_as_it_was_made_with_headers_that_frame_it() {
    let stub = Stub::start().await;
    stub.respond_with("POST", "/hook", |_| {
        Response::builder().status(202).body(Bytes::from("taken")).expect("a response")
    });
    let receiver = Receiver::at(stub.address());
    let target = receiver.client().target("http://hooks.test:8080/hook?a=%20b").expect("a target");
    let request = OutboundRequest::new(Method::POST, target)
        .header(HeaderName::from_static("webhook-id"), HeaderValue::from_static("m-1"))
        .header(HOST, HeaderValue::from_static("evil.test"))
        .header(TRANSFER_ENCODING, HeaderValue::from_static("chunked"))
        .body("{ \"a\": 1 }\n");
    let answer = receiver.client().send(request).await.expect("an answer");
    assert_eq!((answer.status.as_u16(), &answer.body[..], answer.is_whole), (202, &b"taken"[..], true));
    let got = stub.requests().remove(0);
    assert_eq!((got.query.as_str(), &got.raw[..]), ("a=%20b", &b"{ \"a\": 1 }\n"[..]));
    let header = |name: &str| got.headers.get(name).map(|value| value.to_str().expect("text"));
    assert_eq!((header("host"), header("webhook-id")), (Some("hooks.test:8080"), Some("m-1")));
    assert_eq!((header("content-length"), header("transfer-encoding")), (Some("11"), None));
    assert!(header("user-agent").is_some_and(|agent| agent.starts_with("platform/")));

    let agent = HeaderValue::from_static("platform-notification/1");
    receiver
        .client()
        .send(receiver.get("http://hooks.test/").header(USER_AGENT, agent))
        .await
        .expect("an answer");
    let got = stub.requests().remove(1);
    let agents: Vec<_> = got.headers.get_all(USER_AGENT).iter().collect();
    assert_eq!(agents, ["platform-notification/1"]);
    assert_eq!(got.headers[HOST], "hooks.test", "without the scheme's default port");
}

#[tokio::test]
async fn only_a_certificate_of_a_trusted_authority_for_the_name_is_spoken_to() {
    let (authority, stranger) = (TestAuthority::new(), TestAuthority::new());
    let right = Stub::start_tls(authority.server(&["hooks.test", PUBLIC])).await;
    let mut receiver = Receiver::at(right.address());
    receiver.config.authorities = vec![authority.certificate()];
    for url in ["https://hooks.test/", "https://hooks.test./", &format!("https://{PUBLIC}:8443/")] {
        receiver.network.name("hooks.test.", &[&[PUBLIC]]);
        let answer = receiver.client().send(receiver.get(url)).await.expect(url);
        assert_eq!(answer.status.as_u16(), 404, "{url}");
    }
    let other_name = Stub::start_tls(authority.server(&["other.test"])).await;
    let other_authority = Stub::start_tls(stranger.server(&["hooks.test"])).await;
    for wrong in [&other_name, &other_authority] {
        receiver.network.route(PUBLIC, wrong.address());
        assert_eq!(receiver.failure(receiver.get("https://hooks.test/")).await, FailureKind::Certificate);
        assert_eq!(wrong.requests().len(), 0);
    }
    let plain = Stub::start().await;
    receiver.network.route(PUBLIC, plain.address());
    assert_eq!(receiver.failure(receiver.get("https://hooks.test/")).await, FailureKind::Tls);
    receiver.network.route(PUBLIC, right.address());
    receiver.config.authorities.clear();
    assert_eq!(receiver.failure(receiver.get("https://hooks.test/")).await, FailureKind::Certificate);
}

/// As session tickets do, records of one byte cost the client far more than their text.
#[tokio::test]
async fn what_comes_around_a_response_has_a_limit_below_tls() {
    const BODY: usize = 20_000;
    for (record, expected) in [(1_000, Ok(BODY)), (1, Err(FailureKind::TooLarge))] {
        let authority = TestAuthority::new();
        let acceptor = TlsAcceptor::from(authority.server(&["hooks.test"]));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let mut receiver = Receiver::at(listener.local_addr().expect("bound"));
        receiver.config.authorities = vec![authority.certificate()];
        tokio::spawn(async move {
            let (socket, _) = listener.accept().await.expect("a connection");
            let mut tls = acceptor.accept(socket).await.expect("a handshake");
            assert!(tls.read(&mut [0; 4096]).await.expect("a request") > 0);
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY}\r\n\r\n");
            tls.write_all(head.as_bytes()).await.expect("a head");
            // A client that has read enough closes the connection.
            for _ in 0..BODY / record {
                if tls.write_all(&b"x".repeat(record)).await.is_err() {
                    return;
                }
            }
            drop(tls.shutdown().await);
        });
        let answer = receiver.client().send(receiver.get("https://hooks.test/")).await;
        let length = answer.map(|answer| answer.body.len()).map_err(|error| error.kind());
        assert_eq!(length, expected, "records of {record}");
    }
}

#[tokio::test]
async fn a_plain_connection_can_be_secured_later() {
    let authority = TestAuthority::new();
    let stub = Stub::start_tls(authority.server(&["mail.test"])).await;
    let mut receiver = Receiver::at(stub.address());
    receiver.config.authorities = vec![authority.certificate()];
    receiver.network.name("mail.test", &[&[PUBLIC]]);
    let (client, host) = (receiver.client(), Host::parse("mail.test").expect("a host"));
    let stream = client.connect(&host, 465).await.expect("connected");
    assert!(client.secure(stream, &host).await.is_ok());
    let other = Host::parse("hooks.test").expect("a host");
    let stream = client.connect(&other, 465).await.expect("connected");
    let error = client.secure(stream, &other).await.expect_err("another name's certificate");
    assert_eq!(error.kind(), FailureKind::Certificate);
}

#[tokio::test]
async fn a_body_is_read_up_to_its_limit_and_says_whether_it_is_whole() {
    for chunked in [false, true] {
        for (length, is_whole) in [(0, true), (999, true), (1000, true), (1001, false), (1_000_000, false)] {
            let body = "x".repeat(length);
            let framed = if chunked && length > 0 {
                format!("transfer-encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n")
            } else {
                format!("content-length: {length}\r\n\r\n{body}")
            };
            let mut receiver = Receiver::at(answering(format!("HTTP/1.1 200 OK\r\n{framed}").into()).await);
            receiver.limits.answer_body = 1000;
            let answer = receiver.client().send(receiver.get("http://hooks.test/")).await.expect("an answer");
            assert_eq!(
                (answer.body.len(), answer.is_whole),
                (length.min(1000), is_whole),
                "{length} {chunked}"
            );
            let whole = answer.whole_body().map(Bytes::len).map_err(|error| error.kind());
            assert_eq!(whole, if is_whole { Ok(length) } else { Err(FailureKind::TooLarge) });
        }
    }
    let endless = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n".to_vec();
    let mut receiver = Receiver::at(answering(endless).await);
    receiver.limits.answer_body = 0;
    let answer =
        receiver.client().send(receiver.get("http://hooks.test/")).await.expect("the head is enough");
    assert_eq!((answer.status.as_u16(), answer.body.len(), answer.is_whole), (200, 0, false));
}

#[tokio::test]
async fn a_head_has_its_limits_in_bytes_and_headers() {
    let padded = |length: usize| {
        let (start, end) = ("HTTP/1.1 204 No Content\r\nx: ", "\r\n\r\n");
        format!("{start}{}{end}", "x".repeat(length - start.len() - end.len()))
    };
    let many = |count: usize| format!("HTTP/1.1 204 No Content\r\n{}\r\n", "x: y\r\n".repeat(count));
    for (head, fits) in [
        (padded(MAX_ANSWER_HEAD), true),
        (padded(MAX_ANSWER_HEAD + 1), false),
        (padded(MAX_ANSWER_HEAD * 100), false),
        (many(MAX_ANSWER_HEADERS), true),
        (many(MAX_ANSWER_HEADERS + 1), false),
    ] {
        let length = head.len();
        let receiver = Receiver::at(answering(head.into()).await);
        let answer = receiver.client().send(receiver.get("http://hooks.test/")).await;
        let answer = answer.map(|answer| answer.status.as_u16()).map_err(|error| error.kind());
        assert_eq!(answer, if fits { Ok(204) } else { Err(FailureKind::TooLarge) }, "{length} bytes");
    }
}

#[tokio::test]
async fn interim_heads_count_against_a_limit_of_their_own() {
    let interim = "HTTP/1.1 102 Processing\r\n\r\n";
    let last = "HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n";
    for (heads, fits) in [
        (3, true),
        // Half of the limit: what is read along with the last head counts as well.
        (MAX_ANSWER_HEADS / 2 / interim.len(), true),
        (MAX_ANSWER_HEADS / interim.len() + 1, false),
    ] {
        let bytes = format!("{}{last}{}", interim.repeat(heads), "x".repeat(200_000));
        let mut receiver = Receiver::at(answering(bytes.into()).await);
        receiver.limits.answer_body = 300_000;
        let answer = receiver.client().send(receiver.get("http://hooks.test/")).await;
        let answer = answer.map(|answer| answer.body.len()).map_err(|error| error.kind());
        assert_eq!(answer, if fits { Ok(200_000) } else { Err(FailureKind::TooLarge) }, "{heads} heads");
    }
}

#[tokio::test]
async fn a_receiver_that_only_informs_is_left_at_the_limit() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let receiver = Receiver::at(listener.local_addr().expect("bound"));
    let informing = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        assert!(socket.read(&mut [0; 4096]).await.expect("a request") > 0);
        let heads = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1_000);
        let mut sent = 0;
        while sent < 256 << 20 && socket.write_all(heads.as_bytes()).await.is_ok() {
            sent += heads.len();
        }
        sent
    });
    let request = receiver.get("http://hooks.test/").head_only();
    let error = receiver.client().send(request).await.expect_err("no response");
    assert_eq!(error.kind(), FailureKind::TooLarge, "{}", error.detail());
    // The rest is what the sockets hold.
    let sent = informing.await.expect("it ends");
    assert!(sent < 32 << 20, "{sent} bytes");
}

#[tokio::test]
async fn what_is_no_answer_is_told_apart() {
    for (bytes, kind) in [
        (&b"220 mail.test ESMTP\r\n"[..], FailureKind::Protocol),
        (b"HTTP/9.9 200 OK\r\n\r\n", FailureKind::Protocol),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", FailureKind::Protocol),
    ] {
        let receiver = Receiver::at(answering(bytes.to_vec()).await);
        let text = String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(receiver.failure(receiver.get("http://hooks.test/")).await, kind, "{text}");
    }
    let stub = Stub::start().await;
    stub.close("GET", "/");
    let receiver = Receiver::at(stub.address());
    assert_eq!(receiver.failure(receiver.get("http://hooks.test/")).await, FailureKind::Connect);

    let free = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let nobody = free.local_addr().expect("bound");
    drop(free);
    receiver.network.route(PUBLIC, nobody);
    assert_eq!(receiver.failure(receiver.get("http://hooks.test/")).await, FailureKind::Connect);
    assert_eq!(receiver.failure(receiver.get("http://unknown.test/")).await, FailureKind::Resolve);
    receiver.network.name("empty.test", &[&[]]);
    assert_eq!(receiver.failure(receiver.get("http://empty.test/")).await, FailureKind::Resolve);
}

#[tokio::test]
async fn whoever_does_not_answer_costs_no_more_than_the_limits() {
    let body = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_vec();
    let mut nothing = Receiver::at(answering(Vec::new()).await);
    let mut head = Receiver::at(answering(b"HTTP/1.1 200".to_vec()).await);
    let mut body = Receiver::at(answering(body).await);
    let mut tls = Receiver::at(answering(Vec::new()).await);
    let mut nobody = Receiver::at(([127, 0, 0, 1], 1).into());
    for receiver in [&mut nothing, &mut head, &mut body] {
        receiver.limits.total = SHORT;
    }
    for receiver in [&mut tls, &mut nobody] {
        receiver.limits.connect = SHORT;
    }
    nobody.network.unreachable(PUBLIC);
    let fail = async |receiver: &Receiver, url: &str| receiver.failure(receiver.get(url)).await;
    let failures = tokio::join!(
        fail(&nothing, "http://hooks.test/"),
        fail(&head, "http://hooks.test/"),
        fail(&body, "http://hooks.test/"),
        fail(&tls, "https://hooks.test/"),
        fail(&nobody, "https://hooks.test/"),
    );
    assert_eq!(<[FailureKind; 5]>::from(failures), [FailureKind::Timeout; 5]);
}

#[tokio::test]
async fn a_head_just_before_the_limit_is_enough_however_long_its_body_takes() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let mut receiver = Receiver::at(listener.local_addr().expect("bound"));
    receiver.limits.total = SHORT;
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            // The receiver takes this long to answer.
            tokio::time::sleep(SHORT.mul_f32(0.75)).await;
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n";
            socket.write_all(head).await.expect("sent");
            open.push(socket);
        }
    });
    let request = receiver.get("http://hooks.test/");
    let answer = receiver.client().send(request.clone().head_only()).await.expect("a head");
    assert_eq!(answer.status.as_u16(), 200);
    assert_eq!(receiver.failure(request).await, FailureKind::Timeout, "control: the body is wanted");
}

#[tokio::test]
async fn an_address_that_does_not_answer_leaves_time_for_the_next() {
    let stub = Stub::start().await;
    let mut receiver = Receiver::at(stub.address());
    receiver.limits.connect = SHORT * 2;
    receiver.network.name("hooks.test", &[&[PUBLIC_V6, PUBLIC, PUBLIC]]);
    receiver.network.unreachable(PUBLIC_V6);
    let answer =
        receiver.client().send(receiver.get("http://hooks.test/")).await.expect("through the second address");
    assert_eq!((answer.status.as_u16(), receiver.network.dialled().len()), (404, 2));
}

#[tokio::test]
async fn redirects_are_followed_where_they_are_asked_for_and_end() {
    let stub = Stub::start().await;
    let redirect = |status: u16, location: &'static str| {
        move |_: &testkit::Recorded| {
            Response::builder()
                .status(status)
                .header("location", location)
                .body(Bytes::new())
                .expect("a response")
        }
    };
    stub.respond_with("GET", "/here", redirect(302, "there?x=1#part"));
    stub.respond_with("GET", "/there", redirect(308, "//other.test/end"));
    stub.respond_with("POST", "/here", redirect(307, "/there"));
    stub.respond_with("GET", "/loop", redirect(301, "/loop"));
    stub.answer("GET", "/end", 200, serde_json::json!({}));
    let receiver = Receiver::at(stub.address());
    receiver.network.name("other.test", &[&[PUBLIC]]);
    let client = receiver.client();
    let request =
        || receiver.get("http://hooks.test/here").header(AUTHORIZATION, HeaderValue::from_static("secret"));

    assert_eq!(client.send(request()).await.expect("the redirect itself").status.as_u16(), 302);
    assert_eq!(client.send(request().follow_redirects()).await.expect("the end").status.as_u16(), 200);
    let seen: Vec<_> = stub
        .requests()
        .iter()
        .map(|got| (got.path.clone(), got.headers.contains_key(AUTHORIZATION)))
        .collect();
    let expected = [("/here", true), ("/here", true), ("/there", true), ("/end", false)];
    assert_eq!(
        seen,
        expected.map(|(path, secret)| (path.to_owned(), secret)),
        "headers do not leave their origin"
    );

    let posted =
        OutboundRequest::new(Method::POST, client.target("http://hooks.test/here").expect("a target"));
    assert_eq!(
        client.send(posted.follow_redirects()).await.expect("the redirect itself").status.as_u16(),
        307
    );
    let before = stub.requests().len();
    let looping = receiver.get("http://hooks.test/loop").follow_redirects();
    assert_eq!(receiver.failure(looping).await, FailureKind::Redirect);
    assert_eq!(stub.requests().len() - before, 1 + usize::from(OutboundRequest::MAX_REDIRECTS));
}

#[tokio::test]
async fn a_redirect_never_leaves_tls() {
    let authority = TestAuthority::new();
    let stub = Stub::start_tls(authority.server(&["hooks.test"])).await;
    let mut receiver = Receiver::at(stub.address());
    receiver.config.authorities = vec![authority.certificate()];
    for (location, kind) in
        [("http://hooks.test/end", Some(FailureKind::Redirect)), ("https://hooks.test/end", None)]
    {
        stub.respond_with("GET", "/", move |_| {
            Response::builder()
                .status(302)
                .header("location", location)
                .body(Bytes::new())
                .expect("a response")
        });
        let request = receiver.get("https://hooks.test/").follow_redirects();
        assert_eq!(receiver.client().send(request).await.err().map(|error| error.kind()), kind, "{location}");
    }
}
