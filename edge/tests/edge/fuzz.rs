//! Mutated input for the parsers of clients' bytes (tokens, paths, heads) and of an upstream's answers. Each runs for a
//! second in a test run; `FUZZ_SECONDS=600 cargo test -p edge --test edge -- fuzz --test-threads 1` runs longer, and
//! `FUZZ_SEED` sets another start. A panic or a broken property prints the input that caused it.

use std::time::{Duration, Instant};

use bearer::{BearerConfig, VerifiedTokens, Verifier};
use contract::{Clock, CorrelationId, Settings};
use edge::bench;
use http::header::{HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::backend::{Answer, Backend};
use crate::tokens::{ISSUER, Signer};

/// The maximum number of changes to one seed.
const MOST_CHANGES: usize = 6;
/// The maximum number of words added at once.
const MOST_WORDS: usize = 12;
/// Inputs between two clock reads.
const BATCH: usize = 64;

/// Xorshift: reproducible, and fast enough not to dominate.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let limit = u64::try_from(limit.max(1)).expect("a small number");
        usize::try_from(self.0 % limit).expect("a small number")
    }

    fn pick<'a>(&mut self, from: &[&'a [u8]]) -> &'a [u8] {
        from[self.below(from.len())]
    }

    /// A seed with a few changes.
    fn input(&mut self, seeds: &[&[u8]], words: &[&[u8]]) -> Vec<u8> {
        let mut bytes = self.pick(seeds).to_vec();
        for _ in 0..=self.below(MOST_CHANGES) {
            let at = self.below(bytes.len() + 1);
            match self.below(7) {
                6 => (0..=self.below(MOST_WORDS)).for_each(|_| bytes.extend_from_slice(self.pick(words))),
                0 => drop(bytes.splice(at..at, self.pick(words).iter().copied())),
                1 => bytes.insert(at, u8::try_from(self.below(256)).expect("a byte")),
                2 => bytes.truncate(at.max(1)),
                3 => {
                    let other = self.pick(seeds);
                    let from = self.below(other.len());
                    bytes.extend_from_slice(&other[from..]);
                }
                4 => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << self.below(8);
                    }
                }
                _ => {
                    let end = (at + self.below(16)).min(bytes.len());
                    bytes.drain(at.min(end)..end);
                }
            }
        }
        bytes
    }
}

#[expect(clippy::disallowed_methods, reason = "a longer run is asked for by the environment")]
/// Runs `check` on mutated inputs until the time is over, and returns their number.
fn fuzz(name: &str, seeds: &[&[u8]], words: &[&[u8]], mut check: impl FnMut(&[u8])) {
    let number = |variable| std::env::var(variable).ok().and_then(|text| text.parse::<u64>().ok());
    let until = Instant::now() + Duration::from_secs(number("FUZZ_SECONDS").unwrap_or(1));
    let mut random = Random(number("FUZZ_SEED").unwrap_or(0x9e37_79b9_7f4a_7c15).max(1));
    let mut count = 0_u64;
    for seed in seeds {
        check(seed);
    }
    while Instant::now() < until {
        for _ in 0..BATCH {
            let input = random.input(seeds, words);
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&input)));
            assert!(outcome.is_ok(), "{name}: {}", input.escape_ascii());
            count += 1;
        }
    }
    assert!(count > 0, "{name} ran");
    let mut out = std::io::stdout();
    std::io::Write::write_fmt(&mut out, format_args!("{name}: {count} inputs, no panic\n"))
        .expect("a terminal");
}

/// A server's naive reading of a path.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent habits, every combination of which there is")]
struct Reader {
    /// Decodes until nothing changes, instead of once.
    to_the_end: bool,
    strips_before: bool,
    strips_after: bool,
    merges: bool,
    backslash_is_slash: bool,
    trims: bool,
}

impl Reader {
    fn all() -> impl Iterator<Item = Self> {
        (0..64).map(|bits| {
            let bit = |place: u32| bits >> place & 1 == 1;
            Self {
                to_the_end: bit(0),
                strips_before: bit(1),
                strips_after: bit(2),
                merges: bit(3),
                backslash_is_slash: bit(4),
                trims: bit(5),
            }
        })
    }

