//! Which targets a user may name. That no blocked address is connected to is verified at the socket: a trap listens on
//! every address of this machine, and the connector records the dialled addresses.

use std::collections::BTreeSet;

use http::{Method, Response};
use service::outbound::{
    FailureKind, Host, OutboundAnswer, OutboundClient, OutboundConfig, OutboundError, OutboundLimits,
    OutboundRequest,
};
use testkit::Stub;

use super::network::{PUBLIC, PUBLIC_V6, TestNetwork, Trap};

/// Hosts that are a blocked address, in every notation that a browser accepts, and some that a resolver might accept.
const BLOCKED_HOSTS: &[&str] = &[
    // Loopback and its notations.
    "127.0.0.1",
    "127.0.0.2",
    "127.255.255.254",
    "2130706433",
    "017700000001",
    "0x7f000001",
    "0X7F000001",
    "0x7f.1",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "0177.0.0.0x1",
    "127.1",
    "127.0.1",
    "127.65535",
    "127.0.0.1.",
    "%31%32%37.0.0.1",
    "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
    "127\u{3002}0\u{ff0e}0\u{ff61}1",
    "\u{2460}\u{2461}\u{2466}.0.0.1",
    // "This network", which reaches this machine.
    "0.0.0.0",
    "0",
    "0x0",
    "0.1.2.3",
    // Private, shared and link-local ranges, and their boundaries.
    "10.0.0.0",
    "10.0.0.1",
    "10.255.255.255",
    "167772161",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.255.255",
    "0xc0a80001",
    "100.64.0.1",
    "100.127.255.255",
    "169.254.0.1",
    "169.254.169.254",
    "2852039166",
    "0xa9fea9fe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "169.254.170.2",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    // Special-purpose ranges.
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "4294967295",
    // IPv6, and IPv4 embedded in it.
    "[::]",
    "[0:0:0:0:0:0:0:0]",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[0000:0000:0000:0000:0000:0000:0000:0001]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[::8.8.8.8]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::FFFF:7F00:1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[::ffff:0.0.0.0]",
    "[::ffff:10.0.0.1]",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b::10.0.0.1]",
    "[64:ff9b::169.254.169.254]",
    "[64:ff9b:1::7f00:1]",
    "[64:ff9b:1::8.8.8.8]",
    "[64:ff9b:2::1]",
    "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]",
    "[2002:808:808::1]",
    "[2001::7f00:1]",
    "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
    "[2001:2::1]",
    "[2001:10::1]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[100::1]",
    "[fc00::1]",
    "[fd00::1]",
    "[fdff:ffff::1]",
    "[fd00:ec2::254]",
    "[fd20:ce::254]",
    "[fe80::1]",
    "[febf::1]",
    "[fec0::1]",
    "[feff::1]",
    "[ff02::1]",
    "[ff0e::1]",
    "[4000::1]",
    "[8000::1]",
    "[1::1]",
];

/// Names with only blocked answers, and names with one blocked answer.
const BLOCKED_NAMES: &[(&str, &[&str])] = &[
    ("loopback.test", &["127.0.0.1"]),
    ("loopback6.test", &["::1"]),
    ("mapped.test", &["::ffff:127.0.0.1"]),
    ("unspecified.test", &["0.0.0.0"]),
    ("private.test", &["10.1.2.3"]),
    ("metadata.test", &["169.254.169.254"]),
    ("nat64.test", &["64:ff9b::7f00:1"]),
    ("unique-local.test", &["fd12:3456::1"]),
    ("public-first.test", &[PUBLIC, "127.0.0.1"]),
    ("public-last.test", &["127.0.0.1", PUBLIC]),
    ("mixed-families.test", &[PUBLIC, PUBLIC_V6, "::1"]),
    ("beyond-those-dialled.test", &[PUBLIC, "93.184.216.35", "93.184.216.36", "93.184.216.37", "127.0.0.1"]),
];

/// URLs that parsers could read differently.
const REFUSED_URLS: &[&str] = &[
    "",
    "127.0.0.1",
    "//example.com/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_INFO",
    "unix:///run/docker.sock",
    "data:text/plain,x",
    "https:example.com",
    "https:/example.com",
    "https:///example.com",
    "https://",
    "https://?x",
    "https://user@example.com/",
    "https://user:password@example.com/",
    "https://@example.com/",
    "https://example.com@127.0.0.1/",
    "https://127.0.0.1\\@example.com/",
    "https://example.com\\.evil.test/",
    "https://example.com#@127.0.0.1/",
    "https://example.com/#fragment",
    " https://example.com/",
    "https://example.com/ ",
    "https://exam ple.com/",
    "https://exa\tmple.com/",
    "https://example.com/\r\nhost: evil.test",
    "https://example.com/\u{0}",
    "https://example.com/\u{2028}",
    "https://example.com:0/",
    "https://example.com:22/",
    "https://example.com:25/",
    "https://example.com:1023/",
    "https://example.com:65536/",
    "https://example.com:-1/",
    "https://example.com:4 43/",
    "https://example..com/",
    "https://.example.com/",
    "https://./",
    "https://%00/",
    "https://exa%23mple.com/",
    "https://exa%2fmple.com/",
    "https://256.256.256.256/",
    "https://1.2.3.4.5/",
    "https://4294967296/",
    "https://0x100000000/",
    "https://09.0.0.1/",
    "https://[::1/",
    "https://::1/",
    "https://[fe80::1%25eth0]/",
    "https://[::ffff:127.0.0.1.]/",
    "https://[1::2::3]/",
];

