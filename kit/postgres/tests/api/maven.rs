//! A scripted Maven repository: one answer per connection; the last one repeats. Also a small archive of the kind that
//! it would hold.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postgres::fetch::Release;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// One answer.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// The file, or the requested range of it.
    Whole(Vec<u8>),
    /// The whole file, whatever range is requested.
    Deaf(Vec<u8>),
    /// As [`Answer::Whole`], but the connection ends after this many bytes.
    Cut(Vec<u8>, usize),
    /// As [`Answer::Whole`], in small pieces with pauses between them.
    Slow(Vec<u8>),
    /// An endless stream of bytes.
    Endless,
    /// A status with an empty body.
    Status(u16),
}

/// A running repository.
pub(crate) struct Maven {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<String>>>,
    _server: JoinSet<()>,
}

impl Maven {
    pub(crate) async fn start(answers: impl Into<Vec<Answer>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/maven2", listener.local_addr().expect("bound"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answers) = (Arc::clone(&requests), answers.into());
        let mut server = JoinSet::new();
        server.spawn(async move {
            for turn in 0.. {
                let Ok((mut stream, _)) = listener.accept().await else { return };
                let request = head(&mut stream).await;
                let answer = answers.get(turn).or_else(|| answers.last()).expect("an answer");
                let from = range(&request);
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(request);
                // The client may hang up at any moment.
                drop(send(&mut stream, answer, from).await);
            }
        });
        Self { url, requests, _server: server }
    }

    /// The heads of all requests, in order, in lower case.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn head(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => bytes.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&bytes).to_lowercase()
}

fn range(request: &str) -> usize {
    let line = request.lines().find_map(|line| line.strip_prefix("range: bytes="));
    line.and_then(|range| range.trim_end_matches('-').parse().ok()).unwrap_or_default()
}

async fn send(stream: &mut TcpStream, answer: &Answer, from: usize) -> std::io::Result<()> {
    match answer {
        Answer::Whole(file) => part(stream, file, from, file.len(), file.len()).await,
        Answer::Deaf(file) => part(stream, file, 0, file.len(), file.len()).await,
        Answer::Cut(file, end) => part(stream, file, from, *end, file.len()).await,
        Answer::Slow(file) => part(stream, file, from, file.len(), file.len() / 20).await,
        Answer::Endless => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await?;
            loop {
                stream.write_all(&[b'x'; 1024]).await?;
            }
        }
        Answer::Status(status) => {
            let head = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await
        }
    }
}

/// Sends `from..end` of a file in chunks, with a short pause before each chunk after the first.
async fn part(
    stream: &mut TcpStream,
    file: &[u8],
    from: usize,
    end: usize,
    piece: usize,
) -> std::io::Result<()> {
    let status = if from > 0 {
        format!("206 Partial Content\r\ncontent-range: bytes {from}-{}/{}", file.len() - 1, file.len())
    } else {
        "200 OK".to_owned()
    };
    let length = file.len() - from;
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    for piece in file.get(from..end).unwrap_or_default().chunks(piece.max(1)) {
        stream.write_all(piece).await?;
        stream.flush().await?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// A jar with a `.txz` that holds the two required programs, and the release that names it.
pub(crate) fn archive() -> (Vec<u8>, Release) {
    let mut files = tar::Builder::new(liblzma::write::XzEncoder::new(Vec::new(), 1));
    for (name, text) in [
        ("bin/postgres", "#!/bin/sh\necho 'postgres (PostgreSQL) 18.6'\n"),
        ("bin/initdb", "#!/bin/sh\n"),
        ("share/postgresql/postgres.bki", "# nothing\n"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(u64::try_from(text.len()).expect("small"));
        header.set_mode(0o755);
        files.append_data(&mut header, name, text.as_bytes()).expect("in memory");
    }
    let packed = files.into_inner().and_then(liblzma::write::XzEncoder::finish).expect("in memory");
    let mut jar = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    jar.start_file("postgres-linux-x86_64.txz", stored).expect("in memory");
    jar.write_all(&packed).expect("in memory");
    let bytes = jar.finish().expect("in memory").into_inner();
    let release = release_of(&bytes);
    (bytes, release)
}

/// A release whose archive is these bytes.
pub(crate) fn release_of(bytes: &[u8]) -> Release {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let hash = digest.as_ref().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    // A release is a constant of the program; a test's is leaked and lives as long as the test program.
    let sha256 = Box::leak(hash.into_boxed_str());
    let bytes = u64::try_from(bytes.len()).expect("small");
    Release { version: "18.6.0", platform: "linux-test", bytes, sha256 }
}

/// The cache folder of one test, removed when dropped.
pub(crate) struct Cache(pub(crate) PathBuf);

impl Cache {
    pub(crate) fn new() -> Self {
        Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cache-{}", uuid::Uuid::now_v7())))
    }

    /// The names of the cache's entries, without the lock.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| name != "postgresql.lock");
        names.sort();
        names
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