    /// The segments that it finds.
    fn segments(self, path: &[u8]) -> Vec<Vec<u8>> {
        let mut text = if self.strips_before { stripped(path) } else { path.to_vec() };
        text = decoded(&text);
        if self.to_the_end {
            let mut further = decoded(&text);
            while further != text {
                text = further;
                further = decoded(&text);
            }
        }
        if self.backslash_is_slash {
            text.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
        }
        if self.strips_after {
            text = stripped(&text);
        }
        let trimmed = |segment: &[u8]| if self.trims { segment.trim_ascii() } else { segment }.to_vec();
        let mut segments: Vec<Vec<u8>> = text.split(|byte| *byte == b'/').skip(1).map(trimmed).collect();
        if self.merges {
            segments.retain(|segment| !segment.is_empty());
        }
        segments
    }
}

fn stripped(path: &[u8]) -> Vec<u8> {
    let names = path.split(|byte| *byte == b'/');
    let names = names.map(|segment| segment.split(|byte| *byte == b';').next().unwrap_or_default());
    names.collect::<Vec<_>>().join(&b'/')
}

/// Invalid escapes stay, as in most decoders.
fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (mut decoded, mut rest) = (Vec::new(), text);
    while let [first, after @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, after @ ..] => digit(*high).zip(digit(*low)).map(|digits| (digits, after)),
            _ => None,
        };
        let (byte, after) = escaped.map_or((*first, after), |((high, low), after)| {
            (u8::try_from(high * 16 + low).expect("a byte"), after)
        });
        decoded.push(byte);
        rest = after;
    }
    decoded
}

/// The property of a path that passes, for every reader.
fn check_passed(label: &str, path: &[u8], reader: Reader) {
    let segments = reader.segments(path);
    let written: Vec<&[u8]> = path.split(|byte| *byte == b'/').skip(1).collect();
    let segment = |place: usize| segments.get(place).map(Vec::as_slice);
    let is = |place: usize, name: &str| {
        segment(place).is_some_and(|segment| segment.eq_ignore_ascii_case(name.as_bytes()))
    };
    let dots = |segment: &Vec<u8>| matches!(segment.as_slice(), b"." | b"..");
    assert!(!segments.iter().any(dots), "{label}: a dot segment to {reader:?}");
    assert!(!is(0, "internal"), "{label}: an internal path to {reader:?}");
    assert_eq!(segment(0), written.first().copied(), "{label}: another beginning to {reader:?}");
    if label == "/api/{moduleKey}/{path}" {
        assert_eq!(segment(1), written.get(1).copied(), "{label}: another module to {reader:?}");
    }
    if ["/auth/{path}", "/realms/{path}", "/resources/{path}"].contains(&label) {
        let own = usize::from(is(0, "auth"));
        let reserved = ["admin", "metrics", "health", "ready", "q"];
        let is_master = is(own, "realms") && is(own + 1, "master");
        assert!(!is_master && !reserved.iter().any(|name| is(own, name)), "{label}: reserved to {reader:?}");
    }
}

const PATHS: &[&[u8]] = &[
    b"/api/timesheet/v1/companies/7/projects?a=1",
    b"/api/timesheet/v1/",
    b"/api/timesheet/v1/a%20b%2Fc;d=e//.f/100%25",
    b"/api/platform/capabilities/..a;b",
    b"/realms/platform/a%20b",
    b"/api/org/companies/01890a5d-ac96-774b-bcce-b302099a8057/members",
    b"/api/platform/admin/platform-roles/platform-superadmin/f%3A1",
    b"/api/platform/capabilities/",
    b"/auth/realms/platform/protocol/openid-connect/token",
    b"/auth/",
    b"/realms/platform/../../admin",
    b"/realms/platform/x/",
    b"/resources/",
    b"/api/timesheet/v1/../../../internal/authz/grants",
    b"/api/timesheet/v1/x/..%2f..%2f..%2f..%2fmetrics",
    b"/api/timesheet/v1/..;/..;a=b/%252e%252e/metrics",
    b"/auth/%2561dmin;x=1//realms/master",
    b"/healthz",
];
const PATH_WORDS: &[&[u8]] = &[
    b"/",
    b"//",
    b"/./",
    b"/../",
    b".",
    b"..",
    b"...",
    b"%2e",
    b"%2E%2e",
    b"%2f",
    b"%5c",
    b"\\",
    b"%00",
    b"%25",
    b"%252e",
    b"%252f",
    b"25",
    b"2e",
    b"2f",
    b"5c",
    b"3b",
    b";",
    b";a=b",
    b"%3b",
    b"%20",
    b"%09",
    b"?",
    b"#",
    b"%3f",
    b"%",
    b"%zz",
    b"%u002e",
    b"%c0%ae",
    b"%ef%bc%8e",
    b"%ef%bc%8f",
    b"x",
    b"admin",
    b"ready",
    b"realms/master",
    b"internal",
    b"api/",
    b"auth/",
    b"docs",
    b"health",
    b"\xc3\xbc",
    b"*",
    b" ",
];