fn open() -> OutboundConfig {
    OutboundConfig { allow_http: true, ..OutboundConfig::default() }
}

fn allowing(networks: &[&str]) -> OutboundConfig {
    let allowed = networks.iter().map(|text| text.parse().expect("a network")).collect();
    OutboundConfig { allowed, ..open() }
}

async fn get(client: &OutboundClient, url: &str) -> Result<OutboundAnswer, OutboundError> {
    client.send(OutboundRequest::new(Method::GET, client.target(url)?)).await
}

#[tokio::test]
async fn no_blocked_address_is_connected_to_in_any_notation() {
    let (trap, network) = (Trap::set(), TestNetwork::default());
    let client = network.client(open());
    for host in BLOCKED_HOSTS {
        for url in [format!("http://{host}:{}/", trap.port), format!("https://{host}:{}/", trap.port)] {
            let error = get(&client, &url).await.expect_err(&url);
            assert_eq!(error.kind(), FailureKind::RefusedAddress, "{url}: {}", error.detail());
            assert_eq!(error.to_string(), "the target's address is not allowed", "{url}");
        }
    }
    assert_eq!((network.dialled(), network.resolved(), trap.accepted()), (vec![], vec![], 0));
    assert!(BLOCKED_HOSTS.len() >= 80);
}

#[tokio::test]
async fn the_same_notations_get_through_where_the_operator_allows_them() {
    let (trap, network) = (Trap::set(), TestNetwork::default());
    let client = network.client(allowing(&["127.0.0.0/8", "::1/128"]));
    let mut reached = 0;
    for host in BLOCKED_HOSTS {
        let Ok(answer) = get(&client, &format!("http://{host}:{}/", trap.port)).await else { continue };
        assert_eq!(&answer.body[..], b"trap", "{host}");
        reached += 1;
    }
    let loopback = |address: &std::net::SocketAddr| address.ip().is_loopback();
    assert!(network.dialled().iter().all(loopback), "{:?}", network.dialled());
    // 19 notations of IPv4, 3 of IPv6 and 4 mapped ones: the trap would have noticed a connection to any of them.
    assert_eq!((reached, trap.accepted()), (26, 26));
}

#[tokio::test]
async fn a_name_with_one_blocked_address_is_not_connected_to_at_all() {
    let (trap, network, stub) = (Trap::set(), TestNetwork::default(), Stub::start().await);
    network.route(PUBLIC, stub.address());
    let client = network.client(open());
    for (name, answer) in BLOCKED_NAMES {
        network.name(name, &[answer]);
        let error = get(&client, &format!("http://{name}:{}/", trap.port)).await.expect_err(name);
        assert_eq!(error.kind(), FailureKind::RefusedAddress, "{name}: {}", error.detail());
    }
    assert_eq!((network.dialled(), trap.accepted(), stub.requests().len()), (vec![], 0, 0));

    network.name("public.test", &[&[PUBLIC]]);
    let answer =
        get(&client, &format!("http://public.test:{}/", trap.port)).await.expect("control: it is public");
    assert_eq!((answer.status.as_u16(), stub.requests().len()), (404, 1));
}

#[tokio::test]
async fn a_resolver_that_rebinds_gains_nothing() {
    let (trap, network, stub) = (Trap::set(), TestNetwork::default(), Stub::start().await);
    stub.answer("GET", "/", 200, serde_json::json!({}));
    network.route(PUBLIC, stub.address());
    let client = network.client(open());
    for (name, target) in
        [("rebind.test", "127.0.0.1"), ("rebind6.test", "::1"), ("rebind-any.test", "0.0.0.0")]
    {
        network.name(name, &[&[PUBLIC], &[target]]);
        let url = format!("http://{name}:{}/", trap.port);
        let before = network.resolved().len();
        assert_eq!(get(&client, &url).await.expect("the public answer").status.as_u16(), 200, "{name}");
        assert_eq!(
            network.resolved().len(),
            before + 1,
            "the checked address is dialled; nothing is resolved again"
        );
        let error = get(&client, &url).await.expect_err("the next connection is checked anew");
        assert_eq!(error.kind(), FailureKind::RefusedAddress, "{name}");
    }
    let public = std::net::SocketAddr::new(PUBLIC.parse().expect("an address"), trap.port);
    assert_eq!((network.dialled(), trap.accepted()), (vec![public; 3], 0));
}

