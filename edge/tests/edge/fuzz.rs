//! Mutated input for what reads a client's bytes: the token parser, the reading of paths, the rewriting of heads. A second
//! each in a test run; `FUZZ_SECONDS=600 cargo test -p edge --test edge -- fuzz --test-threads 1` takes its time, and
//! `FUZZ_SEED` begins elsewhere. A panic or a broken promise prints the input that did it.

use std::time::{Duration, Instant};

use bearer::{BearerConfig, VerifiedTokens, Verifier};
use contract::{Clock, CorrelationId, Settings};
use edge::bench;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Method};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::backend::{Answer, Backend};
use crate::tokens::{ISSUER, Signer};

/// Most changes to one seed.
const MOST_CHANGES: usize = 6;
/// Inputs between two looks at the clock.
const BATCH: usize = 64;

/// Xorshift: reproducible, and fast enough not to be what is measured.
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
            match self.below(6) {
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
/// Runs `check` on mutated inputs until the time is over, and says how many there were.
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

#[test]
fn paths() {
    let routes = bench::Routes::new();
    let seeds: Vec<&[u8]> = vec![
        b"/api/timesheet/v1/companies/7/projects?a=1",
        b"/api/org/companies/01890a5d-ac96-774b-bcce-b302099a8057/members",
        b"/api/platform/admin/platform-roles/platform-superadmin/f%3A1",
        b"/auth/realms/platform/protocol/openid-connect/token",
        b"/realms/platform/../../admin",
        b"/api/timesheet/v1/../../../internal/authz/grants",
        b"/auth/%2561dmin;x=1//realms/master",
        b"/healthz",
    ];
    let words: Vec<&[u8]> = vec![
        b"/",
        b"//",
        b"/./",
        b"/../",
        b"..",
        b"%2e",
        b"%2E%2e",
        b"%2f",
        b"%5c",
        b"\\",
        b"%00",
        b"%25",
        b"%252e",
        b";",
        b"?",
        b"#",
        b"%",
        b"%zz",
        b"admin",
        b"realms/master",
        b"internal",
        b"api/",
        b"auth/",
        b"health",
        b"\xc3\xbc",
        b"*",
        b" ",
    ];
    fuzz("paths", &seeds, &words, |input| {
        let Ok(path) = std::str::from_utf8(input) else { return };
        for method in [Method::GET, Method::POST] {
            let Some(label) = routes.resolve(&method, path) else { continue };
            // Where the decision looks, what was decided on is what goes upstream.
            let deciding: Vec<&str> = path.trim_start_matches('/').split('/').take(3).collect();
            let odd =
                |segment: &&&str| segment.contains(['%', '\\', '\0']) || matches!(**segment, "." | "..");
            let of_api = label.starts_with("/api/");
            assert!(!of_api || path.starts_with("/api/"), "{label}");
            assert!(!of_api || !deciding.iter().take(2).any(|segment| odd(&segment)), "{label}");
            assert!(!path.starts_with("/internal"), "{label}");
        }
    });
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
        assert!(verified.is_err() || good.iter().any(|good| good == token), "a token that nobody signed");
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