#[test]
fn paths() {
    let routes = bench::Routes::new();
    let (mut passed, mut odd) = (0_u64, 0_u64);
    fuzz("paths", PATHS, PATH_WORDS, |input| {
        let Ok(target) = PathAndQuery::try_from(input) else { return };
        let path = target.path();
        let label = [Method::GET, Method::POST].iter().find_map(|method| routes.resolve(method, path));
        let Some(label) = label else { return };
        passed += 1;
        odd += u64::from(path.contains(['%', ';', '\\', '.']) || path.contains("//"));
        Reader::all().for_each(|reader| check_passed(label, path.as_bytes(), reader));
    });
    // The seeds alone ensure it; otherwise the property might hold because nothing passes.
    assert!(passed > 5 && odd > 2, "{passed} passed, {odd} of them odd");
}

const ANSWERS: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n1;a=b\r\n,\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\ngrpc-status: 0\r\nx: 1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nuntil the end",
    b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\nafter",
    b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nframes",
    b"HTTP/1.0 200 OK\r\n\r\nold",
];
const ANSWER_WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\r",
    b": ",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"content-length: 5\r\n",
    b"content-length: 18446744073709551616\r\n",
    b"content-length: 999999999999999999\r\n",
    b"transfer-encoding: chunked\r\n",
    b"transfer-encoding: gzip, chunked\r\n",
    b"connection: close, x\r\n",
    b"0\r\n\r\n",
    b"1\r\nx\r\n",
    b"ffffffffffff\r\n",
    b"fffffffffffff\r\n",
    b"-1\r\n",
    b"+1\r\n",
    b"5;",
    b"a",
    b"\x00",
    b"\xff",
    b" ",
    b"\t",
];

#[test]
fn answers() {
    let (mut whole, mut seed) = (0_u64, 1_u64);
    fuzz("answers", ANSWERS, ANSWER_WORDS, |input| {
        seed += 1;
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1));
        for method in [Method::GET, Method::HEAD] {
            let at_once = bench::read_answer(&method, [input]);
            let by_bytes = bench::read_answer(&method, input.chunks(1));
            assert_eq!(at_once, by_bytes, "byte by byte");
            assert_eq!(at_once, bench::read_answer(&method, cut(input, &mut random)), "cut anywhere");
            let Some(answer) = at_once else { continue };
            whole += u64::from(answer.is_whole);
            check_answer(&method, input, &answer);
        }
    });
    // The seeds alone ensure it.
    assert!(whole > 10, "{whole} came to their end");
}

/// The same bytes in pieces, some of them empty.
fn cut<'a>(mut input: &'a [u8], random: &mut Random) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    while !input.is_empty() {
        let (piece, rest) = input.split_at(random.below(input.len() + 1));
        pieces.push(piece);
        input = rest;
    }
    pieces
}

/// The properties of an answer that could be parsed.
fn check_answer(method: &Method, input: &[u8], answer: &bench::Answer) {
    assert!(input.ends_with(&answer.left), "what is left is what came last");
    assert!(answer.body.len() <= input.len(), "a body of bytes that came");
    let length = u64::try_from(answer.body.len()).expect("a small number");
    assert!(answer.declared.is_none_or(|declared| length <= declared), "no longer than declared");
    let bare = |status: http::StatusCode| status.is_informational() || matches!(status.as_u16(), 204 | 304);
    let is_bare = *method == Method::HEAD || answer.status.is_some_and(bare);
    assert!(!is_bare || answer.body.is_empty(), "no body where there is none");
    if answer.is_whole {
        assert!(
            is_bare || answer.declared.is_none_or(|declared| declared == length),
            "all of what was declared"
        );
        let (own, _after) = input.split_at(input.len() - answer.left.len());
        let alone = bench::Answer { left: Vec::new(), ..answer.clone() };
        assert_eq!(bench::read_answer(method, [own]), Some(alone), "nothing past its end was needed");
    }
}