#[tokio::test]
async fn a_redirect_is_checked_as_the_first_target_was() {
    let (trap, network, stub) = (Trap::set(), TestNetwork::default(), Stub::start().await);
    network.route(PUBLIC, stub.address());
    network.name("public.test", &[&[PUBLIC]]);
    network.name("inside.test", &[&["10.0.0.1"]]);
    let client = network.client(open());
    let port = trap.port;
    let to_hosts =
        BLOCKED_HOSTS.iter().filter(|host| host.is_ascii()).map(|host| format!("http://{host}:{port}/"));
    let to_others =
        [format!("//127.0.0.1:{port}/"), format!("//[::1]:{port}/x"), format!("http://inside.test:{port}/")];
    for location in to_hosts.chain(to_others) {
        let header = location.clone();
        stub.respond_with("GET", "/", move |_| redirect(302, &header));
        let request =
            OutboundRequest::new(Method::GET, client.target("http://public.test/").expect("public"));
        let error = client.send(request.follow_redirects()).await.expect_err(&location);
        assert_eq!(error.kind(), FailureKind::RefusedAddress, "{location}: {}", error.detail());
    }
    for location in
        ["file:///etc/passwd", "http://user@public.test/", "http://public.test:25/", "http:\\\\x", "http://"]
    {
        stub.respond_with("GET", "/", move |_| redirect(302, location));
        let request =
            OutboundRequest::new(Method::GET, client.target("http://public.test/").expect("public"));
        let error = client.send(request.follow_redirects()).await.expect_err(location);
        assert_eq!(error.kind(), FailureKind::RefusedUrl, "{location}: {}", error.detail());
    }
    let public: std::net::IpAddr = PUBLIC.parse().expect("an address");
    assert!(network.dialled().iter().all(|address| address.ip() == public), "{:?}", network.dialled());
    assert_eq!(trap.accepted(), 0);
    assert!(stub.requests().len() > 90, "control: every redirect was answered");
}

#[tokio::test]
async fn a_public_address_of_this_machine_is_not_connected_to() {
    let (trap, network) = (Trap::set(), TestNetwork::default());
    let here = std::net::SocketAddr::from(([127, 0, 0, 1], trap.port));
    for (address, name) in [(PUBLIC, "here.test"), (PUBLIC_V6, "here6.test")] {
        network.route(address, here);
        network.own(address);
        network.name(name, &[&[address]]);
    }
    network.name("half.test", &[&["93.184.216.35", PUBLIC]]);
    let client = network.client(open());
    for host in
        [PUBLIC, "[2606:2800:220:1::34]", "[::ffff:93.184.216.34]", "here.test", "here6.test", "half.test"]
    {
        let error = get(&client, &format!("http://{host}:{}/", trap.port)).await.expect_err(host);
        assert_eq!(error.kind(), FailureKind::RefusedAddress, "{host}: {}", error.detail());
    }
    assert_eq!((network.dialled(), trap.accepted()), (vec![], 0));
    let allowed = network.client(allowing(&["93.184.216.0/24"]));
    let answer = get(&allowed, &format!("http://{PUBLIC}:{}/", trap.port)).await.expect("allowed");
    assert_eq!((&answer.body[..], trap.accepted()), (&b"trap"[..], 1), "control: the operator allows it");
}

#[tokio::test]
async fn the_platforms_own_ports_and_metadata_stay_closed_inside_allowed_networks() {
    let (trap, own, network) = (Trap::set(), Trap::set(), TestNetwork::default());
    let everything = allowing(&["0.0.0.0/0", "::/0"]);
    let client = network.client(OutboundConfig { own_ports: BTreeSet::from([own.port]), ..everything });
    for host in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "2130706433"] {
        let error = get(&client, &format!("http://{host}:{}/", own.port)).await.expect_err(host);
        assert_eq!(error.kind(), FailureKind::RefusedAddress, "{host}");
        assert_eq!(
            get(&client, &format!("http://{host}:{}/", trap.port)).await.expect(host).status.as_u16(),
            200
        );
    }
    for host in [
        "0.0.0.0",
        "[::]",
        "169.254.169.254",
        "[::ffff:a9fe:a9fe]",
        "[64:ff9b::a9fe:a9fe]",
        "169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "[fd00:ec2::254]",
        "[fd20:ce::254]",
        "224.0.0.1",
        "[ff02::1]",
        "255.255.255.255",
    ] {
        let error = get(&client, &format!("http://{host}:{}/", trap.port)).await.expect_err(host);
        assert_eq!(error.kind(), FailureKind::RefusedAddress, "{host}");
    }
    assert_eq!((own.accepted(), trap.accepted(), network.dialled().len()), (0, 4, 4));
}

