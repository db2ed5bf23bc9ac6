//! The scripted upstream: parses HTTP/1.1 with its own strict parser, records every complete request by path, answers
//! 200 (except for held paths), and records input that is not HTTP. So a second parser checks what the gateway lets
//! through.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// More than any case sends; a greater length is a hostile one that the gateway let through.
const LARGEST: usize = 16 << 20;

/// The suffix of paths that get no answer.
const HELD: &str = "/hold";

/// One complete request.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Seen {
    /// Every value of a header.
    pub(super) fn header(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = String::from_utf8_lossy(&self.body);
        let space = if body.is_empty() { "" } else { " " };
        write!(f, "{} {}{space}{body}", self.method, self.path)
    }
}

#[derive(Default)]
struct Memory {
    seen: Vec<Seen>,
    /// Paths of requests that had started, and input that was not HTTP.
    malformed: Vec<String>,
}

/// A running upstream; stopped when dropped.
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    memory: Arc<Mutex<Memory>>,
    _server: JoinSet<()>,
}

impl Upstream {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let memory = Arc::new(Mutex::new(Memory::default()));
        let mut server = JoinSet::new();
        server.spawn(accept(listener, Arc::clone(&memory)));
        Self { address, memory, _server: server }
    }

    /// The complete requests to this path and to paths below it, in order.
    pub(super) fn seen(&self, path: &str) -> Vec<Seen> {
        let below = |seen: &&Seen| {
            let rest = seen.path.strip_prefix(path);
            rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
        };
        self.memory.lock().expect("not poisoned").seen.iter().filter(below).cloned().collect()
    }

    /// Checks that nothing of this case confused the upstream's parser.
    pub(super) fn is_whole(&self, path: &str) -> Result<(), String> {
        let memory = self.memory.lock().expect("not poisoned");
        let stumbled = memory.malformed.iter().find(|what| what.contains(path));
        stumbled.map_or(Ok(()), |what| Err(format!("the upstream read {what:?}")))
    }
}

async fn accept(listener: TcpListener, memory: Arc<Mutex<Memory>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let memory = Arc::clone(&memory);
        connections.spawn(async move {
            let mut reader = BufReader::new(stream);
            loop {
                match request(&mut reader).await {
                    // The case tests only what precedes the answer.
                    Ok(Some(seen)) if seen.path.ends_with(HELD) => std::future::pending().await,
                    Ok(Some(seen)) => memory.lock().expect("not poisoned").seen.push(seen),
                    Ok(None) => return,
                    Err(what) => {
                        memory.lock().expect("not poisoned").malformed.push(what);
                        return;
                    }
                }
                let answer =
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
                if reader.get_mut().write_all(answer).await.is_err() {
                    return;
                }
            }
        });
    }
}

type Reader = BufReader<TcpStream>;

/// The next request; `None` if the connection ended before or within it.
async fn request(reader: &mut Reader) -> Result<Option<Seen>, String> {
    let Some(first) = line(reader, "").await? else { return Ok(None) };
    let words: Vec<&str> = first.split(' ').collect();
    let [method, path, "HTTP/1.1"] = words.as_slice() else { return Err(first.clone()) };
    let mut seen = Seen {
        method: (*method).to_owned(),
        path: (*path).to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
    };
    loop {
        let Some(text) = line(reader, &seen.path).await? else { return Ok(None) };
        if text.is_empty() {
            break;
        }
        let wrong = || format!("{}: {text}", seen.path);
        let (name, value) = text.split_once(':').ok_or_else(wrong)?;
        let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(token) {
            return Err(wrong());
        }
        seen.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    body(reader, seen).await
}

async fn body(reader: &mut Reader, mut seen: Seen) -> Result<Option<Seen>, String> {
    let (lengths, codings) = (seen.header("content-length"), seen.header("transfer-encoding"));
    let wrong = format!("{}: length {lengths:?}, coding {codings:?}", seen.path);
    match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => Ok(Some(seen)),
        ([length], []) => {
            let length = length.parse().ok().filter(|length| *length <= LARGEST).ok_or(wrong)?;
            seen.body = vec![0; length];
            let read = reader.read_exact(&mut seen.body).await;
            Ok(read.is_ok().then_some(seen))
        }
        ([], ["chunked"]) => chunks(reader, seen).await,
        _ => Err(wrong),
    }
}

async fn chunks(reader: &mut Reader, mut seen: Seen) -> Result<Option<Seen>, String> {
    loop {
        let Some(size) = line(reader, &seen.path).await? else { return Ok(None) };
        let length = usize::from_str_radix(&size, 16).map_err(|_| format!("{}: chunk {size}", seen.path))?;
        if length == 0 {
            while let Some(trailer) = line(reader, &seen.path).await? {
                let Some((name, value)) = trailer.split_once(':') else { return Ok(Some(seen)) };
                seen.headers
                    .push((format!("trailer:{}", name.to_ascii_lowercase()), value.trim().to_owned()));
            }
            return Ok(None);
        }
        if length > LARGEST {
            return Err(format!("{}: chunk {size}", seen.path));
        }
        let mut chunk = vec![0; length + 2];
        if reader.read_exact(&mut chunk).await.is_err() {
            return Ok(None);
        }
        if !chunk.ends_with(b"\r\n") {
            return Err(format!("{}: a chunk without an end", seen.path));
        }
        seen.body.extend_from_slice(&chunk[..length]);
    }
}

/// A line without its CRLF; `None` at the end of the connection. A bare LF or CR does not end a line.
async fn line(reader: &mut Reader, path: &str) -> Result<Option<String>, String> {
    let mut bytes = Vec::new();
    match reader.read_until(b'\n', &mut bytes).await {
        Err(_) | Ok(0) => return Ok(None),
        Ok(_) => {}
    }
    if !bytes.ends_with(b"\n") {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&bytes);
    match text.strip_suffix("\r\n") {
        Some(line) if !line.contains(['\r', '\0']) => Ok(Some(line.to_owned())),
        _ => Err(format!("{path}: {text:?}")),
    }
}