#[test]
fn heads() {
    let seeds: Vec<&[u8]> = vec![
        b"host: localhost\nauthorization: Bearer a.b.c\naccept: */*\ncookie: a=b",
        b"connection: keep-alive, x-secret\nx-secret: 1\ntransfer-encoding: chunked\ncontent-length: 5",
        b"x-forwarded-for: 203.0.113.9\nx_forwarded_for: 1\nforwarded: for=1\nx-real-ip: 1\nx-forwarded-host: evil",
        b"te: trailers, deflate\nupgrade: websocket\nconnection: upgrade\nproxy-connection: close",
    ];
    let words: Vec<&[u8]> = vec![
        b"\n",
        b": ",
        b", ",
        b"connection: ",
        b"x-forwarded-",
        b"x_forwarded_",
        b"x-user-id: root",
        b"host: other",
        b"\xff",
        b"x-correlation-id: 1",
        b"te: ",
        b"trailers",
        b"keep-alive",
        b"\"",
        b"=",
        b";",
        b"authorization",
    ];
    let correlation = CorrelationId::accept(Some(b"fuzz"));
    fuzz("heads", &seeds, &words, |input| {
        let mut headers = HeaderMap::new();
        for line in input.split(|byte| *byte == b'\n') {
            let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
            let (name, value) = line.split_at(colon);
            let value = value.strip_prefix(b":").unwrap_or_default().trim_ascii();
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
                headers.append(name, value);
            }
        }
        let client = "198.51.100.7:4711".parse().expect("an address");
        let Some(rewritten) = bench::rewrite(headers, "edge.example", &correlation, client) else { return };
        for (name, value) in [
            ("host", "edge.example"),
            ("x-correlation-id", "fuzz"),
            ("x-forwarded-for", "198.51.100.7"),
            ("x-forwarded-proto", "https"),
        ] {
            let values: Vec<_> = rewritten.get_all(name).iter().collect();
            assert_eq!(values, [value], "{name}");
        }
        for gone in [
            "connection",
            "transfer-encoding",
            "content-length",
            "keep-alive",
            "x-real-ip",
            "x_forwarded_for",
        ] {
            assert!(!rewritten.contains_key(gone), "{gone}");
        }
        assert!(rewritten.get("te").is_none_or(|value| value == "trailers"));
    });
}

#[test]
fn tokens() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let signer = Signer::new();
    let (known, _backend) = runtime.block_on(known(&signer));
    let good =
        [signer.token("alice", &json!({})), signer.token("bob", &json!({"aud": "platform-api", "nbf": 1}))];
    let crafted: [String; 4] = [
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb290In0.".to_owned(),
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImsxIn0.e30.AA".to_owned(),
        "..".to_owned(),
        format!("{}.", good[0]),
    ];
    let seeds: Vec<&[u8]> = good.iter().chain(&crafted).map(String::as_bytes).collect();
    let words: Vec<&[u8]> = vec![
        b".",
        b"..",
        b"=",
        b"-",
        b"_",
        b"eyJhbGciOiJub25lIn0",
        b"eyJhbGciOiJIUzI1NiJ9",
        b"e30",
        b"bnVsbA",
        b"W10",
        b"AAAA",
        b"eyJjcml0IjpbXX0",
        b"\xff",
        b"%",
        b" ",
        b"eyJleHAiOjk5OTk5OTk5OTk5OTk5OTk5OTk5fQ",
    ];
    fuzz("tokens", &seeds, &words, |input| {
        let Ok(token) = std::str::from_utf8(input) else { return };
        let verified = runtime.block_on(known.verify(token));
        assert!(verified.is_err() || good.iter().any(|good| good == token), "an unsigned token was accepted");
    });
}

async fn known(signer: &Signer) -> (VerifiedTokens, Backend) {
    let backend = Backend::start().await;
    backend.on_path("/certs", Answer::Json(200, signer.jwks()));
    let settings = Settings::default()
        .with("IDP_JWKS_URL", format!("http://{}/certs", backend.address))
        .with("IDP_ISSUER_URL", ISSUER);
    let mut reader = settings.reader();
    let config = BearerConfig::read(&mut reader);
    let config = reader.finish(config).expect("good settings");
    let verifier = Verifier::start(config, Clock::system(), CancellationToken::new());
    while !verifier.keys_loaded() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (VerifiedTokens::new(verifier, 1_000), backend)
}