#[tokio::test]
async fn the_machines_own_resolver_leads_to_nothing_blocked_either() {
    let trap = Trap::set();
    let url = format!("http://localhost:{}/", trap.port);
    let client = OutboundClient::new(open(), OutboundLimits::default());
    let error = get(&client, &url).await.expect_err("loopback");
    assert_eq!((error.kind(), trap.accepted()), (FailureKind::RefusedAddress, 0), "{}", error.detail());
    let allowed = OutboundClient::new(allowing(&["127.0.0.0/8", "::1/128"]), OutboundLimits::default());
    assert_eq!(&get(&allowed, &url).await.expect("control: allowed").body[..], b"trap");
}

#[tokio::test]
async fn other_protocols_are_checked_in_the_same_way() {
    let (trap, network) = (Trap::set(), TestNetwork::default());
    network.name("mail.test", &[&["127.0.0.1"]]);
    let client = network.client(OutboundConfig::default());
    for host in ["mail.test", "127.0.0.1", "2130706433", "::1", "[::1]", "::ffff:127.0.0.1"] {
        let host = Host::parse(host).expect("a host");
        let error = client.connect(&host, trap.port).await.expect_err("blocked");
        assert_eq!(error.kind(), FailureKind::RefusedAddress, "{host}");
    }
    assert_eq!((network.dialled(), trap.accepted()), (vec![], 0));
    let allowed = network.client(allowing(&["127.0.0.0/8"]));
    let stream =
        allowed.connect(&Host::parse("mail.test").expect("a host"), trap.port).await.expect("allowed");
    assert_eq!(stream.peer_addr().expect("connected").to_string(), format!("127.0.0.1:{}", trap.port));
}

#[test]
fn a_url_that_two_readers_take_differently_is_refused() {
    let client = TestNetwork::default().client(open());
    for url in REFUSED_URLS {
        let error = client.target(url).expect_err(url);
        assert_eq!(error.kind(), FailureKind::RefusedUrl, "{url}: {}", error.detail());
    }
    for url in [
        "https://example.com",
        "HTTPS://EXAMPLE.COM/",
        "https://example.com./hook?token=%20x",
        "https://example.com:80/",
        "https://example.com:1024/",
        "https://example.com:65535/",
        "https://b\u{fc}cher.example/",
        "https://8.8.8.8/",
        "https://134744072/",
        "https://[2606:4700::1111]/",
        "https://[64:ff9b::8.8.8.8]/",
        "http://example.com/",
    ] {
        assert!(
            client.target(url).is_ok(),
            "control: {url}: {:?}",
            client.target(url).map_err(|e| e.detail().to_owned())
        );
    }
}

#[test]
fn http_is_asked_for_and_a_url_has_2048_bytes_at_most() {
    let closed = TestNetwork::default().client(OutboundConfig::default());
    assert_eq!(closed.target("http://example.com/").expect_err("plain").kind(), FailureKind::RefusedUrl);
    assert!(closed.target("https://example.com/").is_ok());
    let url = |length: usize| format!("https://example.com/{}", "x".repeat(length - 20));
    assert!(closed.target(&url(2048)).is_ok());
    assert_eq!(closed.target(&url(2049)).expect_err("too long").kind(), FailureKind::RefusedUrl);
    let name = |length: usize| format!("https://{}test/", "a.".repeat((length - 4) / 2));
    assert!(closed.target(&name(252)).is_ok());
    assert!(closed.target(&name(254)).is_err());
}

#[test]
fn a_target_and_an_error_show_no_path_and_no_address() {
    let client = TestNetwork::default().client(open());
    let target = client.target("https://hooks.example.com/T0/secret?key=secret").expect("a target");
    assert_eq!(format!("{target:?}"), "Target(https://hooks.example.com:443)");
    let error = client.target("https://10.1.2.3/").expect_err("private");
    assert!(error.detail().contains("10.1.2.3") && error.detail().contains("private"), "the log knows");
    assert!(!format!("{error} {error:?}").contains("10.1"), "users do not: {error} {error:?}");
    let words: BTreeSet<&str> = FailureKind::ALL.iter().map(|kind| kind.word()).collect();
    assert_eq!(words.len(), FailureKind::ALL.len());
}

fn redirect(status: u16, location: &str) -> Response<bytes::Bytes> {
    let response = Response::builder().status(status).header("location", location);
    response.body(bytes::Bytes::new()).expect("a response")
}
