//! The cases as data: reads `tests/hostile/*.toml`, and expands each value of `each` into a case.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::script::fill;

/// How a case must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Class {
    /// An error answer with the envelope, then the end of the connection.
    Refused,
    /// An error answer with the envelope; the connection ends, or serves another request.
    Declined,
    /// The request reaches the upstream, as `reaches` says, and is answered.
    Passed,
    /// The connection ends without an answer. HTTP/2: with or without a GOAWAY.
    Ended,
    /// HTTP/2: the stream is reset (or the connection ended), without an answer.
    Reset,
    /// HTTP/2: it has no effect; the connection continues.
    Ignored,
}

/// The client that sends the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Http1,
    Http2,
    Slow,
}

/// One case, ready to be sent.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) id: String,
    pub(super) file: String,
    pub(super) over: Over,
    pub(super) class: Class,
    /// Any of these is allowed.
    pub(super) status: Vec<u16>,
    /// HTTP/1: the bytes. HTTP/2 and slow clients: a script, line by line.
    pub(super) send: Vec<String>,
    /// The case's own path, which identifies its requests at the upstream.
    pub(super) path: String,
    pub(super) reaches: Vec<String>,
    pub(super) upstream: BTreeMap<String, String>,
    pub(super) absent: Vec<String>,
    /// Slow clients: the earliest and the latest end of the connection, in milliseconds.
    pub(super) ends_ms: Option<(u64, u64)>,
}

/// The whole corpus.
pub(super) struct Corpus {
    pub(super) cases: Vec<Case>,
    /// Cases that are known to fail, for the reason given in the file.
    pub(super) pending: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Written>,
}

/// A case as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    class: Class,
    #[serde(default)]
    status: Vec<u16>,
    /// HTTP/1 bytes.
    send: Option<String>,
    /// HTTP/2 or slow client script.
    #[serde(default)]
    script: Vec<String>,
    /// Values of `<each>`; each makes one case.
    #[serde(default)]
    each: Vec<String>,
    reaches: Option<Vec<String>>,
    #[serde(default)]
    upstream: BTreeMap<String, String>,
    #[serde(default)]
    absent: Vec<String>,
    ends_ms: Option<(u64, u64)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pending {
    #[serde(rename = "pending")]
    _why: String,
    cases: Vec<String>,
}

impl Corpus {
    pub(super) fn read() -> Self {
        let files = [
            ("framing", include_str!("../../hostile/framing.toml")),
            ("bodies", include_str!("../../hostile/bodies.toml")),
            ("paths", include_str!("../../hostile/paths.toml")),
            ("spoofing", include_str!("../../hostile/spoofing.toml")),
            ("http2", include_str!("../../hostile/http2.toml")),
            ("slow", include_str!("../../hostile/slow.toml")),
        ];
        let mut cases = Vec::new();
        for (file, text) in files {
            let read: File = toml::from_str(text).unwrap_or_else(|error| panic!("{file}.toml: {error}"));
            for written in read.case {
                expand(file, &written, &mut cases);
            }
        }
        let pending: Pending =
            toml::from_str(include_str!("../../hostile/pending.toml")).expect("pending.toml");
        Self { cases, pending: pending.cases.into_iter().collect() }
    }
}

fn expand(file: &str, written: &Written, cases: &mut Vec<Case>) {
    let values = if written.each.is_empty() { vec![String::new()] } else { written.each.clone() };
    for (index, each) in values.iter().enumerate() {
        let number = if written.each.is_empty() { String::new() } else { format!("[{index}]") };
        let path = format!("/api/timesheet/v1/case/{}", cases.len());
        let filled = |text: &String| fill(text, &path, each);
        let over = match (file, &written.send) {
            ("slow", _) => Over::Slow,
            (_, Some(_)) => Over::Http1,
            (_, None) => Over::Http2,
        };
        let reaches = written.reaches.clone().unwrap_or_else(|| match written.class {
            Class::Passed => vec!["GET <path>".to_owned()],
            Class::Refused | Class::Declined | Class::Ended | Class::Reset | Class::Ignored => Vec::new(),
        });
        cases.push(Case {
            id: format!("{file}/{}{number}", written.name),
            file: file.to_owned(),
            over,
            class: written.class,
            status: if written.status.is_empty() { vec![400] } else { written.status.clone() },
            send: written.send.iter().chain(&written.script).map(filled).collect(),
            reaches: reaches.iter().map(filled).collect(),
            upstream: written.upstream.iter().map(|(name, value)| (name.clone(), filled(value))).collect(),
            absent: written.absent.clone(),
            ends_ms: written.ends_ms,
            path: path.clone(),
        });
    }
}
